"""Ctrl-C at any moment of a command: exit code 130, one line, and no partial file."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.app.cli.commands import METRIC, graded, ok, saved, tagged

PROGRAM = Path(__file__).with_name("interrupted.py")
QUICK = (  # forty steps
    *("--solver", "adam", "--max-iter", 5, "--batch-size", 20),
    *("--transport-weight", 0, "--test", 0.2),
)
OUT = "m.wassloss"


def interrupted(when: str, *words: object) -> tuple[int, str, str]:
    """Run a command that is interrupted; return its exit code and output."""
    done = subprocess.run(
        [sys.executable, PROGRAM, when, *map(str, words)],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        env={**os.environ, "OMP_NUM_THREADS": "1"},
    )
    return done.returncode, done.stdout, done.stderr


@pytest.fixture
def data(tmp_path: Path) -> Path:
    METRIC.save(tmp_path / "metric.npz")
    return saved(graded(parts=False), tmp_path / "data.csv")


@pytest.mark.parametrize(
    "module",
    [
        "torch",
        "wassloss.app.cli.train",
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("torch.nn", "numpy", "typer", "pandas", "scipy.linalg", "sklearn")
        ),
    ],
)
def test_while_it_imports(module: str, data: Path, tmp_path: Path) -> None:
    words = ("train", data, "--metric", tmp_path / "metric.npz", "--out", tmp_path / OUT, *QUICK)
    assert interrupted(module, *words) == (130, "", "Interrupted.\n")
    assert not (tmp_path / OUT).exists()


@pytest.mark.slow
def test_while_it_trains(data: Path, tmp_path: Path) -> None:
    """Before the data are read, and while the model is written: no file, or a whole one."""
    words = ("train", data, "--metric", tmp_path / "metric.npz", "--out", tmp_path / OUT, *QUICK)
    before = set(tmp_path.iterdir())
    code, out, said = interrupted("data.csv.", *words)
    assert (code, out, said) == (130, "", "Interrupted.\n")
    assert set(tmp_path.iterdir()) == before
    code, _, said = interrupted(f"{OUT}.", *words)
    assert (code, said) == (130, "Interrupted.\n")
    assert set(tmp_path.iterdir()) <= {*before, tmp_path / OUT}  # no temporary file
    ok(*words, "--overwrite")


def test_while_it_compares(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [f"{x:.3f},{int(x + rng.normal() > 0)}" for x in rng.normal(size=120)]
    (tmp_path / "data.csv").write_text("\n".join(["x,label", *rows]))
    words = ("compare", tmp_path / "data.csv", "--jobs", 1, "--out", tmp_path / "cmp")
    code, _, said = interrupted("model.wassloss.", *words)
    assert (code, said) == (130, "Interrupted.\n")
    ok(*words, "--overwrite")
    left = {path.name for path in (tmp_path / "cmp").iterdir()}
    assert left == {"comparison.json", "model.wassloss", "report.html"}


@pytest.mark.parametrize(
    "line",
    [
        pytest.param("evaluate {0}/m.wassloss", marks=pytest.mark.slow),
        "report {0}/m.wassloss --out {0}/report.html",
        pytest.param("predict {0}/m.wassloss {0}/data.csv", marks=pytest.mark.slow),
        pytest.param("metric show {0}/metric.npz", marks=pytest.mark.slow),
    ],
)
def test_other_commands(line: str, tmp_path: Path) -> None:
    data = saved(tagged(), tmp_path / "data.csv")
    METRIC.save(tmp_path / "metric.npz")
    words = ("--metric", tmp_path / "metric.npz", "--tol", 0.1, "--transport-weight", 0)
    ok("train", data, *words, "--out", tmp_path / OUT)
    when = "metric.npz." if "metric show" in line else "data.csv."
    found = interrupted(when, *(word.format(tmp_path) for word in line.split()))
    assert found == (130, "", "Interrupted.\n")
    assert not (tmp_path / "report.html").exists()


@pytest.mark.slow
def test_a_demonstration(tmp_path: Path) -> None:
    found = interrupted("report.html.", "demo", "--quick", "--seeds", 1, "--out", tmp_path)
    assert (found[0], found[2]) == (130, "Interrupted.\n")


def test_at_exit() -> None:
    code, out, said = interrupted("exit", "--version")
    assert (code, said) == (130, "Interrupted.\n")
    assert out.startswith("wassloss ")


@pytest.mark.slow
def test_a_command_that_was_told_to_ignore_it(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with `nohup`, and for background processes of shells."""
    monkeypatch.setenv("IGNORE_INTERRUPTS", "1")
    words = ("train", data, "--metric", tmp_path / "metric.npz", "--out", tmp_path / OUT, *QUICK)
    code, _, said = interrupted("torch", *words)
    assert code == 0, said
    assert (tmp_path / OUT).exists()
