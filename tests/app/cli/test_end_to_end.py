"""Train, evaluate, predict, report: in every format."""

import csv
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
import torch

import wassloss as wl
from tests.app.cli.commands import (
    FEATURES,
    METRIC,
    NAMES,
    failed,
    graded,
    ok,
    opened,
    saved,
    tagged,
    target_of,
    wassloss,
)

QUICK = ("--solver", "adam", "--max-iter", 7, "--batch-size", 20)  # 42 steps


@pytest.fixture
def metric(tmp_path: Path) -> Path:
    METRIC.save(tmp_path / "metric.npz")
    return tmp_path / "metric.npz"


def written(kind: str, folder: Path) -> Path:
    """The same tags in a file of each kind, or as two files in a folder."""
    if kind != "folder":
        return saved(tagged(), folder / f"data.{kind}")
    shards = folder / "shards"
    shards.mkdir()
    for i, rows in enumerate((slice(0, 90), slice(90, 200))):
        saved(tagged().iloc[rows], shards / f"part-{i}.parquet")
    return shards


@pytest.mark.parametrize("kind", ["parquet", "csv", "folder"])
def test_from_data_to_report(kind: str, metric: Path, tmp_path: Path) -> None:
    data, model, other = written(kind, tmp_path), tmp_path / "w.wassloss", tmp_path / "kl.wassloss"
    common = ["--metric", metric, *QUICK]
    shown = ok("train", data, "--out", model, "--kl-weight", 0.1, *common).stdout
    ok("train", data, "--out", other, "--transport-weight", 0, *common)
    assert "test: 40 examples" in shown
    assert f"Use it: wassloss predict {model}" in shown
    before = {path.name for path in tmp_path.iterdir()}

    # Scores: those of training, those of evaluate, and those computed by hand are the same.
    told = json.loads(ok("evaluate", model, data, "--json", "--part", "test").stdout)
    assert told["scores"] == json.loads(ok("evaluate", model, "--json").stdout)["scores"]
    assert f"{told['scores']['accuracy']:.4f}" in shown
    test = tagged()[tagged()["part"] == "test"]
    logits = opened(model).logits(test[FEATURES])
    for k, name in ((1, "mean_distance"), (5, "mean_distance_of_5")):
        cost = wl.scores.top_k_cost(logits, target_of(test), METRIC, k=k)
        assert told["scores"][name] == pytest.approx(float(cost), abs=1e-6)
    auc = wl.scores.ranking_auc(logits, target_of(test))
    assert told["scores"]["auc"] == pytest.approx(float(auc))
    assert told["examples"] == 40
    assert told["scores"]["mean_distance"] < 1.0  # by chance it is over 1

    lines = list(csv.DictReader(ok("predict", model, data, "--top", 2).stdout.splitlines()))
    assert [int(line["row"]) for line in lines] == list(range(200))
    assert all({line["label_1"], line["label_2"]} <= set(NAMES) for line in lines)

    page = tmp_path / "report.html"
    assert str(page) in ok("report", other, model, "--out", page).stdout
    assert page.read_text().count("<svg") == 2
    assert {path.name for path in tmp_path.iterdir()} == {*before, "report.html"}


def test_predictions_for_a_folder(metric: Path, tmp_path: Path) -> None:
    """The same as for one file, with rows numbered through; also for a part, without labels."""
    file, shards = written("parquet", tmp_path), written("folder", tmp_path)
    model = tmp_path / "m.wassloss"
    ok("train", file, "--out", model, "--metric", metric, "--kl-weight", 0.1, *QUICK)
    expected = ok("predict", model, file).stdout
    assert ok("predict", model, shards).stdout == expected
    for path in shards.iterdir():
        pd.read_parquet(path).drop(columns=["labels", "weights"]).to_parquet(path, index=False)
    assert ok("predict", model, shards).stdout == expected
    text = ok("predict", model, shards, "--part", "test").stdout
    rows = [int(row["row"]) for row in csv.DictReader(text.splitlines())]
    assert rows == np.flatnonzero(tagged()["part"] == "test").tolist()
    best = [row["label_1"] for row in csv.DictReader(expected.splitlines())]
    chosen = [row["label_1"] for row in csv.DictReader(text.splitlines())]
    assert chosen == [best[row] for row in rows]
    said = failed("predict", model, shards, "--part", "dev")
    assert "part must be a part of the data (" in said
    (tmp_path / "empty").mkdir()
    assert "a folder without Parquet files" in failed("predict", model, tmp_path / "empty")
    (shards / "part-2.parquet").write_bytes(b"PAR1 and no more")
    assert "part-2.parquet" in failed("predict", model, shards)


def test_predictions_in_every_format(metric: Path, tmp_path: Path) -> None:
    data, model = saved(tagged(), tmp_path / "data.parquet"), tmp_path / "m.wassloss"
    ok("train", data, "--out", model, "--metric", metric, "--kl-weight", 0.1, *QUICK)
    features = tagged()[FEATURES]
    p = torch.from_numpy(wl.load(model).predict_proba(features))

    unlabelled = tmp_path / "new.csv"
    features.to_csv(unlabelled, index=False)
    text = ok("predict", model, unlabelled, "--top", 2).stdout
    rows = list(csv.DictReader(text.splitlines()))
    best = wl.decisions.top_labels(p, 2)
    assert [row["label_1"] for row in rows] == [NAMES[i] for i in best[:, 0]]
    chances = [float(row["probability_2"]) for row in rows]
    assert chances == pytest.approx(p.gather(1, best)[:, 1].tolist(), rel=1e-4)

    for suffix in ("csv", "parquet"):
        ok("predict", model, unlabelled, "--top", 2, "--out", tmp_path / f"answers.{suffix}")
    assert (tmp_path / "answers.csv").read_text() == text
    lines = pd.read_parquet(tmp_path / "answers.parquet").to_dict("records")
    assert [{name: str(value) for name, value in line.items()} for line in lines] == rows

    least = ("predict", model, data, "--decision", "least-cost")
    rows = list(csv.DictReader(ok(*least, "--top", 1, "--part", "test").stdout.splitlines()))
    chosen = np.flatnonzero(tagged()["part"] == "test")
    assert [int(row["row"]) for row in rows] == chosen.tolist()
    expected = wl.decisions.least_cost_label(p[chosen], METRIC)
    assert [row["label_1"] for row in rows] == [NAMES[i] for i in expected]
    several = ok(*least, "--top", 2).stdout
    expected = wl.decisions.least_cost_labels(p, METRIC, 2)
    assert [row["label_2"] for row in csv.DictReader(several.splitlines())] == [
        NAMES[i] for i in expected[:, 1]
    ]


def test_options_reach_the_classifier(metric: Path, tmp_path: Path) -> None:
    data, model = saved(tagged(), tmp_path / "data.parquet"), tmp_path / "m.wassloss"
    ok(
        *("train", data, "--out", model, "--metric", metric, "--hidden-layer-sizes", "8,4"),
        *("--epsilon", 0.5, "--power", 2, "--kl-weight", 0.3, "--solver", "sgd"),
        *("--learning-rate", 0.2, "--seed", 3, "--batch-size", 20, "--max-iter", 7),
    )
    found = opened(model)
    classifier = found.classifier
    assert (classifier.epsilon, classifier.kl_weight, classifier.solver) == (0.5, 0.3, "sgd")
    assert classifier.hidden_layer_sizes == (8, 4)
    assert classifier.metric_.power == 2
    assert classifier.metric_.labels == NAMES
    assert (found.origin["made_by"], found.origin["seed"]) == ("train", 3)
    # Features were brought to mean 0 and variance 1 over the training examples, not all.
    train = tagged()[tagged()["part"] == "train"][FEATURES].to_numpy(float)
    standardized = classifier.scaler_.transform(train)
    assert np.abs(standardized.mean(0)).max() < 1e-6
    assert np.abs(standardized.std(0) - 1).max() < 1e-5


def test_names_in_a_table_are_matched_with_the_metric(tmp_path: Path) -> None:
    """The metric's order of labels is not the alphabet's, and a test file lacks some of them."""
    order = ("superb", "good", "fair", "bad", "awful")
    wl.ground.Ordinal([0, 1, 2, 3, 9], labels=order).save(tmp_path / "metric.npz")
    some = graded(parts=False)
    data = saved(some, tmp_path / "data.csv")
    few = some[some["label"].isin(NAMES[:3])]
    test, model = saved(few, tmp_path / "test.csv"), tmp_path / "m.wassloss"
    ok("train", data, "--metric", tmp_path / "metric.npz", "--out", model, *QUICK)
    found = opened(model)
    assert found.labels == found.metric_.labels == order
    told = json.loads(ok("evaluate", model, test, "--json").stdout)
    expected = wl.scores.top_k_cost(
        found.logits(few[FEATURES]), target_of(few, order), found.metric_
    )
    assert told["scores"]["mean_distance"] == pytest.approx(float(expected))


def test_without_transport_it_is_cross_entropy(tmp_path: Path) -> None:
    from sklearn.linear_model import LogisticRegression

    data, model = graded(parts=False), tmp_path / "m.wassloss"
    x, y = data[FEATURES].to_numpy(float), data["label"]
    file = saved(data, tmp_path / "data.parquet")
    words = ("--metric", "discrete", "--transport-weight", 0, "--no-standardize", "--tol", 1e-7)
    ok("train", file, *words, "--out", model)
    expected = LogisticRegression(C=1.0, tol=1e-8, max_iter=1000).fit(x, y).predict_proba(x)
    found = wl.load(model).predict_proba(data[FEATURES])
    assert found == pytest.approx(expected, abs=1e-4)


def test_clipart_needs_no_files(tmp_path: Path) -> None:
    model = tmp_path / "m.wassloss"
    words = ("--solver", "adam", "--max-iter", 2)
    text = ok("train", "clipart", "--out", model, "--kl-weight", 0.1, *words).stdout
    assert "test: 941 examples" in text
    assert "mean_distance" in ok("evaluate", model).stdout
    assert "941" in ok("evaluate", model, "clipart").stdout


def test_every_command_has_help_with_an_example() -> None:
    commands = ["compare", "train", "evaluate", "predict", "report", "export", "demo"]
    for command in [*commands, "metric show"]:
        result = wassloss(*command.split(), "--help")
        assert result.exit_code == 0
        assert f"Example: wassloss {command}" in " ".join(result.stdout.split())
    assert wl.__version__ in wassloss("--version").stdout


@pytest.mark.parametrize("precision", ["float64", "float16"])
def test_features_of_any_precision(precision: str, metric: Path, tmp_path: Path) -> None:
    data, model = tagged(), tmp_path / "m.wassloss"
    data[FEATURES] = data[FEATURES].astype(precision)
    file = saved(data, tmp_path / "data.parquet")
    ok("train", file, "--out", model, "--metric", metric, "--kl-weight", 0.1, *QUICK)
    ok("evaluate", model, file)
    ok("predict", model, file, "--decision", "least-cost", "--top", 1)


def test_scores_of_training_examples_are_called_that(metric: Path, tmp_path: Path) -> None:
    data, model = saved(tagged(parts=False), tmp_path / "data.parquet"), tmp_path / "m.wassloss"
    ok("train", data, "--metric", metric, "--out", model, *QUICK)
    assert "are training rows of the model" in ok("evaluate", model, data).stderr
    some = tagged(parts=False).iloc[:50]
    told = ok("evaluate", model, saved(some, tmp_path / "some.parquet"))
    assert "warning: 50 of 50 rows (100 %) are training rows of the model" in told.stderr
    other = some.assign(**{name: some[name] + 1 for name in FEATURES})
    assert ok("evaluate", model, saved(other, tmp_path / "other.parquet")).stderr == ""
