"""Parts with unusual names: recognised, reported or refused."""

import json
import warnings
from pathlib import Path

import pytest

from tests.app.cli.commands import (
    METRIC,
    failed,
    graded,
    ok,
    process,
    same_weights,
    saved,
    wassloss,
)

QUICK = ("--tol", 0.1)
SUFFIXES = ["csv", "folder"]


def renamed(names: dict[str, str], path: Path) -> Path:
    """The data with other names of parts, in a file or a folder of the kind that the name says."""
    frame = graded()
    frame["part"] = frame["part"].replace(names)
    if path.suffix == ".folder":
        path.mkdir()
        saved(frame, path / "a.parquet")
        return path
    return saved(frame, path)


@pytest.fixture
def metric(tmp_path: Path) -> Path:
    METRIC.save(tmp_path / "metric.npz")
    return tmp_path / "metric.npz"


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_case_and_blanks_do_not_matter(suffix: str, metric: Path, tmp_path: Path) -> None:
    plain = renamed({}, tmp_path / f"plain.{suffix}")
    names = {"train": " TRAIN ", "validation": "Validation", "test": "Test"}
    loud = renamed(names, tmp_path / f"loud.{suffix}")
    models = tmp_path / "a.wassloss", tmp_path / "b.wassloss"
    scores = []
    for data, model in zip((plain, loud), models, strict=True):
        ok("train", data, "--metric", metric, "--out", model, *QUICK)
        parts = [
            json.loads(ok("evaluate", model, "--part", part, "--json").stdout)["scores"]
            for part in ("test", "validation")
        ]
        scores.append(parts)
    assert same_weights(*models)
    assert scores[0] == scores[1]
    told = json.loads(ok("evaluate", models[0], loud, "--part", "test", "--json").stdout)
    assert (told["part"], told["examples"]) == ("test", 40)
    assert len(ok("predict", models[0], loud, "--part", "test").stdout.splitlines()) == 41
    ok("report", *models, "--data", loud, "--part", "test", "--out", tmp_path / "report.html")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_parts_without_one_to_train_on_are_refused(
    suffix: str, metric: Path, tmp_path: Path
) -> None:
    """All rows would be trained on, and scores would be those of the training data."""
    data = renamed({"train": "training"}, tmp_path / f"data.{suffix}")
    for extra in ((), ("--test", 0.2)):
        said = failed(
            "train", data, "--metric", metric, "--out", tmp_path / "m.wassloss", *QUICK, *extra
        )
        assert "a part named train, got training, test, validation: rename one of them" in said
    assert not (tmp_path / "m.wassloss").exists()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_parts_that_are_not_used_are_named(suffix: str, metric: Path, tmp_path: Path) -> None:
    data = renamed({"validation": "valid", "test": "holdout"}, tmp_path / f"data.{suffix}")
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        result = wassloss(
            "train", data, "--metric", metric, "--out", tmp_path / "m.wassloss", *QUICK
        )
    assert result.exit_code == 0
    (said,) = result.stderr.splitlines()
    assert said == (
        "warning: unused parts: holdout, valid; the model is trained on train, "
        "and scored on test and validation"
    )
    said = failed("evaluate", tmp_path / "m.wassloss")
    assert "or 'validation': name another (train, holdout, valid) with --part" in said
    told = json.loads(ok("evaluate", tmp_path / "m.wassloss", "--part", "holdout", "--json").stdout)
    assert told["examples"] == 40


@pytest.mark.slow
def test_a_process_says_it_once(metric: Path, tmp_path: Path) -> None:
    """Warnings of this kind are shown to users, not only in tests."""
    data = renamed({"validation": "valid"}, tmp_path / "data.csv")
    words = (
        "train",
        data,
        "--metric",
        metric,
        "--out",
        tmp_path / "m.wassloss",
        "--transport-weight",
        0,
        *QUICK,
    )
    started = process(*words, warn="default")
    _, said = started.communicate(timeout=100)
    assert started.returncode == 0, said
    assert said.count("unused parts: valid") == 1
