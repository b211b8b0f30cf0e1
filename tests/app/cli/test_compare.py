"""`wassloss compare`: from a raw table to a model that predicts."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import wassloss as wl
from tests.app.cli.commands import failed, ok, opened, wassloss, wine_table

pytestmark = pytest.mark.filterwarnings("default::wassloss.app._messages.DataWarning")


@pytest.fixture(scope="module")
def wine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wine_table(tmp_path_factory.mktemp("table") / "wine.csv")


MODEL = "model.wassloss"
WORDS = ("--label-column", "grade", "--metric", "ordinal", "--order", "poor,fair,good")


def test_from_a_table_to_predictions(wine: Path, tmp_path: Path) -> None:
    out = tmp_path / "cmp"
    done = ok("compare", wine, *WORDS, "--group", "maker", "--jobs", 1, "--out", out)
    assert "240 rows" in done.stdout
    assert "column 'id' looks like row numbers" in done.stderr
    assert "held-out rows the mean distance is" in done.stdout
    for name in ("cross-entropy", "W + KL", "softened", "ridge"):
        assert name in done.stdout
    lines = done.stdout.splitlines()
    start = next(i for i, line in enumerate(lines) if line.startswith("loss "))
    shown = [line.split()[0] for line in lines[start + 1 : start + 8]]
    assert shown == ["cross-entropy", "W", "softened"] * 2 + ["ridge"]  # no line is wrapped
    assert lines[start - 1].split() == ["mean"]
    assert lines[start].split()[3:5] == ["distance", "NLL"]
    assert lines[start + 8].startswith("change: of mean distance from the first row, 95 % interval")
    assert max(map(len, lines[start : start + 9])) <= 80
    found = json.loads((out / "comparison.json").read_text())
    assert "label, as chosen in tuning (" in found["answer"]
    assert "% (cross-entropy) and" in found["answer"]
    page = (out / "report.html").read_text()
    assert found["answer"] in page
    for name in ("distances", "frontier", "mended", "made", "confusion", "scores"):
        assert f'<section id="{name}">' in page
    assert len(found["rows"]) == 7

    assert {path.name for path in out.iterdir()} == {"comparison.json", MODEL, "report.html"}

    model = out / MODEL
    assert f"Use it: wassloss predict {out} NEW.csv" in done.stdout
    plain = ok("predict", model, wine, "--top", 2).stdout.splitlines()
    assert plain[0] == "row,label_1,probability_1,label_2,probability_2"
    assert len(plain) == 241
    with wine.open() as file:
        rows = list(csv.DictReader(file))
    shuffled = tmp_path / "shuffled.csv"
    with shuffled.open("w", newline="") as file:
        order = ["organic", "id", "extra", "cellar", "acid", "maker"]
        writer = csv.DictWriter(file, order, extrasaction="ignore")
        writer.writeheader()
        writer.writerows({**row, "extra": "x"} for row in rows)
    assert ok("predict", model, shuffled, "--top", 2).stdout.splitlines() == plain
    answers = [line.split(",")[1] for line in plain[1:]]
    assert np.mean([a == row["grade"] for a, row in zip(answers, rows, strict=True)]) > 0.7


def test_its_model_is_like_any_other(wine: Path, tmp_path: Path) -> None:
    """Every command, and Python, take the file."""
    out, page = tmp_path / "cmp", tmp_path / "report.html"
    done = ok("compare", wine, *WORDS, "--drop", "id", "--jobs", 1, "--out", out)
    about = json.loads((out / "comparison.json").read_text())
    saved, path = about["saved"], out / MODEL
    assert f"Model: {saved['loss']}, {saved['decision'].replace(' ', '-')} label" in done.stdout
    frame = pd.read_csv(wine)
    new = tmp_path / "new.csv"
    frame.assign(acid=np.arange(len(frame)) / 100).to_csv(new, index=False)
    model = opened(path)
    assert model.origin["answer"] == about["answer"]
    assert model.classifier.decision == saved["decision"].replace(" ", "_")
    assert model.classifier.alpha == saved["settings"]["alpha"]
    answers = wl.load(path).predict(frame[frame.columns[::-1]])
    lines = ok("predict", path, wine, "--top", 1).stdout.splitlines()[1:]
    assert [line.split(",")[1] for line in lines] == answers.tolist()
    told = json.loads(ok("evaluate", path, wine, "--json").stdout)
    right = model.classes_[model.predict_proba(frame).argmax(1)] == frame["grade"]
    assert told["scores"]["accuracy"] == pytest.approx(right.mean())
    assert "was trained on 240 of 240 rows" in failed("report", path, "--data", wine)
    ok("report", path, "--data", new, "--out", page)
    assert "is WassersteinClassifier(" in page.read_text()
    for command in ("evaluate", "report"):
        assert "fitted to all its rows: pass other data to score it on" in failed(command, path)


def test_features_that_are_chosen(wine: Path, tmp_path: Path) -> None:
    out = tmp_path / "cmp"
    words = ("--features", "acid,cellar", "--model", "linear", "--jobs", 1, "--out", out)
    ok("compare", wine, *WORDS, *words)
    new = tmp_path / "new.csv"
    new.write_text("acid,cellar\n1.0,old\n")
    ok("predict", out / MODEL, new)
    new.write_text("acid\n1.0\n")
    assert "it lacks the column 'cellar'; it has" in failed("predict", out / MODEL, new)


def test_mistakes_of_users(wine: Path, tmp_path: Path) -> None:
    said = failed("compare", wine, "--out", tmp_path / "x")
    assert "lacks a column 'label'" in said
    assert "--label-column grade?" in said
    assert "grade?" in failed("compare", wine, "--label-column", "grades")
    said = failed("compare", wine, "--label-column", "grade", "--drop", "idd")
    assert "did you mean 'id'" in said
    assert "pass order, such as --order fair,good,poor" in failed(
        "compare", wine, *WORDS[:4], "--drop", "id"
    )
    assert not (tmp_path / "x").exists()


def test_the_part_to_test_on_is_held_out(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    values = enumerate(rng.normal(size=120))
    rows = [f"{x:.3f},{int(x > 0)},{'test' if i < 30 else 'train'}" for i, x in values]
    data, out = tmp_path / "x.csv", tmp_path / "cmp"
    data.write_text("\n".join(["x,label,part", *rows]))
    ok("compare", data, "--jobs", 1, "--out", out)
    assert "90 training rows and 30 held-out rows" in (out / "report.html").read_text()
    data.write_text(data.read_text().replace("train", "engine").replace("test", "wheel"))
    result = wassloss("compare", data, "--out", tmp_path / "other")
    assert result.exit_code == 1
    warned, said = result.stderr.splitlines()
    assert "divides the rows into 'wheel', 'engine' and is not a feature" in warned
    assert "if that column is a feature, rename it" in said


def test_tags_are_for_train(tmp_path: Path) -> None:
    said = failed("compare", "clipart", "--metric", "discrete", "--out", tmp_path / "cmp")
    assert "must have one label per example to be compared: `wassloss train` takes several" in said
