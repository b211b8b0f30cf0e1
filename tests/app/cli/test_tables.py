"""`wassloss train` on tables as people have them: the same reading as `wassloss compare`."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

import wassloss as wl
from tests.app.cli.commands import failed, ok, opened, same_weights, wine_table
from wassloss.app.evaluation import judge

pytestmark = pytest.mark.filterwarnings("default::wassloss.app._messages.DataWarning")

WORDS = ("--label-column", "grade", "--metric", "ordinal", "--order", "poor,fair,good")
QUICK = ("--tol", 0.001)


@pytest.fixture(scope="module")
def wine(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return wine_table(tmp_path_factory.mktemp("table") / "wine.csv")


def rows_of(path: Path) -> list[dict[str, str]]:
    with path.open() as file:
        return list(csv.DictReader(file))


def written(path: Path, rows: list[dict[str, str]], order: list[str]) -> Path:
    with path.open("w", newline="") as file:
        writer = csv.DictWriter(file, order, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    return path


def test_from_a_table_as_it_is_to_predictions(wine: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.wassloss"
    done = ok("train", wine, *WORDS, "--test", 0.25, "--out", path, *QUICK)
    assert "column 'id' looks like row numbers: drop it" in done.stderr
    assert "test: 60 examples" in done.stdout
    model = opened(path)
    assert model.labels == ("poor", "fair", "good")
    assert model.encoder.columns == ("id", "acid", "organic", "cellar", "maker")
    told = json.loads(ok("evaluate", path, "--json").stdout)
    assert (told["part"], told["examples"]) == ("test", 60)
    assert told["scores"]["accuracy"] > 0.65

    plain = ok("predict", path, wine, "--top", 2).stdout
    rows = rows_of(wine)
    order = ["organic", "id", "cellar", "acid", "maker"]
    shuffled = written(tmp_path / "shuffled.csv", rows, order)
    assert ok("predict", path, shuffled, "--top", 2).stdout == plain
    frame = pd.read_csv(shuffled)
    answers = [line.split(",")[1] for line in plain.splitlines()[1:]]
    assert wl.load(path).predict(frame).tolist() == answers
    # A level and a gap that training did not have; a column that is gone.
    new = [{**rows[1], "cellar": "under water", "maker": "", "acid": "NA"}]
    odd = written(tmp_path / "odd.csv", new, order)
    assert len(ok("predict", path, odd).stdout.splitlines()) == 2
    said = failed("predict", path, written(tmp_path / "few.csv", rows, order[:3]))
    assert "few.csv cannot be read as data: it lacks the columns 'acid', 'maker'; it has" in said
    said = failed("predict", path, written(tmp_path / "bad.csv", [{**rows[1], "acid": "x"}], order))
    assert "bad.csv cannot be read as data: line 2, column 'acid': expected a number" in said


def test_what_is_held_out_is_never_trained_on(wine: Path, tmp_path: Path) -> None:
    """Other features of the rows held out do not change what is learned."""
    words = (*WORDS, "--drop", "id", "--test", 0.25, *QUICK)
    ok("train", wine, *words, "--out", tmp_path / "a.wassloss")
    held = set(judge(opened(tmp_path / "a.wassloss")).examples.rows.tolist())
    assert len(held) == 60
    changed = {"acid": "", "organic": "True", "cellar": "under water"}
    rows = [row | (changed if i in held else {}) for i, row in enumerate(rows_of(wine))]
    other = written(tmp_path / "other.csv", rows, list(rows[0]))
    ok("train", other, *words, "--out", tmp_path / "b.wassloss")
    assert same_weights(tmp_path / "a.wassloss", tmp_path / "b.wassloss")


def test_groups_stay_together(wine: Path, tmp_path: Path) -> None:
    path = tmp_path / "m.wassloss"
    words = ("--group", "maker", "--drop", "id", "--test", 0.25)
    ok("train", wine, *WORDS, *words, "--out", path, *QUICK)
    model = opened(path)
    assert "maker" not in model.encoder.columns
    held = judge(model).examples.rows
    makers = np.array([row["maker"] for row in rows_of(wine)])
    assert set(makers[held])
    assert not set(makers[held]) & set(np.delete(makers, held))


def test_train_and_compare_read_alike(wine: Path, tmp_path: Path) -> None:
    words = (*WORDS, "--drop", "id", "--test", 0.25)
    ok("train", wine, *words, "--out", tmp_path / "m.wassloss", *QUICK)
    ok("compare", wine, *words, "--jobs", 1, "--out", tmp_path / "cmp")
    one, two = opened(tmp_path / "m.wassloss"), opened(tmp_path / "cmp" / "model.wassloss")
    assert one.encoder.columns == two.encoder.columns
    assert one.origin["options"] == two.origin["options"]
    assert one.classes_.tolist() == two.classes_.tolist() == ["fair", "good", "poor"]


def test_train_and_compare_score_the_same_model_alike(wine: Path, tmp_path: Path) -> None:
    words = (*WORDS, "--drop", "id", "--test", 0.25)
    ok("compare", wine, *words, "--jobs", 1, "--out", tmp_path / "cmp")
    found = json.loads((tmp_path / "cmp" / "comparison.json").read_text())
    settings = found["saved"]["settings"]
    chosen = [each for name, v in settings.items() for each in (f"--{name.replace('_', '-')}", v)]
    ok("train", wine, *words, *chosen, "--out", tmp_path / "m.wassloss")
    scores = json.loads(ok("evaluate", tmp_path / "m.wassloss", "--json").stdout)["scores"]
    row = next(r for r in found["rows"] if r[:2] == [found["saved"]["loss"], "probable"])
    assert row[2] == f"{100 * scores['accuracy']:.1f} %"
    assert row[3] == f"{scores['mean_distance']:.3f}"


def test_groups_and_labels_of_the_part_to_test_on(tmp_path: Path) -> None:
    path, out = tmp_path / "x.csv", tmp_path / "m.wassloss"
    rows = [f"{i * 7 % 20},{i % 2},{i // 2},{'test' if i < 5 else 'train'}" for i in range(20)]
    path.write_text("\n".join(["x,label,who,part", *rows]))
    said = failed("train", path, "--metric", "discrete", "--group", "who", "--out", out)
    assert "groups must not have both training and held-out rows" in said
    rows[0] = "0,9,0,test"
    path.write_text("\n".join(["x,label,who,part", *rows]))
    for metric in ("discrete", "ordinal"):
        said = failed("train", path, "--metric", metric, "--out", out)
        assert "every class in the training rows, got 9 only in" in said
    ok("train", path, "--metric", "discrete", "--order", "0,1,9", "--tol", 0.1, "--out", out)


def test_the_model_is_that_of_python(wine: Path, tmp_path: Path) -> None:
    frame = pd.read_csv(wine)[["organic", "id", "grade"]].astype({"organic": float})
    frame.to_csv(tmp_path / "numbers.csv", index=False)
    X, y = frame[["organic", "id"]], frame["grade"]
    words = (tmp_path / "numbers.csv", *WORDS)
    steps = ("--solver", "adam", "--max-iter", 3, "--seed", 5, "--hidden-layer-sizes", 8)
    python = {"solver": "adam", "max_iter": 3, "random_state": 5, "hidden_layer_sizes": (8,)}
    for more, keywords in (((), {}), (steps, python)):
        ok("train", *words, *more, "--out", tmp_path / "m.wassloss", "--overwrite")
        own = wl.WassersteinClassifier("ordinal", classes=["poor", "fair", "good"], **keywords)
        expected = own.fit(X, y).predict_proba(X)
        found = wl.load(tmp_path / "m.wassloss").predict_proba(X)
        np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_what_a_table_cannot_be(wine: Path, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "m.wassloss")
    assert "--label-column grade?" in failed("train", wine, "--metric", "discrete", *out)
    said = failed("train", wine, *WORDS, "--drop", "idd", *out)
    assert "it lacks the column 'idd'; it has" in said
    assert "did you mean 'id'?" in said
    out = (*out, "--drop", "id")
    assert "(missing='error')" in failed("train", wine, *WORDS, "--missing", "error", *out)
    assert "pass order, such as --order fair,good,poor" in failed("train", wine, *WORDS[:4], *out)
    said = failed("train", wine, *WORDS, "--group", "maker", "--test", 0.99, *out)
    assert "a share of 0.99 cannot be held out of 240 rows in 8 groups" in said
    assert not (tmp_path / "m.wassloss").exists()


def test_numbers_far_from_zero_keep_their_precision(tmp_path: Path) -> None:
    """Seconds since 1970, a minute apart, are one number in single precision."""
    lines = ["time,label", *(f"{1_700_000_000 + 60 * i},{'ab'[i >= 20]}" for i in range(40))]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    run = tmp_path / "m.wassloss"
    ok("train", tmp_path / "t.csv", "--metric", "discrete", "--out", run, *QUICK)
    told = json.loads(ok("evaluate", run, tmp_path / "t.csv", "--json").stdout)
    assert told["scores"]["accuracy"] > 0.9


def test_a_folder_of_parquet_files_is_one_table(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    x = rng.normal(size=(90, 2)) * [1, 1000] + [0, 5000]
    frame = pd.DataFrame({"b": x[:, 1], "a": x[:, 0], "id": np.arange(90)})
    frame["town"] = np.array(["Ulm", "Bonn"])[np.arange(90) % 2]
    frame["label"] = (x[:, 0] > 0).astype(int)
    folder, file = tmp_path / "folder", tmp_path / "all.parquet"
    folder.mkdir()
    frame.to_parquet(file)
    frame[:50].to_parquet(folder / "1.parquet")
    others = ["label", "town", "id", "a", "b"]  # columns are found by name
    frame[50:][others].to_parquet(folder / "2.parquet")
    words = ("--metric", "discrete", "--drop", "id", "--tol", 0.01)
    for source, name in ((file, "one"), (folder, "two")):
        ok("train", source, *words, "--test", 0.2, "--out", tmp_path / name)
    assert same_weights(tmp_path / "one", tmp_path / "two")
    told = json.loads(ok("evaluate", tmp_path / "two", "--json").stdout)
    assert (told["part"], told["examples"]) == ("test", 18)
    assert told["scores"]["accuracy"] > 0.9
