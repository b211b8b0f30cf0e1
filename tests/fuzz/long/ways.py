"""Make one call with compiled code and with torch only, and check how it ends."""

from __future__ import annotations

import re
import traceback
import warnings
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import wassloss as wl
from tests.evaluators import without_native
from tests.fuzz.outcome import too_much

SOURCES = Path(wl.__file__).parent
CONVERGED = re.compile(r"Solution\((\d+) of (\d+) converged")


class WrongAnswerError(AssertionError):
    """A wrong answer, and the example of the batch that shows it."""

    def __init__(self, message: str, example: int | None = None) -> None:
        super().__init__(message)
        self.example = example


@dataclass(frozen=True)
class Outcome:
    """The result of a call: an answer, or the message of its refusal."""

    answer: Any = None
    refusal: str = ""
    doubtful: int = 0  # number of examples in a ConvergenceWarning


def run(call: Callable[[], Any]) -> Outcome:
    """Make the call; undocumented errors and warnings are raised."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("error")
        warnings.simplefilter("always", wl.ConvergenceWarning)
        try:
            answer = call()
        except (ValueError, TypeError) as error:
            # Documented errors are raised by wassloss; those of torch or NumPy are bugs.
            raised_in = Path(traceback.extract_tb(error.__traceback__)[-1].filename)
            if SOURCES not in raised_in.parents:
                raise
            return Outcome(refusal=str(error) or repr(error))
    return Outcome(answer, doubtful=sum(_unconverged(str(w.message)) for w in caught))


def _unconverged(message: str) -> int:
    found = CONVERGED.search(message)
    if found is None:
        raise WrongAnswerError(
            f"a ConvergenceWarning that does not say how many converged: {message}"
        )
    return int(found[2]) - int(found[1])


@contextmanager
def torch_only() -> Iterator[None]:
    """Behave as if there were no compiled core."""
    with pytest.MonkeyPatch.context() as patch:
        without_native(patch)
        yield


WAYS: dict[str, Callable[[], Any]] = {"compiled": nullcontext, "torch": torch_only}


def both_ways(call: Callable[[], Any]) -> dict[str, Outcome]:
    """Make the same call compiled and by torch alone; refusals must agree."""
    found = {}
    for name, way in WAYS.items():
        with way():
            found[name] = run(call)
    # A sum that overflows may be inf in one and NaN in the other.
    complaints = {outcome.refusal.split(", got ")[0] for outcome in found.values()}
    if len(complaints) > 1:
        raise WrongAnswerError(
            f"refused one way only: compiled {found['compiled'].refusal!r}, torch "
            f"{found['torch'].refusal!r}"
        )
    return found


def check_refusal(
    refusal: str, justified: bool, strengths: Iterable[float], dtype_most: float
) -> None:
    """A valid problem may be refused only if it overflows the dtype.

    `justified` tells whether its numbers are too large. A refused division is only justified by one
    of the `strengths` whose inverse overflows.
    """
    if not too_much(refusal):
        raise WrongAnswerError(f"refused: {refusal}")
    if "can divide by" in refusal:
        justified = any(0 < strength * dtype_most < 1 for strength in strengths)
    if not justified:
        raise WrongAnswerError(f"refused although the dtype holds every number of it: {refusal}")
