"""Train, evaluate, predict, report: in every format."""

import csv
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch

import wassloss as wl
from tests.app.cli.commands import (
    METRIC,
    NAMES,
    failed,
    graded,
    ok,
    same_weights,
    saved,
    tagged,
    wassloss,
)
from wassloss.runs import fitting
from wassloss.runs.directory import open_run
from wassloss.training import checkpoints

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
    data = tagged()
    for i, rows in enumerate((slice(0, 90), slice(90, 200))):
        saved(data.take(rows), shards / f"part-{i}.parquet")
    return shards


@pytest.mark.parametrize("kind", ["parquet", "csv", "folder"])
def test_from_data_to_report(kind: str, metric: Path, tmp_path: Path) -> None:
    if kind in ("parquet", "folder"):
        pytest.importorskip("pyarrow")
    data, run, other = written(kind, tmp_path), tmp_path / "w", tmp_path / "kl"
    common = ["--metric", metric, *QUICK]
    ok("train", data, "--out", run, "--kl-weight", 0.1, *common)
    ok("train", data, "--out", other, "--transport-weight", 0, *common)
    names = {path.name for path in run.iterdir()}
    assert {"config.json", "model.safetensors", "scores.json", "log.jsonl"} <= names

    # Scores: the file's, the command's, and those computed by hand are the same.
    told = json.loads(ok("evaluate", run, data, "--json", "--part", "test").stdout)
    filed = json.loads((run / "scores.json").read_text())["parts"]["test"]
    assert told["scores"] == pytest.approx(filed["scores"])
    test = tagged().part("test")
    logits = open_run(run).model._outputs(test.features)
    for k, name in ((1, "mean_distance"), (5, "mean_distance_of_5")):
        cost = wl.scores.top_k_cost(logits, test.target, METRIC, k=k)
        assert told["scores"][name] == pytest.approx(float(cost), abs=1e-6)
    auc = wl.scores.ranking_auc(logits, test.target)
    assert told["scores"]["auc"] == pytest.approx(float(auc))
    assert told["examples"] == 40
    assert told["scores"]["mean_distance"] < 1.0  # by chance it is over 1

    lines = list(csv.DictReader(ok("predict", run, data, "--top", 2).stdout.splitlines()))
    assert [int(line["row"]) for line in lines] == list(range(200))
    assert all({line["label_1"], line["label_2"]} <= set(NAMES) for line in lines)

    page = tmp_path / "report.html"
    assert str(page) in ok("report", other, run, "--out", page).stdout
    assert page.read_text().count("<svg") == 2


def test_predictions_for_a_folder(
    metric: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same as for one file, rows numbered through; a part too, and without labels."""
    pa = pytest.importorskip("pyarrow.parquet")
    file, shards = written("parquet", tmp_path), written("folder", tmp_path)
    run = tmp_path / "run"
    ok("train", file, "--out", run, "--metric", metric, "--kl-weight", 0.1, *QUICK)
    expected = ok("predict", run, file).stdout
    monkeypatch.setattr("wassloss.estimators.base._ROWS", 32)
    assert ok("predict", run, shards).stdout == expected
    for path in shards.iterdir():
        pa.write_table(pa.read_table(path).drop(["labels", "weights"]), path)
    assert ok("predict", run, shards).stdout == expected
    text = ok("predict", run, shards, "--part", "test").stdout
    rows = [int(row["row"]) for row in csv.DictReader(text.splitlines())]
    assert rows == sorted(tagged().parts["test"].tolist())
    best = [row["label_1"] for row in csv.DictReader(expected.splitlines())]
    chosen = [row["label_1"] for row in csv.DictReader(text.splitlines())]
    assert chosen == [best[row] for row in rows]
    assert "part must be one of the data's parts" in failed("predict", run, shards, "--part", "dev")
    (tmp_path / "empty").mkdir()
    assert "a folder without Parquet files" in failed("predict", run, tmp_path / "empty")
    (shards / "part-2.parquet").write_bytes(b"PAR1 and no more")
    assert "part-2.parquet" in failed("predict", run, shards)


def test_predictions_in_every_format(metric: Path, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow.parquet")
    named = dataclasses.replace(tagged(), feature_names=tuple(f"x{i}" for i in range(6)))
    data, run = saved(named, tmp_path / "data.parquet"), tmp_path / "run"
    ok("train", data, "--out", run, "--metric", metric, "--kl-weight", 0.1, *QUICK)
    features = tagged().features
    p = torch.from_numpy(wl.load(run).predict_proba(features))

    unlabelled = tmp_path / "new.csv"
    with open(unlabelled, "w", newline="") as file:
        csv.writer(file).writerows([[f"x{i}" for i in range(6)], *features.tolist()])
    text = ok("predict", run, unlabelled, "--top", 2).stdout
    rows = list(csv.DictReader(text.splitlines()))
    best = wl.decisions.top_labels(p, 2)
    assert [row["label_1"] for row in rows] == [NAMES[i] for i in best[:, 0]]
    chances = [float(row["probability_2"]) for row in rows]
    assert chances == pytest.approx(p.gather(1, best)[:, 1].tolist(), rel=1e-4)

    for suffix in ("csv", "parquet"):
        ok("predict", run, unlabelled, "--top", 2, "--out", tmp_path / f"answers.{suffix}")
    assert (tmp_path / "answers.csv").read_text() == text
    lines = pa.read_table(tmp_path / "answers.parquet").to_pylist()
    assert [{name: str(value) for name, value in line.items()} for line in lines] == rows

    text = ok("predict", run, data, "--decision", "least-cost", "--top", 1, "--part", "test").stdout
    rows = list(csv.DictReader(text.splitlines()))
    chosen = tagged().parts["test"]
    assert [int(row["row"]) for row in rows] == chosen.tolist()
    expected = wl.decisions.least_cost_label(p[chosen], METRIC)
    assert [row["label_1"] for row in rows] == [NAMES[i] for i in expected]
    several = ok("predict", run, data, "--decision", "least-cost", "--top", 2).stdout
    expected = wl.decisions.least_cost_labels(p, METRIC, 2)
    assert [row["label_2"] for row in csv.DictReader(several.splitlines())] == [
        NAMES[i] for i in expected[:, 1]
    ]


def test_the_configuration_tells_everything(metric: Path, tmp_path: Path) -> None:
    data, run = saved(tagged(), tmp_path / "data.parquet"), tmp_path / "run"
    ok(
        *("train", data, "--out", run, "--metric", metric, "--hidden-layer-sizes", "8,4"),
        *("--epsilon", 0.5, "--power", 2, "--kl-weight", 0.3, "--solver", "sgd"),
        *("--learning-rate", 0.2, "--seed", 3, "--batch-size", 20, "--max-iter", 7),
    )
    config = json.loads((run / "config.json").read_text())
    assert (config["task"]["seed"], config["task"]["data"]) == (3, str(data))
    assert config["params"]["hidden_layer_sizes"] == [8, 4]
    assert {"wassloss", "torch", "numpy", "python", "platform"} == config["versions"].keys()
    opened = wl.load(run)
    assert (opened.epsilon, opened.kl_weight, opened.solver) == (0.5, 0.3, "sgd")
    assert opened.hidden_layer_sizes == (8, 4)
    assert opened.metric_.power == 2
    assert opened.metric_.labels == NAMES
    # Features were brought to mean 0 and variance 1 over the training examples, not all.
    train = tagged().part("train").features
    standardized = torch.from_numpy(opened.scaler_.transform(train.double().numpy())).float()
    assert standardized.mean(0).abs().max() < 1e-6
    assert (standardized.std(0, correction=0) - 1).abs().max() < 1e-5
    expected = opened.model_(standardized).detach().softmax(1).double()
    found = torch.from_numpy(opened.predict_proba(train))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


class Stopped(Exception):  # noqa: N818
    """As if the process had been killed."""


@pytest.mark.parametrize("kind", ["csv", "folder"])
@pytest.mark.parametrize("solver", ["adam", "lbfgs"])
def test_resume_goes_on_as_if_never_stopped(
    kind: str, solver: str, metric: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if kind == "folder":
        pytest.importorskip("pyarrow")
    data, run, whole = written(kind, tmp_path), tmp_path / "run", tmp_path / "whole"
    command = ("train", data, "--metric", metric, "--checkpoint-every", 10, "--batch-size", 20)
    command += ("--max-iter", 7, "--hidden-layer-sizes", 8) if solver == "adam" else ()
    ok(*command, "--out", whole)

    save, saved_ones = checkpoints.save_checkpoint, list[object]()

    def save_two(*arguments: Any) -> None:
        save(*arguments)
        saved_ones.append(arguments)
        if len(saved_ones) == 2:
            raise Stopped

    def stop(*_: object) -> None:
        raise Stopped

    monkeypatch.setattr(checkpoints, "save_checkpoint", save_two)
    monkeypatch.setattr(fitting, "_finish", stop)
    assert isinstance(wassloss(*command, "--out", run).exception, Stopped)
    monkeypatch.undo()
    assert "was stopped before its end" in failed("evaluate", run, data)
    ok("train", "--out", run, "--resume")  # the rest it knows
    assert same_weights(run, whole)
    if solver == "adam":
        log = (run / "log.jsonl").read_text().splitlines()
        assert [json.loads(line)["step"] for line in log] == [10, 20, 30, 40, 42]


def test_names_in_a_table_are_matched_with_the_metric(tmp_path: Path) -> None:
    """The metric's order of labels is not the alphabet's, and a test file lacks some of them."""
    order = ("superb", "good", "fair", "bad", "awful")
    wl.ground.Ordinal([0, 1, 2, 3, 9], labels=order).save(tmp_path / "metric.npz")
    data = saved(graded(parts=False), tmp_path / "data.csv")
    some = graded(parts=False)
    few = some.take((some.target < 3).nonzero().squeeze(1))
    test = saved(few, tmp_path / "test.csv")
    run = tmp_path / "run"
    ok("train", data, "--metric", tmp_path / "metric.npz", "--out", run, *QUICK)
    opened = open_run(run)
    assert opened.labels == opened.model.metric_.labels == order
    told = json.loads(ok("evaluate", run, test, "--json").stdout)
    target = torch.tensor([order.index(NAMES[i]) for i in few.target])
    logits = opened.model._outputs(few.features)
    expected = wl.scores.top_k_cost(logits, target, opened.model.metric_, k=1)
    assert told["scores"]["mean_distance"] == pytest.approx(float(expected))


def test_without_transport_it_is_cross_entropy(tmp_path: Path) -> None:
    from sklearn.linear_model import LogisticRegression

    data = graded(parts=False)
    x, y = data.features.double().numpy(), data.y
    file = saved(data, tmp_path / "data.parquet")
    words = ("--metric", "discrete", "--transport-weight", 0, "--no-standardize", "--tol", 1e-7)
    ok("train", file, *words, "--out", tmp_path / "run")
    expected = LogisticRegression(C=1.0, tol=1e-8, max_iter=1000).fit(x, y).predict_proba(x)
    assert wl.load(tmp_path / "run").predict_proba(x) == pytest.approx(expected, abs=1e-4)


def test_clipart_needs_no_files(tmp_path: Path) -> None:
    run = tmp_path / "run"
    words = ("--solver", "adam", "--max-iter", 2)
    text = ok("train", "clipart", "--out", run, "--kl-weight", 0.1, *words).stdout
    assert "test: 941 examples" in text
    assert "mean_distance" in ok("evaluate", run).stdout
    assert "941" in ok("evaluate", run, "clipart").stdout


def test_every_command_has_help_with_an_example() -> None:
    commands = ["train", "evaluate", "predict", "report", "demo", "metric build", "metric show"]
    for command in commands:
        result = wassloss(*command.split(), "--help")
        assert result.exit_code == 0
        assert f"Example: wassloss {command}" in " ".join(result.stdout.split())
    assert wl.__version__ in wassloss("--version").stdout


@pytest.mark.parametrize("precision", [torch.float64, torch.float16])
def test_features_of_any_precision(precision: torch.dtype, metric: Path, tmp_path: Path) -> None:
    """Tables that pandas wrote are in double precision, and models are not."""
    pytest.importorskip("pyarrow")
    given = tagged()
    target = wl.SparseTarget(given.target.indices, given.target.weights.double())
    data = dataclasses.replace(given, features=given.features.to(precision), target=target)
    common = ["--metric", metric, "--kl-weight", 0.1, *QUICK]
    file = saved(data, tmp_path / "data.parquet")
    ok("train", file, "--out", tmp_path / "run", *common)
    ok("evaluate", tmp_path / "run", file)
    ok("predict", tmp_path / "run", file, "--decision", "least-cost", "--top", 1)


def test_scores_of_training_examples_are_called_that(metric: Path, tmp_path: Path) -> None:
    data, run = saved(tagged(parts=False), tmp_path / "data.parquet"), tmp_path / "run"
    ok("train", data, "--metric", metric, "--out", run, *QUICK)
    assert "that the run was trained on" in ok("evaluate", run, data).stderr
    some = tagged(parts=False).take(slice(0, 50))
    told = ok("evaluate", run, saved(some, tmp_path / "some.parquet"))
    assert "warning: 50 of 50 rows (100 %) are ones that the run was trained on" in told.stderr
    other = dataclasses.replace(some, features=some.features + 1)
    assert ok("evaluate", run, saved(other, tmp_path / "other.parquet")).stderr == ""
