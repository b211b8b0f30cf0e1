"""Parts whose names are not quite train, validation and test: found, said, or refused."""

import json
import warnings
from pathlib import Path

import pytest

import wassloss as wl
from tests.app.cli.commands import METRIC, failed, graded, ok, process, same_weights, saved, wassloss

QUICK = ("--tol", 0.1)
SUFFIXES = ["csv", "folder"]


def renamed(names: dict[str, str], path: Path) -> Path:
    """The data with other names of parts, in a file or a folder of the kind that the name says."""
    data = graded()
    parts = {names.get(name, name): rows for name, rows in data.parts.items()}
    if path.suffix in (".parquet", ".folder"):
        pytest.importorskip("pyarrow")
    file = path
    if path.suffix == ".folder":
        path.mkdir()
        file = path / "a.parquet"
    other = wl.data.Dataset(
        data.features, data.target, label_names=data.label_names, label_count=5, parts=parts
    )
    saved(other, file)
    return path


@pytest.fixture
def metric(tmp_path: Path) -> Path:
    METRIC.save(tmp_path / "metric.npz")
    return tmp_path / "metric.npz"


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_case_and_blanks_do_not_matter(suffix: str, metric: Path, tmp_path: Path) -> None:
    plain = renamed({}, tmp_path / f"plain.{suffix}")
    names = {"train": " TRAIN ", "validation": "Validation", "test": "Test"}
    loud = renamed(names, tmp_path / f"loud.{suffix}")
    runs = tmp_path / "a", tmp_path / "b"
    for data, run in zip((plain, loud), runs, strict=True):
        ok("train", data, "--metric", metric, "--out", run, *QUICK)
    assert same_weights(*runs)
    scores = [json.loads((run / "scores.json").read_text())["parts"] for run in runs]
    assert scores[0] == scores[1]
    assert scores[0].keys() == {"validation", "test"}
    told = json.loads(ok("evaluate", runs[0], loud, "--part", "test", "--json").stdout)
    assert (told["part"], told["examples"]) == ("test", 40)
    assert len(ok("predict", runs[0], loud, "--part", "test").stdout.splitlines()) == 41
    ok("report", *runs, "--data", loud, "--part", "test", "--out", tmp_path / "report.html")


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_parts_without_one_to_train_on_are_refused(
    suffix: str, metric: Path, tmp_path: Path
) -> None:
    """Everything would be trained on, and the scores would be of what was learned by heart."""
    data = renamed({"train": "training"}, tmp_path / f"data.{suffix}")
    for extra in ((), ("--test", 0.2)):
        said = failed("train", data, "--metric", metric, "--out", tmp_path / "run", *QUICK, *extra)
        assert "a part named train, got training, validation, test: rename one of them" in said
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize("suffix", SUFFIXES)
def test_parts_that_are_not_used_are_named(suffix: str, metric: Path, tmp_path: Path) -> None:
    data = renamed({"validation": "valid", "test": "holdout"}, tmp_path / f"data.{suffix}")
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        result = wassloss("train", data, "--metric", metric, "--out", tmp_path / "run", *QUICK)
    assert result.exit_code == 0
    (said,) = result.stderr.splitlines()
    assert said == (
        "warning: parts that are not used: valid, holdout; train is trained on, test and "
        "validation are scored"
    )
    said = failed("evaluate", tmp_path / "run")
    assert "that was held out: name another (train, valid, holdout) with --part" in said
    told = json.loads(ok("evaluate", tmp_path / "run", "--part", "holdout", "--json").stdout)
    assert told["examples"] == 40


def test_names_that_come_to_the_same(tmp_path: Path) -> None:
    (tmp_path / "x.csv").write_text("u,label,part\n1,a,train\n2,b,Train\n3,a,test \n")
    data = wl.data.read(tmp_path / "x.csv")
    assert {name: rows.tolist() for name, rows in data.parts.items()} == {
        "train": [0, 1],
        "test": [2],
    }
    assert data.part("train").features.tolist() == [[1], [2]]


@pytest.mark.slow
def test_a_process_says_it_once(metric: Path, tmp_path: Path) -> None:
    """Warnings of this kind are shown to users, not only to tests."""
    data = renamed({"validation": "valid"}, tmp_path / "data.csv")
    words = (
        "train",
        data,
        "--metric",
        metric,
        "--out",
        tmp_path / "run",
        "--transport-weight",
        0,
        *QUICK,
    )
    started = process(*words, warn="default")
    _, said = started.communicate(timeout=100)
    assert started.returncode == 0, said
    assert said.count("parts that are not used: valid") == 1
