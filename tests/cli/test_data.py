"""`wassloss data ...`, as its user runs it."""

from pathlib import Path

import pytest

pytest.importorskip("typer")
from typer.testing import CliRunner

from wassloss import data
from wassloss.cli.data import app
from wassloss.data import Dataset


def run(*arguments: object) -> str:
    result = CliRunner().invoke(app, [str(one) for one in arguments], catch_exceptions=False)
    assert result.exit_code == 0, result.output
    return result.output


def test_show() -> None:
    shown = run("show", "clipart", "--examples", 2)
    assert "3159 examples" in shown
    assert shown.count("nearest to") == 2


def test_show_a_file(tmp_path: Path) -> None:
    data.write(Dataset([[0.0], [1.0]], [0, 1], label_names=("a", "b")), tmp_path / "d.npz")
    assert "2 examples, 1 feature, 2 labels" in run("show", tmp_path / "d.npz")
    with pytest.raises(ValueError, match="NAME must be clipart or a file, got 'nope'"):
        run("show", "nope")


def test_get_needs_a_known_name() -> None:
    with pytest.raises(ValueError, match="name must be one of glove, word2vec, got 'nope'"):
        run("get", "nope")
