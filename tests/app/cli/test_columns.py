"""Columns of tables: by name in any order, by position if there are no names."""

import csv
import json
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from typer.testing import Result

from tests.app.cli.commands import failed, ok, opened, same_weights, wassloss, wine_table
from wassloss.app.cli import _options

NAMES = ["age", "height", "weight", "pulse"]
TRAIN = ("--metric", "ordinal", "--tol", 0.01)


def table(seed: int = 0, count: int = 120) -> tuple[np.ndarray, np.ndarray]:
    """Features whose columns have different effects, and grades 0 to 2 that depend on them."""
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
    """Run a command that must succeed, with warnings as a user sees them."""
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
    """A run trained on columns in their original order."""
    data = written(tmp_path / "train.csv", columns())
    ok("train", data, "--out", tmp_path / "m.wassloss", *TRAIN)
    return tmp_path / "m.wassloss"


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
    new = columns(1)
    expected = answers(run, written(tmp_path / "new.csv", new))
    other = pd.DataFrame(shuffled(new))
    other.to_parquet(tmp_path / "new.parquet")
    assert answers(run, tmp_path / "new.parquet") == expected
    ok("evaluate", run, tmp_path / "new.parquet")
    folder = tmp_path / "folder"
    folder.mkdir()
    pd.DataFrame(new)[:50].to_parquet(folder / "a.parquet")
    other[50:].to_parquet(folder / "b.parquet")
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


REPEATED = {  # options that take several words, and what they say in one go
    "drop": (("maker", "id"), "maker,id"),
    "features": (("acid", "cellar,organic"), "acid,cellar,organic"),
    "order": (("poor", "fair,good"), "poor,fair,good"),
    "hidden_layer_sizes": (("8", "4"), "8,4"),
}


def test_every_option_of_several_words_is_here() -> None:
    options = {**_options.TABLE, **_options.CLASSIFIER}
    assert set(REPEATED) == {n for n, each in options.items() if each.kind == _options.Words}


@pytest.mark.filterwarnings("default::wassloss.app._messages.DataWarning")
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
        ok("train", data, *command, *more, "--out", tmp_path / f"{out}.wassloss")
    one, two = (opened(tmp_path / f"{out}.wassloss") for out in ("again", "once"))
    assert one.origin["options"] == two.origin["options"]
    kept = one.origin["options"] if name in _options.TABLE else one.classifier.get_params()
    assert [str(each) for each in kept[name]] == once.split(",")
    assert same_weights(tmp_path / "again.wassloss", tmp_path / "once.wassloss")
