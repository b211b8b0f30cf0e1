"""Tables: columns by name in any order, by position where there are no names."""

import csv
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import Result

import wassloss as wl
from tests.app.cli.commands import failed, ok, same_weights, saved, wassloss, wine_table
from wassloss.app.cli import _options

NAMES = ["age", "height", "weight", "pulse"]
TRAIN = ("--metric", "ordinal", "--tol", 0.01)


def table(seed: int = 0, count: int = 120) -> tuple[np.ndarray, np.ndarray]:
    """Features whose columns matter differently, and grades 0 to 2 that depend on them."""
    rng = np.random.default_rng(seed)
    x = rng.standard_normal((count, 4))
    score = x @ [3.0, -2.0, 0.5, 0.0] + 0.1 * rng.standard_normal(count)
    return x, np.digitize(score, [-1.0, 1.0])


def written(path: Path, columns: dict[str, Any]) -> Path:
    """A CSV file with these columns."""
    rows = list(zip(*columns.values(), strict=True))
    with open(path, "w", newline="") as file:
        csv.writer(file).writerows([list(columns), *rows])
    return path


def columns(seed: int = 0) -> dict[str, Any]:
    x, y = table(seed)
    return {**{name: x[:, i] for i, name in enumerate(NAMES)}, "label": y}


def shuffled(given: dict[str, Any]) -> dict[str, Any]:
    return {name: given[name] for name in ("label", "pulse", "weight", "height", "age")}


def said(*words: object) -> Result:
    """A command that must succeed, with its warnings shown as a user sees them."""
    with warnings.catch_warnings():
        warnings.simplefilter("default")
        result = wassloss(*words)
    assert result.exit_code == 0, result.output
    return result


def answers(run: Path, data: Path, *words: object) -> list[str]:
    text = said("predict", run, data, "--top", 1, *words).stdout
    return [row["label_1"] for row in csv.DictReader(text.splitlines())]


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """Trained on columns in their order."""
    data = written(tmp_path / "train.csv", columns())
    ok("train", data, "--out", tmp_path / "run", *TRAIN)
    return tmp_path / "run"


# --- by name -------------------------------------------------------------------------------------


def test_columns_in_any_order_give_the_same_answers(run: Path, tmp_path: Path) -> None:
    new = columns(1)
    straight = written(tmp_path / "straight.csv", new)
    other = written(tmp_path / "other.csv", shuffled(new))
    assert answers(run, straight) == answers(run, other)
    scores = [
        json.loads(ok("evaluate", run, f, "--json").stdout)["scores"] for f in (straight, other)
    ]
    assert scores[0] == scores[1]
    assert scores[0]["accuracy"] > 0.5


def test_parquet_columns_in_any_order_too(run: Path, tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    pq = pytest.importorskip("pyarrow.parquet")
    new = columns(1)
    expected = answers(run, written(tmp_path / "new.csv", new))
    pq.write_table(pa.table(shuffled(new)), tmp_path / "new.parquet")
    assert answers(run, tmp_path / "new.parquet") == expected
    ok("evaluate", run, tmp_path / "new.parquet")
    folder = tmp_path / "folder"
    folder.mkdir()
    pq.write_table(pa.table(new).slice(0, 50), folder / "a.parquet")
    pq.write_table(pa.table(shuffled(new)).slice(50), folder / "b.parquet")
    assert answers(run, folder) == expected
    told = json.loads(ok("evaluate", run, folder, "--json").stdout)["scores"]
    filed = json.loads(ok("evaluate", run, tmp_path / "new.csv", "--json").stdout)["scores"]
    assert told == pytest.approx(filed)


def test_missing_columns_are_named(run: Path, tmp_path: Path) -> None:
    given = columns(1)
    few = {"pulse": given["pulse"], "age": given["age"], "label": given["label"]}
    data = written(tmp_path / "few.csv", few)
    for command in ("predict", "evaluate"):
        message = failed(command, run, data)
        assert "few.csv cannot be read as data: it lacks the columns 'height', 'weight'" in message
        assert "; it has 'pulse', 'age'" in message
    said_by_report = failed("report", run, "--data", data, "--out", tmp_path / "report.html")
    assert "lacks the columns 'height', 'weight'" in said_by_report


def test_extra_columns_are_ignored_in_one_line(run: Path, tmp_path: Path) -> None:
    given = columns(1)
    expected = answers(run, written(tmp_path / "plain.csv", given))
    more = {"name": ["Ann"] * 120, **shuffled(given), "city": ["Ulm"] * 120}  # not even numbers
    data = written(tmp_path / "more.csv", more)
    assert answers(run, data) == expected
    for command in (("predict", run, data), ("evaluate", run, data)):
        (line,) = said(*command).stderr.splitlines()
        assert line.startswith("warning: ")
        assert "ignoring the columns 'name', 'city', which the model was not trained on" in line


def test_names_survive_every_format(run: Path, tmp_path: Path) -> None:
    """Written from a table in another order, a file without named columns still says its names."""
    pytest.importorskip("pyarrow")
    new = columns(1)
    expected = answers(run, written(tmp_path / "new.csv", new))
    other = wl.data.read(written(tmp_path / "other.csv", shuffled(new)))
    assert other.feature_names == ("pulse", "weight", "height", "age")
    for suffix in ("parquet", "csv"):
        path = tmp_path / f"data.{suffix}"
        saved(other, path)
        assert wl.data.read(path).feature_names == other.feature_names
        assert answers(run, path) == expected


REPEATED = {  # options that take several words, and what they say in one go
    "drop": (("maker", "id"), "maker,id"),
    "features": (("acid", "cellar,organic"), "acid,cellar,organic"),
    "order": (("poor", "fair,good"), "poor,fair,good"),
    "hidden_layer_sizes": (("8", "4"), "8,4"),
}


def test_every_option_of_several_words_is_here() -> None:
    assert set(REPEATED) == set(_options._PARSERS)


@pytest.mark.filterwarnings("default::wassloss.data.DataWarning")
@pytest.mark.parametrize("name", REPEATED)
def test_an_option_that_is_given_again_adds_to_itself(name: str, tmp_path: Path) -> None:
    again, once = REPEATED[name]
    option = f"--{name.replace('_', '-')}"
    words = {"--order": "poor,fair,good", "--label-column": "grade", "--metric": "ordinal"}
    words.pop(option, None)
    command = [*sum(words.items(), ()), "--max-iter", 1, "--solver", "adam"]
    data = wine_table(tmp_path / "wine.csv")
    for out, given in (("again", again), ("once", (once,))):
        more = [word for each in given for word in (option, each)]
        ok("train", data, *command, *more, "--out", tmp_path / out)
    found, expected = (
        json.loads((tmp_path / out / "config.json").read_text()) for out in ("again", "once")
    )
    assert (found["task"], found["params"]) == (expected["task"], expected["params"])
    key = "params" if name == "hidden_layer_sizes" else "task"
    assert [str(each) for each in found[key][name]] == once.split(",")
    assert same_weights(tmp_path / "again", tmp_path / "once")


def test_labels_of_a_metric_add_up(tmp_path: Path) -> None:
    (tmp_path / "table.csv").write_text("a,b,c\n0,1,2\n1,0,3\n2,3,0\n")
    (tmp_path / "names.txt").write_text("c\n")
    words = ("--matrix", tmp_path / "table.csv", "--out", tmp_path / "m.npz")
    ok("metric", "build", *words, "--labels", "b", "--labels", tmp_path / "names.txt")
    assert wl.ground.GroundMetric.load(tmp_path / "m.npz").labels == ("b", "c")
