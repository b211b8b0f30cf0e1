"""Run commands, and small data to run them on."""

import csv
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import torch
from typer.main import get_command
from typer.testing import CliRunner, Result

import wassloss as wl
from wassloss.app.cli.app import app
from wassloss.app.model import TableModel, load_model

NAMES = ("awful", "bad", "fair", "good", "superb")  # in alphabetical order, which is also their own
METRIC = wl.ground.Ordinal(5, labels=NAMES)
FEATURES = [f"x{i}" for i in range(6)]


def wassloss(*words: object) -> Result:
    """A command in this process; where skrub is missing, tests of text and dates are skipped."""
    result = CliRunner().invoke(app, [str(word) for word in words], prog_name="wassloss")
    if "need skrub" in result.output:
        pytest.importorskip("skrub")
    return result


def ok(*words: object) -> Result:
    """Run a command that must succeed."""
    result = wassloss(*words)
    assert result.exit_code == 0, result.output
    return result


def failed(*words: object, code: int = 1) -> str:
    """Return the line with which a command fails; all options that it names must exist."""
    result = wassloss(*words)
    assert result.exit_code == code, result.output
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.output
    assert lines[0].startswith("error: ")
    assert unknown_options(lines[0], [str(word) for word in words]) == []
    return lines[0].removeprefix("error: ")


def unknown_options(message: str, words: list[str]) -> list[str]:
    """Options that a message names but the command it is about does not have.

    The user's own words are ignored, and so are whole commands in backquotes.
    """
    own = re.sub("`wassloss [^`]*`", "", message)
    asked = [(own, {*options_of(words), *words})]
    others = re.findall("`wassloss ([^`]*)`", message)
    asked += [(other, options_of(other.split())) for other in others]
    return [
        option
        for text, known in asked
        for option in re.findall(r"(?<![\w-])--[a-z][a-z-]*", text)
        if option not in {*known, "--help"}
    ]


def options_of(words: list[str]) -> set[str]:
    """The options of the command on a command line."""
    command: Any = get_command(app)
    for word in words:
        if word not in getattr(command, "commands", {}):
            break
        command = command.commands[word]
    return {option for each in command.params for option in [*each.opts, *each.secondary_opts]}


def process(*words: object, warn: str = "error", **options: Any) -> subprocess.Popen[str]:
    """A command as a program of its own, with warnings as errors."""
    command = [sys.executable, "-W", warn, "-m", "wassloss.app", *map(str, words)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "OMP_WAIT_POLICY": "passive"}
    return subprocess.Popen(
        command,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
        **options,
    )


def graded(parts: bool = True, names: tuple[str, ...] = NAMES) -> pd.DataFrame:
    """Examples with one label each; 120 to train on, 40 to validate, 40 to test."""
    rng = np.random.default_rng(0)
    x = rng.normal(size=(200, 6)).astype(np.float32)
    scores = x @ rng.normal(size=(6, 5)) + rng.normal(size=(200, 5))
    frame = pd.DataFrame(x, columns=FEATURES)
    frame["label"] = np.array(names)[scores.argmax(1)]
    if parts:
        frame["part"] = rng.permutation(np.repeat(["train", "validation", "test"], [120, 40, 40]))
    return frame


def tagged(parts: bool = True, names: tuple[str, ...] = NAMES) -> pd.DataFrame:
    """The same with one to three labels each, of equal weights."""
    frame = graded(parts, names)
    number = np.random.default_rng(1).integers(1, 4, size=len(frame))
    first = frame.pop("label").map(names.index)
    frame["labels"] = [
        [names[(i + j) % 5] for j in range(n)] for i, n in zip(first, number, strict=True)
    ]
    frame["weights"] = [[1 / n] * n for n in number]
    return frame


def target_of(frame: pd.DataFrame, names: tuple[str, ...] = NAMES) -> Any:
    """The labels of examples, as losses and scores take them."""
    if "label" in frame:
        return torch.tensor([names.index(name) for name in frame["label"]])
    weights = torch.zeros(len(frame), len(names), dtype=torch.float64)
    for i, (own, shares) in enumerate(zip(frame["labels"], frame["weights"], strict=True)):
        weights[i, [names.index(name) for name in own]] = torch.tensor(shares, dtype=torch.float64)
    return weights


def saved(frame: pd.DataFrame, path: Path) -> Path:
    """A table in a file, of the format that the suffix says."""
    if path.suffix == ".parquet":
        frame.to_parquet(path, index=False)
        return path
    lists = [name for name in ("labels", "weights") if name in frame]
    joined = {name: frame[name].map(lambda cell: ";".join(map(str, cell))) for name in lists}
    frame.assign(**joined).to_csv(path, index=False)
    return path


def wine_table(path: Path) -> Path:
    """A realistic table: text categories, gaps, a row number and labels that are words."""
    rng = np.random.default_rng(0)
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "acid", "cellar", "organic", "maker", "grade"])
        for i in range(240):
            acid, cellar = rng.normal(), rng.choice(["old", "new"])
            value = acid + (cellar == "old") + 0.4 * rng.normal()
            shown = "" if i % 9 == 0 else f"{acid:.3f}"
            grade = ("poor", "fair", "good")[int(value > 0) + int(value > 1)]
            writer.writerow([i, shown, cellar, i % 2 == 0, f"m{i % 8}", grade])
    return path


def opened(path: Path) -> TableModel:
    """The model in a file."""
    return load_model(path)


def same_weights(one: Path, other: Path) -> bool:
    """Whether two models learned the same, bit for bit."""
    a, b = (load_model(path).classifier.model_.state_dict() for path in (one, other))
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)
