"""`wassloss data ...`, as its user runs it."""

from pathlib import Path

import pytest

pytest.importorskip("typer")
from typer.testing import CliRunner

from tests.data.tables import saved
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
    data = Dataset([[0.0], [1.0]], [0, 1], label_names=("a", "b"))
    assert "2 examples, 1 feature, 2 labels" in run("show", saved(data, tmp_path / "d.npz"))
    with pytest.raises(ValueError, match=r"path must end in one of .* got 'nope'"):
        run("show", "nope")


def test_show_what_becomes_of_columns(tmp_path: Path) -> None:
    path = tmp_path / "wine.csv"
    rows = ["7,1.5,old,x,good", "3,,new,x,poor", "9,2.5,old,x,good"]
    path.write_text("\n".join(["id,acid,cellar,land,grade", *rows]))
    words = ("show", path, "--label-column", "grade", "--order", "poor,fair,good")
    shown = run(*words, "--drop", "id")
    assert "3 labels" in shown
    assert shown.endswith("""columns:
  acid: number, 2 in gaps
  cellar: category, 2 levels: 'new', 'old'
""")
    assert "columns:\n  id: number\n" in run(*words, "--features", "id")
