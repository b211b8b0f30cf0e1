"""Running commands, and small data to run them on."""

import csv
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import torch
from typer.main import get_command
from typer.testing import CliRunner, Result

import wassloss as wl
from tests.data.tables import saved as saved
from tests.data.tables import split
from tests.training.problems import grades, tags
from wassloss.app.cli.app import app

NAMES = ("awful", "bad", "fair", "good", "superb")  # alphabetical, and in their order
METRIC = wl.ground.Ordinal(5, labels=NAMES)


def wassloss(*words: object) -> Result:
    """A command in this process."""
    return CliRunner().invoke(app, [str(word) for word in words], prog_name="wassloss")


def ok(*words: object) -> Result:
    """A command that must succeed."""
    result = wassloss(*words)
    assert result.exit_code == 0, result.output
    return result


def failed(*words: object, code: int = 1) -> str:
    """The one line that a command fails with; the options it names are options of the command."""
    result = wassloss(*words)
    assert result.exit_code == code, result.output
    lines = result.stderr.splitlines()
    assert len(lines) == 1, result.output
    assert lines[0].startswith("error: ")
    assert unknown_options(lines[0], [str(word) for word in words]) == []
    return lines[0].removeprefix("error: ")


def unknown_options(message: str, words: list[str]) -> list[str]:
    """Options that a message names, but that the command whose it is does not have.

    Words of the user's own are no advice, and a whole command in backquotes is another one.
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
    """The options of the command that a command line names."""
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


def tagged(parts: bool = True, names: tuple[str, ...] | None = NAMES) -> wl.data.Dataset:
    """Examples with one to three labels; 120 to train on, 40 to validate, 40 to test."""
    x, y = tags()
    data = wl.data.Dataset(x, y, label_names=names, label_count=5)
    if not parts:
        return data
    return split(data, {"train": 0.6, "validation": 0.2, "test": 0.2})


def graded(parts: bool = True, names: tuple[str, ...] | None = NAMES) -> wl.data.Dataset:
    """Examples with one label each."""
    x, y = grades()
    data = wl.data.Dataset(x, y, label_names=names, label_count=5)
    return split(data, {"train": 0.6, "validation": 0.2, "test": 0.2}) if parts else data


def wine_table(path: Path) -> Path:
    """A table as people have them: text categories, gaps, a row number and labels in words."""
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


def weights(run: Path) -> dict[str, torch.Tensor]:
    """What a run has learned."""
    return wl.load(run).model_.state_dict()


def same_weights(one: Path, other: Path) -> bool:
    """Whether two runs learned the same, bit for bit."""
    a, b = weights(one), weights(other)
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)
