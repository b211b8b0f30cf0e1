"""A model is never evaluated on rows that it was trained on without a warning."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

import wassloss as wl
from tests.app.cli.commands import failed, ok

pytestmark = pytest.mark.filterwarnings("default::wassloss.app._messages.DataWarning")
TRAIN = ("--metric", "ordinal", "--hidden-layer-sizes", 64, "--solver", "adam", "--alpha", 0)
QUICK = ("--metric", "ordinal", "--tol", 0.1)


def noise(count: int, seed: int = 0, gaps: bool = False) -> list[str]:
    """Rows whose labels are independent of their features."""
    rng = np.random.default_rng(seed)
    rows = []
    for i in range(count):
        words = [f"{x:.4f}" for x in rng.normal(size=4)]
        words[0] = "" if gaps and i % 3 == 0 else words[0]
        rows.append(",".join([*words, rng.choice(["red", "blue"]), str(rng.integers(4))]))
    return rows


def table(path: Path, rows: list[str], more: str = "") -> Path:
    path.write_text("\n".join([f"a,b,c,d,colour,label{more}", *rows]))
    return path


def shuffled(rows: list[str]) -> list[str]:
    return [rows[i] for i in np.random.default_rng(1).permutation(len(rows))]


@pytest.mark.parametrize("gaps", [False, True])
def test_a_report_on_a_file_that_was_shuffled(gaps: bool, tmp_path: Path) -> None:
    """Both runs hold out the same row numbers of one file, but different rows."""
    rows = noise(160, gaps=gaps)
    data = table(tmp_path / "data.csv", rows)
    words = ("--test", 0.25, *QUICK)
    ok("train", data, *words, "--out", tmp_path / "a.wassloss")
    table(data, shuffled(rows))
    ok("train", data, *words, "--out", tmp_path / "b.wassloss")
    page = ("--out", tmp_path / "page.html")
    both = (tmp_path / "b.wassloss", tmp_path / "a.wassloss")
    said = failed("report", *both, *page)
    assert f"data.csv has changed since {both[1]} was trained on it" in said
    said = failed("report", *both, "--data", data, *page)
    assert f"{both[1]} was trained on " in said
    assert "of 40 rows" in said
    assert "hold the same rows out of all models" in said
    assert not (tmp_path / "page.html").exists()
    new = table(tmp_path / "new.csv", noise(50, seed=7, gaps=gaps))
    ok("report", tmp_path / "b.wassloss", tmp_path / "a.wassloss", "--data", new, *page)
    assert "trained on" not in (tmp_path / "page.html").read_text().split("<main>")[0]


def test_a_report_on_a_part_that_one_run_dropped(tmp_path: Path) -> None:
    rows = [f"{row},{'test' if i % 4 == 0 else 'train'}" for i, row in enumerate(noise(160))]
    data = table(tmp_path / "data.csv", rows, ",part")
    ok("train", data, *QUICK, "--out", tmp_path / "b.wassloss")
    ok("train", data, *QUICK, "--drop", "part", "--out", tmp_path / "a.wassloss")
    said = failed("report", tmp_path / "b.wassloss", tmp_path / "a.wassloss", "--data", data)
    assert f"{tmp_path / 'a.wassloss'} was trained on 40 of 40 rows (100 %)" in said
    cases = (("b", ("--part", "test"), 0), ("b", ("--part", "train"), 120), ("a", (), 160))
    for run, part, count in cases:
        told = ok("evaluate", tmp_path / f"{run}.wassloss", data, *part, "--json")
        assert json.loads(told.stdout)["trained_on"] == count
        assert ("are training rows of the model" in told.stderr) == (count > 0)


def test_the_model_of_a_comparison(tmp_path: Path) -> None:
    rows = noise(120)
    data, out = table(tmp_path / "data.csv", rows), tmp_path / "cmp"
    ok("compare", data, "--metric", "ordinal", "--jobs", 1, "--out", out)
    mixed = table(tmp_path / "mixed.csv", [*shuffled(rows)[:30], *noise(10, seed=9)])
    told = ok("evaluate", out / "model.wassloss", mixed)
    assert "warning: 30 of 40 rows (75 %) are training rows of the model" in told.stderr
    said = failed("report", out / "model.wassloss", "--data", mixed)
    assert "was trained on 30 of 40 rows (75 %)" in said
    new = table(tmp_path / "new.csv", noise(20, seed=5))
    assert "trained on" not in ok("evaluate", out / "model.wassloss", new).stderr
    ok("report", out / "model.wassloss", "--data", new, "--out", tmp_path / "page.html")


def test_rows_that_are_equal_by_chance_are_no_reason_to_refuse(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [",".join(str(x) for x in rng.integers(2, size=6)) for _ in range(200)]
    data, run, page = (
        table(tmp_path / "data.csv", rows),
        tmp_path / "run.wassloss",
        tmp_path / "page.html",
    )
    ok("train", data, *QUICK, "--test", 0.25, "--out", run)
    told = ok("evaluate", run, "--json")
    assert "(100 %) equal training rows of the model, no more than expected by chance" in (
        told.stderr
    )
    ok("report", run, "--out", page)
    assert "50 of 50 rows (100 %) equal training rows of run, no more than" in (page.read_text())


def test_a_model_that_does_not_know_is_judged_all_the_same(tmp_path: Path) -> None:
    rows = [f"{x:.3f},{x > 0}" for x in np.random.default_rng(0).normal(size=60)]
    data = tmp_path / "data.csv"
    data.write_text("\n".join(["x,label", *rows]))
    X, y = np.array([[float(row.split(",")[0])] for row in rows]), [r.split(",")[1] for r in rows]
    wl.WassersteinClassifier(tol=0.1).fit(X, y).save(tmp_path / "model")
    told = ok("evaluate", tmp_path / "model", data, "--json")
    assert json.loads(told.stdout)["trained_on"] is None
