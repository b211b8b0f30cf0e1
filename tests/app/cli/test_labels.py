"""Labels are the values that occur: numbers stay numbers, without values in between."""

import csv
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import wassloss as wl
from tests.app.cli.commands import failed, ok, opened
from wassloss.app.evaluation import judge

QUICK = ("--tol", 0.01)


def table(path: Path, labels: list[Any], seed: int = 0, count: int = 90) -> Path:
    """Write rows whose first feature determines the label."""
    rng = np.random.default_rng(seed)
    which = np.arange(count) % len(labels)
    x = np.stack([which + 0.05 * rng.standard_normal(count), rng.standard_normal(count)], axis=1)
    rows = [[*x[i], labels[which[i]]] for i in range(count)]
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([["a", "b", "label"], *rows])
    return path


def predicted(model: Path, data: Path) -> set[str]:
    text = ok("predict", model, data, "--top", 1).stdout
    return {row["label_1"] for row in csv.DictReader(text.splitlines())}


@pytest.mark.parametrize(
    ("labels", "names", "positions"),
    [
        ([15, 20, 40], ("15", "20", "40"), [15, 20, 40]),
        ([10, 9, 2], ("2", "9", "10"), [2, 9, 10]),
        (["1.0", "2", "3.0"], ("1", "2", "3"), [1, 2, 3]),
        ([0.5, 1, 1.5], ("0.5", "1", "1.5"), [0.5, 1, 1.5]),
        ([-1, 0, 1], ("-1", "0", "1"), [-1, 0, 1]),
        ([3, 7, 1000000000], ("3", "7", "1000000000"), [3, 7, 1e9]),
    ],
    ids=str,
)
def test_numbers_are_labels_at_their_values(
    labels: list[Any], names: tuple[str, ...], positions: list[float], tmp_path: Path
) -> None:
    data, model = table(tmp_path / "data.csv", labels), tmp_path / "m.wassloss"
    ok("train", data, "--metric", "ordinal", "--out", model, *QUICK)
    found = opened(model)
    assert found.labels == names
    assert found.classes_.tolist() == sorted(positions)
    assert found.metric_.positions.tolist() == pytest.approx(positions)
    assert predicted(model, data) <= set(names)


@pytest.mark.parametrize("suffix", ["parquet", "folder"])
def test_the_same_in_every_format(suffix: str, tmp_path: Path) -> None:
    which = np.arange(60) % 3
    y = np.array([15, 20, 1000000000])[which]
    path, model = tmp_path / f"data.{suffix}", tmp_path / "m.wassloss"
    if suffix == "folder":
        path.mkdir()
    file = path / "a.parquet" if suffix == "folder" else path
    pd.DataFrame({"x0": which, "x1": np.arange(60) % 2, "label": y}).to_parquet(file)
    ok("train", path, "--metric", "ordinal", "--out", model, *QUICK)
    assert opened(model).classes_.tolist() == [15, 20, 1000000000]
    assert predicted(model, path) <= {"15", "20", "1000000000"}
    ok("evaluate", model, path)
    other = tmp_path / "other.csv"
    other.write_text("x0,x1,label\n0,1,20\n1,1,1000000000\n")
    assert json.loads(ok("evaluate", model, other, "--json").stdout)["examples"] == 2


def test_a_label_never_seen_is_named_with_its_line(tmp_path: Path) -> None:
    data, model = table(tmp_path / "data.csv", [15, 20, 40]), tmp_path / "m.wassloss"
    ok("train", data, "--metric", "ordinal", "--out", model, *QUICK)
    other = tmp_path / "other.csv"
    other.write_text("a,b,label\n1,2,15\n1,2,16\n")
    message = failed("evaluate", model, other)
    assert "other.csv cannot be read as data: line 3: '16' is not one of the 3 labels" in message
    assert "'15', '20', '40'" in message
    other.write_text("a,b,label\n1,2,15.0\n1,2,4e1\n")  # the same numbers, written otherwise
    ok("evaluate", model, other)


def test_data_that_changed_since_training_are_not_taken_for_the_same(tmp_path: Path) -> None:
    """What was held out is drawn by row: of other rows it would be another part."""
    data, model = table(tmp_path / "data.csv", [1, 2, 3]), tmp_path / "m.wassloss"
    ok("train", data, "--metric", "ordinal", "--test", 0.3, "--out", model, *QUICK)
    assert json.loads(ok("evaluate", model, "--json").stdout)["part"] == "test"
    table(data, [1, 2, 3], seed=1, count=30)
    assert "data.csv has changed since" in failed("evaluate", model)
    told = ok("evaluate", model, data, "--json")  # as other data: all of it, none seen in training
    assert json.loads(told.stdout)["examples"] == 30
    assert told.stderr == ""


def test_labels_of_a_run_without_names_are_ids(tmp_path: Path) -> None:
    wl.ground.Ordinal(5).save(tmp_path / "metric.npz")
    data, model = table(tmp_path / "data.csv", [0, 1, 2, 3]), tmp_path / "m.wassloss"
    train = ("train", data, "--metric", tmp_path / "metric.npz", "--out", model)
    ok(*train, *QUICK)
    assert opened(model).classes_.tolist() == [0, 1, 2, 3, 4]
    other = tmp_path / "other.csv"
    other.write_text("a,b,label\n1,1,4\n2,0,0\n")
    assert json.loads(ok("evaluate", model, other, "--json").stdout)["examples"] == 2
    other.write_text("a,b,label\n1,1,4\n2,0,5\n")
    assert "line 3: '5' is not one of the 5 labels" in failed("evaluate", model, other)


def test_labels_too_close_to_each_other(tmp_path: Path) -> None:
    data, model = (
        table(tmp_path / "data.csv", [1700000000, 1700000001, 1700000003]),
        tmp_path / "m.wassloss",
    )
    ok("train", data, "--metric", "ordinal", "--out", model, *QUICK)
    metric = opened(model).metric_
    assert metric.distance().tolist() == [[0, 1, 3], [1, 0, 2], [3, 2, 0]]
    table(data, [2**53, 2**53 + 1, 0.5])
    message = failed("train", data, "--metric", "ordinal", "--out", tmp_path / "other", *QUICK)
    assert "classes must be distinct" in message


def test_codes_with_leading_zeros_are_names(tmp_path: Path) -> None:
    data, model = table(tmp_path / "data.csv", ["007", "010", "100"]), tmp_path / "m.wassloss"
    assert "the order of the labels is unknown" in failed(
        "train", data, "--metric", "ordinal", "--out", model, *QUICK
    )
    ok("train", data, "--metric", "discrete", "--out", model, *QUICK)
    assert predicted(model, data) <= {"007", "010", "100"}


@pytest.mark.parametrize(
    ("metric", "labels", "expected"),
    [
        (wl.ground.Ordinal([15, 20, 40], labels=["15", "20", "40"]), [40, 15], [2, 0]),
        (wl.ground.Ordinal([15, 20, 40]), [2, 0], [2, 0]),  # by id, because no position is 2
        (wl.ground.Discrete(5), [4, 0], [4, 0]),  # by id
        (
            wl.ground.Ordinal([0, 1, 9], labels=["mild", "grave", "fatal"]),
            ["fatal", "mild"],
            [2, 0],
        ),
    ],
    ids=str,
)
def test_labels_find_their_place_in_a_metric(
    metric: wl.ground.GroundMetric, labels: list[Any], expected: list[int], tmp_path: Path
) -> None:
    metric.save(tmp_path / "metric.npz")
    data, model = table(tmp_path / "data.csv", labels, count=4), tmp_path / "m.wassloss"
    ok("train", data, "--metric", tmp_path / "metric.npz", "--out", model, *QUICK)
    found = opened(model)
    assert judge(found, str(data)).examples.target.tolist() == expected * 2


@pytest.mark.parametrize(
    ("metric", "labels", "message"),
    [
        (wl.ground.Discrete(3), [1, 2, 3], "list the class of each label"),
        (wl.ground.Ordinal([15, 20, 40]), [40, 15], "list the class of each label"),
        (wl.ground.Ordinal([0, 1, 3, 9]), [0, 1, 3], "label numbers or positions"),
        (wl.ground.Ordinal(3, labels=list("abc")), [0, 1, 2], "'0' is not one of the 3 labels"),
        (wl.ground.Ordinal(3, labels=["1", "2", "3"]), [0, 1, 2], "'0' is not one of the 3 labels"),
    ],
    ids=str,
)
def test_labels_without_a_place_are_an_error(
    metric: wl.ground.GroundMetric, labels: list[Any], message: str, tmp_path: Path
) -> None:
    metric.save(tmp_path / "metric.npz")
    data, out = table(tmp_path / "data.csv", labels), tmp_path / "m.wassloss"
    said = failed("train", data, "--metric", tmp_path / "metric.npz", "--out", out, *QUICK)
    assert message in said
    assert not out.exists()
