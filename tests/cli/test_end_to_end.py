"""Train, evaluate, predict, report: in every format."""

import csv
import dataclasses
import json
from pathlib import Path

import pytest
import torch

import wassloss as wl
from tests.cli.commands import (
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
from wassloss.runs.trained import open_run

QUICK = ("--steps", 40, "--batch-size", 20, "--evaluate-every", 10, "--log-every", 10)


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


@pytest.mark.parametrize("kind", ["npz", "parquet", "csv", "folder"])
def test_from_data_to_report(kind: str, metric: Path, tmp_path: Path) -> None:
    if kind in ("parquet", "folder"):
        pytest.importorskip("pyarrow")
    data, run, other = written(kind, tmp_path), tmp_path / "w", tmp_path / "kl"
    common = ["--metric", metric, *QUICK]
    ok("train", data, "--out", run, "--kl-weight", 0.1, *common)
    ok("train", data, "--out", other, "--loss", "kl", *common)
    names = {path.name for path in run.iterdir()}
    assert {
        "config.json",
        "start.safetensors",
        "model.safetensors",
        "scores.json",
        "log.jsonl",
    } <= names

    # Scores: the file's, the command's, and those computed by hand are the same.
    told = json.loads(ok("evaluate", run, data, "--json", "--part", "test").stdout)
    filed = json.loads((run / "scores.json").read_text())["parts"]["test"]
    assert told["scores"] == pytest.approx(filed["scores"])
    test = tagged().part("test")
    logits = open_run(run).logits(test.features)
    costs = wl.scores.top_k_cost(logits, test.target, METRIC, k=range(1, 6))
    assert told["top_k_cost"] == pytest.approx(costs.tolist(), abs=1e-6)
    auc = wl.scores.ranking_auc(logits, test.target)
    assert told["scores"]["auc"] == pytest.approx(float(auc))
    assert told["examples"] == 40
    assert told["scores"]["top1_cost"] < 1.0  # by chance it is over 1

    answers = tmp_path / "answers.jsonl"
    ok("predict", run, data, "--top", 2, "--out", answers)
    lines = [json.loads(line) for line in answers.read_text().splitlines()]
    assert [line["row"] for line in lines] == list(range(200))
    assert all(set(line["labels"]) <= set(NAMES) for line in lines)

    page = tmp_path / "report.html"
    assert str(page) in ok("report", other, run, "--out", page).stdout
    assert page.read_text().count("<svg") >= 3


def test_predictions_for_a_folder(
    metric: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same as for one file, rows numbered through; a part too, and without labels."""
    pa = pytest.importorskip("pyarrow.parquet")
    file, shards = written("parquet", tmp_path), written("folder", tmp_path)
    run = tmp_path / "run"
    ok("train", file, "--out", run, "--metric", metric, "--kl-weight", 0.1, *QUICK)
    monkeypatch.setattr("wassloss.estimators.model_file._ROWS", 32)
    expected = ok("predict", run, saved(tagged(), tmp_path / "data.npz")).stdout
    assert ok("predict", run, file).stdout == expected
    assert ok("predict", run, shards).stdout == expected
    for path in shards.iterdir():
        pa.write_table(pa.read_table(path).select(["features", "part"]), path)
    assert ok("predict", run, shards).stdout == expected
    text = ok("predict", run, shards, "--part", "test").stdout
    rows = [int(row["row"]) for row in csv.DictReader(text.splitlines())]
    assert rows == sorted(tagged().parts["test"].tolist())
    best = [row["label_1"] for row in csv.DictReader(expected.splitlines())]
    chosen = [row["label_1"] for row in csv.DictReader(text.splitlines())]
    assert chosen == [best[row] for row in rows]
    assert "rows of the part 'dev', got none" in failed("predict", run, shards, "--part", "dev")
    (tmp_path / "empty").mkdir()
    assert "has none" in failed("predict", run, tmp_path / "empty")
    (shards / "part-2.parquet").write_bytes(b"PAR1 and no more")
    assert "part-2.parquet" in failed("predict", run, shards)


def test_predictions_in_every_format(metric: Path, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow.parquet")
    named = dataclasses.replace(tagged(), feature_names=tuple(f"x{i}" for i in range(6)))
    data, run = saved(named, tmp_path / "data.npz"), tmp_path / "run"
    ok("train", data, "--out", run, "--metric", metric, "--kl-weight", 0.1, *QUICK)
    features = tagged().features
    p = torch.from_numpy(wl.load(run).predict_proba(features))

    unlabelled = tmp_path / "new.csv"
    with open(unlabelled, "w", newline="") as file:
        csv.writer(file).writerows([[f"x{i}" for i in range(6)], *features.tolist()])
    text = ok("predict", run, unlabelled, "--top", 2).stdout
    rows = list(csv.DictReader(text.splitlines()))
    best = wl.scores.top_labels(p, 2)
    assert [row["label_1"] for row in rows] == [NAMES[i] for i in best[:, 0]]
    chances = [float(row["probability_2"]) for row in rows]
    assert chances == pytest.approx(p.gather(1, best)[:, 1].tolist(), rel=1e-4)

    for suffix in ("csv", "jsonl", "parquet"):
        ok("predict", run, unlabelled, "--top", 2, "--out", tmp_path / f"answers.{suffix}")
    assert (tmp_path / "answers.csv").read_text() == text
    table = pa.read_table(tmp_path / "answers.parquet").to_pylist()
    lines = [json.loads(x) for x in (tmp_path / "answers.jsonl").read_text().splitlines()]
    assert table == lines
    assert [line["labels"][0] for line in lines] == [row["label_1"] for row in rows]

    text = ok("predict", run, data, "--decision", "least-cost", "--top", 1, "--part", "test").stdout
    rows = list(csv.DictReader(text.splitlines()))
    chosen = tagged().parts["test"]
    assert [int(row["row"]) for row in rows] == chosen.tolist()
    expected = wl.scores.least_cost_label(p[chosen], METRIC)
    assert [row["label_1"] for row in rows] == [NAMES[i] for i in expected]
    several = ok("predict", run, data, "--decision", "least-cost", "--top", 2).stdout
    expected = wl.scores.least_cost_labels(p, METRIC, 2)
    assert [row["label_2"] for row in csv.DictReader(several.splitlines())] == [
        NAMES[i] for i in expected[:, 1]
    ]


def test_the_configuration_tells_everything(metric: Path, tmp_path: Path) -> None:
    data, run = saved(tagged(), tmp_path / "data.npz"), tmp_path / "run"
    ok(
        *(
            "train",
            data,
            "--out",
            run,
            "--metric",
            metric,
            "--hidden-layer-sizes",
            "8,4",
            "--dropout",
            0.1,
        ),
        *(
            "--epsilon",
            0.5,
            "--power",
            2,
            "--kl-weight",
            0.3,
            "--optimizer",
            "sgd",
            "--learning-rate",
            0.2,
        ),
        *("--schedule", "cosine", "--seed", 3, "--standardize", *QUICK),
    )
    config = json.loads((run / "config.json").read_text())
    assert config["model"]["kind"] == "MLP"
    assert config["model"]["hidden_layer_sizes"] == [8, 4]
    assert config["settings"]["seed"] == 3
    assert "epsilon=0.5" in config["loss"]
    assert {"wassloss", "torch", "numpy", "python", "platform"} == config["versions"].keys()
    opened = wl.load(run)
    assert opened.metric_.power == 2
    assert opened.metric_.labels == NAMES
    # Features were brought to mean 0 and variance 1 over the training examples, not all.
    train = tagged().part("train").features
    standardized = torch.from_numpy(opened.scaler_.transform(train.numpy()))
    assert standardized.mean(0).abs().max() < 1e-6
    assert (standardized.std(0, correction=0) - 1).abs().max() < 1e-5
    expected = opened.model_(standardized).detach().softmax(1).double()
    found = torch.from_numpy(opened.predict_proba(train))
    torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6)


def test_early_stopping_keeps_the_best_weights(metric: Path, tmp_path: Path) -> None:
    data, run = saved(tagged(), tmp_path / "data.npz"), tmp_path / "run"
    text = ok(
        *("train", data, "--out", run, "--metric", metric, "--patience", 2, "--learning-rate", 0.5),
        *("--steps", 2000, "--evaluate-every", 10, "--score", "top5_cost"),
    ).stdout
    assert "stopped early" in text
    outcome = json.loads((run / "scores.json").read_text())
    scored = outcome["parts"]["validation"]["scores"]["top5_cost"]
    assert scored == pytest.approx(outcome["training"]["best_score"], rel=1e-5)


@pytest.mark.parametrize("kind", ["npz", "folder"])
def test_resume_goes_on_as_if_never_stopped(kind: str, metric: Path, tmp_path: Path) -> None:
    if kind == "folder":
        pytest.importorskip("pyarrow")
    data, run, whole = written(kind, tmp_path), tmp_path / "run", tmp_path / "whole"
    command = (
        "train",
        data,
        "--metric",
        metric,
        "--hidden-layer-sizes",
        8,
        "--dropout",
        0.2,
        *QUICK,
    )
    ok(*command, "--out", whole, "--steps", 70)
    ok(*command, "--out", run)
    assert not same_weights(run, whole)
    ok("train", "--out", run, "--resume", "--steps", 70)  # the rest it knows
    assert same_weights(run, whole)
    log = (run / "log.jsonl").read_text().splitlines()
    assert [json.loads(line)["step"] for line in log] == list(range(10, 71, 10))


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
    assert opened.metric.labels == order
    told = json.loads(ok("evaluate", run, test, "--json").stdout)
    target = torch.tensor([order.index(NAMES[i]) for i in few.target])
    logits = opened.logits(few.features)
    expected = wl.scores.top_k_cost(logits, target, opened.metric, k=1)
    assert told["scores"]["top1_cost"] == pytest.approx(float(expected))


def test_kl_alone_is_cross_entropy(tmp_path: Path) -> None:
    from wassloss.losses.baselines import KLLoss

    logits = torch.randn(6, 4, dtype=torch.float64, requires_grad=True)
    ids = torch.tensor([0, 1, 2, 3, 0, 1])
    loss = KLLoss(4)(logits, ids)
    expected = torch.nn.functional.cross_entropy(logits, ids)
    assert loss.item() == pytest.approx(expected.item())
    y = torch.rand(6, 4, dtype=torch.float64)
    y[0, 1:] = 0.0
    y /= y.sum(1, keepdim=True)
    (ours,) = torch.autograd.grad(KLLoss(4)(logits, 3 * y), logits)
    soft = torch.nn.functional.cross_entropy(logits, y)
    (theirs,) = torch.autograd.grad(soft, logits)
    assert torch.allclose(ours, theirs, atol=1e-12)
    entropy = torch.special.xlogy(y, y).sum(1).mean()
    assert KLLoss(4)(logits, y).item() == pytest.approx((soft + entropy).item())


def test_clipart_needs_no_files(tmp_path: Path) -> None:
    run = tmp_path / "run"
    text = ok("train", "clipart", "--out", run, "--kl-weight", 0.1, "--steps", 20).stdout
    assert "test: 941 examples" in text
    assert "top1_cost" in ok("evaluate", run).stdout
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
    common = ["--metric", metric, "--patience", 3, "--kl-weight", 0.1, *QUICK]
    file = saved(data, tmp_path / "data.npz")
    ok("train", file, "--out", tmp_path / "npz", "--standardize", *common)
    (tmp_path / "shards").mkdir()
    saved(data, tmp_path / "shards" / "a.parquet")
    ok("train", tmp_path / "shards", "--out", tmp_path / "folder", *common)
    for run in ("npz", "folder"):
        ok("evaluate", tmp_path / run, file)
        ok("predict", tmp_path / run, file, "--decision", "least-cost", "--top", 1)


def test_scores_of_training_examples_are_called_that(metric: Path, tmp_path: Path) -> None:
    data, run = saved(tagged(parts=False), tmp_path / "data.npz"), tmp_path / "run"
    ok("train", data, "--metric", metric, "--out", run, *QUICK)
    assert "that the run was trained on" in ok("evaluate", run, data).stderr
    other = saved(tagged(parts=False).take(slice(0, 50)), tmp_path / "other.npz")
    assert ok("evaluate", run, other).stderr == ""
