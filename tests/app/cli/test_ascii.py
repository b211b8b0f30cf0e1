"""Every command works on terminals that support only ASCII."""

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner, Result

import wassloss as wl
from tests.app.cli.commands import process, saved
from wassloss.app.cli.app import app

NAMES = ("blé", "Ö", "λ", "x")
QUICK = ("--tol", 0.1)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("ascii")
    x = np.random.default_rng(0).normal(size=(60, 4))
    frame = pd.DataFrame(x, columns=list("abcd"))
    frame["label"] = np.array(NAMES)[x.argmax(1)]
    frame["part"] = np.repeat(["train", "test"], [36, 24])
    saved(frame, place / "data.parquet")
    wl.ground.Ordinal(4, labels=NAMES).save(place / "metric.npz")
    (place / "taxonomy.csv").write_text("name,parent\nblé,\nÖ,blé\nλ,blé\n", encoding="utf-8")
    words = (
        "train",
        place / "data.parquet",
        "--metric",
        place / "metric.npz",
        "--out",
        place / "m.wassloss",
    )
    (place / "wrong.csv").write_text("u,label\n1,blé\nÖ,λ\n", encoding="utf-8")
    assert ascii_only(*words, *QUICK).exit_code == 0
    return place


def ascii_only(*words: object) -> Result:
    """Run a command in this process with ASCII output."""
    runner = CliRunner(charset="ascii")
    return runner.invoke(app, [str(word) for word in words], prog_name="wassloss")


@pytest.mark.parametrize(
    "line",
    [
        "train {0}/data.parquet --metric {0}/metric.npz --out {0}/other.wassloss --tol 0.1",
        "evaluate {0}/m.wassloss",
        "evaluate {0}/m.wassloss --json",
        "predict {0}/m.wassloss {0}/data.parquet --top 4",
        "report {0}/m.wassloss --out {0}/report.html",
        "metric show {0}/taxonomy.csv",
        "metric show {0}/metric.npz --near blé",
        "metric show clipart",
        pytest.param("demo --quick --seeds 2 --out {0}/demo", marks=pytest.mark.slow),
        "--help",
        "train --help",
        "metric show --help",
    ],
)
def test_commands(line: str, folder: Path) -> None:
    done = ascii_only(*(word.format(folder) for word in line.split()))
    assert done.exit_code == 0, done.output
    assert done.stdout.isascii()
    assert done.stdout
    assert done.stderr.isascii()


def test_errors(folder: Path) -> None:
    for words in (("metric", "show", folder / "metric.npz", "--near", "é"), ("train", "Ö.csv")):
        done = ascii_only(*words)
        assert done.exit_code == 1
        assert done.stderr.startswith("error: ")
        assert done.stderr.isascii()


def test_what_ascii_lacks_is_escaped(folder: Path) -> None:
    said = ascii_only("evaluate", folder / "m.wassloss").stdout
    assert r"\xb1 s.e." in said
    assert r"accuracy \u2191" in said
    shown = ascii_only("metric", "show", folder / "metric.npz").stdout
    assert r"bl\xe9" in shown


def test_predictions_are_escaped_too(folder: Path) -> None:
    said = ascii_only("predict", folder / "m.wassloss", folder / "data.parquet", "-k", 4).stdout
    assert {r"bl\xe9", r"\xd6", r"\u03bb"} <= set(said.replace("\n", ",").split(","))


@pytest.mark.parametrize(
    "settings",
    [
        pytest.param({"PYTHONIOENCODING": "ascii"}, marks=pytest.mark.slow),
        {"LC_ALL": "C", "PYTHONCOERCECLOCALE": "0", "PYTHONUTF8": "0"},
    ],
    ids=["PYTHONIOENCODING", "LC_ALL"],
)
def test_processes(settings: dict[str, str], folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    commands = [("metric", "show", folder / "metric.npz"), ("evaluate", folder / "m.wassloss")]
    for words in commands:
        started = process(*words)
        out, said = started.communicate(timeout=100)
        assert started.returncode == 0, said
        assert said == ""
        assert out.isascii()


def test_a_terminal_that_holds_more_is_left_as_it_is(folder: Path) -> None:
    said = CliRunner().invoke(app, ["evaluate", str(folder / "m.wassloss")]).stdout
    assert "± s.e." in said
    assert "accuracy ↑" in said
