"""Pieces of work that are kept, and never mistaken for others."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from wassloss.estimators.pieces import Pieces


class Counted:
    """A function that counts its calls."""

    def __init__(self, fails_at: int | None = None) -> None:
        self.calls, self.fails_at, self.__name__ = 0, fails_at, "counted"

    def __call__(self, a: int, b: float) -> dict[str, float]:
        if self.calls == self.fails_at:
            raise KeyboardInterrupt
        self.calls += 1
        return {"sum": a + b}


PIECES = [(1, 0.1), (2, 0.2), (3, 0.3)]
SUMS = [{"sum": a + b} for a, b in PIECES]


def pieces(directory: Path | None, shared: Any = 0, progress: Any = None) -> Pieces:
    return Pieces(shared, directory, None, progress)


def test_an_interrupted_call_goes_on(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        pieces(tmp_path / "kept").run(Counted(fails_at=2), PIECES)
    assert len(list((tmp_path / "kept").iterdir())) == 2
    again, told = Counted(), []
    found = pieces(tmp_path / "kept", progress=lambda *x: told.append(x)).run(again, PIECES, 4)
    assert (found, again.calls) == (SUMS, 1)
    assert told == [(2, 7), (3, 7)]


@pytest.mark.parametrize("other", [np.arange(4.0) + 1, np.arange(4), [0.0, 1.0, 2.0, 3.0]])
def test_other_data_have_answers_of_their_own(tmp_path: Path, other: Any) -> None:
    pieces(tmp_path, np.arange(4.0)).run(Counted(), PIECES)
    again, new = Counted(), Counted()
    pieces(tmp_path, np.arange(4.0)).run(again, PIECES)
    pieces(tmp_path, other).run(new, PIECES)
    assert (again.calls, new.calls) == (0, 3)


def test_a_damaged_file_is_computed_again(tmp_path: Path) -> None:
    pieces(tmp_path).run(Counted(), PIECES)
    one, other, _ = sorted(tmp_path.iterdir())
    one.write_bytes(one.read_bytes()[:-9])
    other.write_text("{}")
    again = Counted()
    assert pieces(tmp_path).run(again, PIECES) == SUMS
    assert again.calls == 2
    assert pieces(tmp_path).run(again, PIECES) == SUMS
    assert again.calls == 2


def test_nothing_is_kept_unless_asked_for() -> None:
    assert pieces(None).run(Counted(), PIECES) == SUMS
