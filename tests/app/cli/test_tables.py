"""`wassloss train` on tables as people have them: the same reading as `wassloss compare`."""

from __future__ import annotations

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import wassloss as wl
from tests.app.cli.commands import failed, ok, same_weights, wine_table
from wassloss.data.table import frame_features
from wassloss.estimators.splitting import held_out
from wassloss.runs.directory import open_run
from wassloss.runs.task import Task

pytest.importorskip("pyarrow")
pytestmark = pytest.mark.filterwarnings("default::wassloss.data.DataWarning")

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
    run = tmp_path / "run"
    done = ok("train", wine, *WORDS, "--test", 0.25, "--out", run, *QUICK)
    assert "column 'id' looks like row numbers: drop it (--drop id)" in done.stderr
    assert "test: 60 examples" in done.stdout
    opened = wl.load(run)
    assert open_run(run).labels == ("poor", "fair", "good")
    assert opened.table_.feature_names == (
        *("id", "acid", "acid is missing", "cellar=new", "cellar=old", "organic"),
        *(f"maker=m{i}" for i in range(8)),
    )
    told = json.loads(ok("evaluate", run, "--json").stdout)
    assert (told["part"], told["examples"]) == ("test", 60)
    assert told["scores"] == pytest.approx(
        json.loads((run / "scores.json").read_text())["parts"]["test"]["scores"]
    )
    assert told["scores"]["accuracy"] > 0.65

    plain = ok("predict", run, wine, "--top", 2).stdout
    rows = rows_of(wine)
    order = ["organic", "id", "cellar", "acid", "maker"]
    shuffled = written(tmp_path / "shuffled.csv", rows, order)
    assert ok("predict", run, shuffled, "--top", 2).stdout == plain
    frame = pytest.importorskip("pandas").read_csv(shuffled)
    answers = [line.split(",")[1] for line in plain.splitlines()[1:]]
    assert opened.predict(frame).tolist() == answers
    # A level and a gap that training did not have; a column that is gone.
    new = [{**rows[1], "cellar": "under water", "maker": "", "acid": "NA"}]
    odd = written(tmp_path / "odd.csv", new, order)
    assert len(ok("predict", run, odd).stdout.splitlines()) == 2
    said = failed("predict", run, written(tmp_path / "few.csv", rows, order[:3]))
    assert "few.csv cannot be read as data: it lacks the columns 'acid', 'maker'; it has" in said
    said = failed("predict", run, written(tmp_path / "bad.csv", [{**rows[1], "acid": "x"}], order))
    assert "bad.csv cannot be read as data: line 2, column 'acid': expected a number" in said


def test_what_is_held_out_is_never_trained_on(wine: Path, tmp_path: Path) -> None:
    asked: Any = {"label_column": "grade", "metric": "ordinal", "order": ("poor", "fair", "good")}
    asked |= {"test": 0.25, "drop": ("id",)}
    data, _, _ = Task(data=str(wine), **asked).examples()
    parts = {name: set(rows.tolist()) for name, rows in data.parts.items()}
    assert {name: len(rows) for name, rows in parts.items()} == {
        "train": 180,
        "test": 60,
    }
    assert set.union(*parts.values()) == set(range(240))
    # Other features of the rows held out do not change what is learned.
    rows = rows_of(wine)
    for row in parts["test"]:
        rows[row] = {**rows[row], "organic": "True", "cellar": "old"}
    other = written(tmp_path / "other.csv", rows, list(rows[0]))
    words = (*WORDS, "--drop", "id,acid", "--test", 0.25, *QUICK)
    for table, name in ((wine, "a"), (other, "b")):
        ok("train", table, *words, "--out", tmp_path / name)
    one, two = (wl.load(tmp_path / name).model_.state_dict() for name in ("a", "b"))
    assert all(bool((one[name] == two[name]).all()) for name in one)


def test_groups_stay_together(wine: Path, tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = ("--group", "maker", "--drop", "id", "--test", 0.25)
    ok("train", wine, *WORDS, *words, "--out", run, *QUICK)
    opened = open_run(run)
    assert not any("maker" in name for name in opened.columns.names or ())
    assert opened.task is not None
    data, _, _ = opened.task.examples()
    makers = np.array([row["maker"] for row in rows_of(wine)])
    of_part = {name: set(makers[rows.numpy()]) for name, rows in data.parts.items()}
    together = [maker for own in of_part.values() for maker in own]
    assert sorted(together) == sorted(set(makers))
    assert all(of_part.values())


def test_train_and_compare_read_alike(wine: Path, tmp_path: Path) -> None:
    words = (*WORDS, "--drop", "id", "--test", 0.25)
    ok("train", wine, *words, "--out", tmp_path / "run", *QUICK)
    ok("compare", wine, *words, "--jobs", 1, "--out", tmp_path / "cmp")
    run, cmp = (wl.load(tmp_path / name) for name in ("run", "cmp"))
    assert run.table_ == cmp.table_
    assert (run.table_.label_column, run.table_.ignored) == ("grade", ("id",))
    assert run.classes_.tolist() == cmp.classes_.tolist() == ["fair", "good", "poor"]


def test_train_compare_and_python_fit_the_same_model(wine: Path, tmp_path: Path) -> None:
    words, share = (*WORDS, "--drop", "id"), ("--test", 0.25)
    grades = ["poor", "fair", "good"]
    read = {"label_column": "grade", "drop": ["id"]}
    data = wl.data.read(wine, **read)
    X, y = data.features.numpy(), data.y
    # To all rows, with the defaults of everything.
    ok("train", wine, *words, "--out", tmp_path / "all")
    run = wl.load(tmp_path / "all")
    own = wl.WassersteinClassifier("ordinal", classes=grades).fit(X, y)
    np.testing.assert_allclose(run.coef_, own.coef_, rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(run.intercept_, own.intercept_, rtol=1e-9, atol=1e-12)
    assert run.get_params()["alpha"] == own.alpha
    # What a comparison says of W + KL is what a run with its settings scores on the same rows.
    frame = pytest.importorskip("pandas").read_csv(wine).drop(columns=["id", "grade"])
    found = wl.compare(frame, y, "ordinal", classes=grades)
    ours = next(c for c in found.candidates if (c.loss, c.decision) == ("W + KL", "probable"))
    chosen = ("--kl-weight", ours.settings["kl_weight"], "--alpha", ours.settings["alpha"])
    ok("train", wine, *words, *share, *chosen, "--out", tmp_path / "run")
    scores = json.loads((tmp_path / "run" / "scores.json").read_text())["parts"]["test"]["scores"]
    assert scores["accuracy"] == ours.accuracy.mean()
    assert scores["mean_distance"] == pytest.approx(ours.distance.mean())
    assert ours.nll is not None
    assert scores["nll"] == pytest.approx(ours.nll.mean(), rel=1e-6)
    # The best model, fitted to all rows, is the classifier with its parameters.
    kept = {**found.kept.settings, "decision": found.best.decision}
    again = wl.WassersteinClassifier("ordinal", classes=grades, random_state=0, **kept)
    X = frame_features(frame, found.best.table_)
    np.testing.assert_array_equal(found.best.coef_, again.fit(X, y).coef_)


def test_rows_held_out_decide_nothing(tmp_path: Path) -> None:
    """The share that is drawn by its labels, and a part of the file."""
    label = np.repeat(["a", "b", "c"], 40)
    _, held = held_out(label, 120, 0.25, None, 0)
    for part in (False, True):
        texts = []
        for changed in (False, True):
            lines = ["x,town,label" + ",part" * part]
            for i, value in enumerate(np.random.default_rng(0).normal(size=120)):
                hidden = changed and i in held
                row = [
                    "" if hidden and i % 2 else f"{value + 100 * hidden:.3f}",
                    "far" if hidden else "near" if i % 3 else "here",
                    label[i],
                    *(["test" if i in held else "train"] if part else []),
                ]
                lines.append(",".join(row))
            path = tmp_path / f"{part}{changed}.csv"
            path.write_text("\n".join(lines))
            share = 0.0 if part else 0.25
            data, *_ = Task(data=str(path), metric="discrete", test=share).examples()
            np.testing.assert_array_equal(data.parts["test"], held)
            texts.append(data)
        assert texts[0].raw == texts[1].raw
        kept = np.setdiff1d(np.arange(120), held)
        assert torch.equal(texts[0].features[kept], texts[1].features[kept])


def test_groups_and_labels_of_the_part_to_test_on(tmp_path: Path) -> None:
    path = tmp_path / "x.csv"
    rows = [f"{i},{i % 2},{i // 2},{'test' if i < 5 else 'train'}" for i in range(20)]
    path.write_text("\n".join(["x,label,who,part", *rows]))
    with pytest.raises(ValueError, match="groups must not have rows both to train on and held out"):
        Task(data=str(path), metric="discrete", group="who").examples()
    rows[0] = "0,9,0,test"
    path.write_text("\n".join(["x,label,who,part", *rows]))
    for metric in ("discrete", "ordinal"):
        with pytest.raises(ValueError, match="every class in the rows to train on, got 9 only in"):
            Task(data=str(path), metric=metric).examples()
    Task(data=str(path), metric="discrete", order=("0", "1", "9")).examples()


def test_small_steps_are_those_of_python_too(wine: Path, tmp_path: Path) -> None:
    words = (*WORDS, "--drop", "id", "--solver", "adam", "--max-iter", 3, "--seed", 5)
    ok("train", wine, *words, "--hidden-layer-sizes", 8, "--out", tmp_path / "run")
    data = wl.data.read(wine, label_column="grade", drop=["id"])
    own = wl.WassersteinClassifier(
        *("ordinal",),
        classes=["poor", "fair", "good"],
        solver="adam",
        max_iter=3,
        hidden_layer_sizes=(8,),
        random_state=5,
    ).fit(data.features.numpy(), data.y)
    expected = own.predict_proba(data.features.numpy())
    found = wl.load(tmp_path / "run").predict_proba(data.features.numpy())
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_what_a_table_cannot_be(wine: Path, tmp_path: Path) -> None:
    out = ("--out", tmp_path / "run")
    assert "--label-column grade?" in failed("train", wine, "--metric", "discrete", *out)
    said = failed("train", wine, *WORDS, "--drop", "idd", *out)
    assert "it lacks the column 'idd'; it has" in said
    assert "did you mean 'id'?" in said
    out = (*out, "--drop", "id")
    assert "nothing may be missing" in failed("train", wine, *WORDS, "--missing", "error", *out)
    assert "pass order, such as --order fair,good,poor" in failed("train", wine, *WORDS[:4], *out)
    said = failed("train", wine, *WORDS, "--group", "maker", "--test", 0.99, *out)
    assert "a share of 0.99 cannot be held out of 240 rows in 8 groups" in said
    assert "drop is for tables" in failed("train", "clipart", *out)
    assert not (tmp_path / "run").exists()


def test_numbers_far_from_zero_keep_their_precision(tmp_path: Path) -> None:
    """Seconds since 1970, a minute apart, are one number in single precision."""
    lines = ["time,label", *(f"{1_700_000_000 + 60 * i},{'ab'[i >= 20]}" for i in range(40))]
    (tmp_path / "t.csv").write_text("\n".join(lines))
    run = tmp_path / "run"
    ok("train", tmp_path / "t.csv", "--metric", "discrete", "--out", run, *QUICK)
    told = json.loads(ok("evaluate", run, tmp_path / "t.csv", "--json").stdout)
    assert told["scores"]["accuracy"] > 0.9


def test_a_folder_of_parquet_files_is_one_table(tmp_path: Path) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    rng = np.random.default_rng(0)
    x = rng.normal(size=(90, 2)) * [1, 1000] + [0, 5000]
    town = np.array(["Ulm", "Bonn"])[np.arange(90) % 2]
    columns = {"b": x[:, 1], "a": x[:, 0], "id": np.arange(90), "town": town}
    columns["label"] = (x[:, 0] > 0).astype(int)
    table = pa.table(columns)
    folder, file = tmp_path / "folder", tmp_path / "all.parquet"
    folder.mkdir()
    pq.write_table(table, file)
    pq.write_table(table.slice(0, 50), folder / "1.parquet")
    others = ["label", "town", "id", "a", "b"]  # columns are found by name
    pq.write_table(table.slice(50).select(others), folder / "2.parquet")
    words = ("--metric", "discrete", "--drop", "id", "--tol", 0.01)
    for source, name in ((file, "one"), (folder, "two")):
        ok("train", source, *words, "--test", 0.2, "--out", tmp_path / name)
    assert same_weights(tmp_path / "one", tmp_path / "two")
    told = json.loads(ok("evaluate", tmp_path / "two", "--json").stdout)
    assert (told["part"], told["examples"]) == ("test", 18)
    assert told["scores"]["accuracy"] > 0.9
    said = failed("train", "--out", tmp_path / "one", "--resume", "--drop", "a")
    assert "was trained with drop ['id'], and cannot be continued with ['a']" in said
