"""The help: there at once, whole at 80 columns, and true."""

from __future__ import annotations

import re
import subprocess
import sys
from inspect import signature
from typing import Any

import pytest
from typer.main import get_command
from typer.testing import CliRunner

import wassloss as wl
from tests.app.cli.commands import options_of
from wassloss.app.cli._options import CLASSIFIER, TABLE
from wassloss.app.cli.app import app
from wassloss.app.cli.train import train
from wassloss.app.examples import ReadOptions
from wassloss.app.training import fit_table

COMMANDS = ["compare", "train", "predict", "evaluate", "report", "export", "demo", "metric show"]
HEAVY = ("torch", "numpy", "scipy", "pandas", "sklearn", "skrub", "pyarrow", "matplotlib")


def shown(*words: str) -> str:
    done = CliRunner().invoke(app, [*words, "--help"], env={"COLUMNS": "80", "TERMINAL_WIDTH": ""})
    assert done.exit_code == 0
    return done.stdout


@pytest.mark.parametrize("words", [["--version"], ["--help"], ["train", "--help"]], ids=" ".join)
def test_nothing_heavy_is_imported_before_a_command_runs(words: list[str]) -> None:
    code = (
        "import sys\nfrom wassloss.app.cli import main\n"
        "try:\n    main()\nexcept SystemExit:\n    pass\n"
        f"print(sorted(set({HEAVY!r}) & set(sys.modules)))"
    )
    command = [sys.executable, "-c", code, *words]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "[]"


@pytest.mark.parametrize("command", COMMANDS)
def test_options_are_whole_at_80_columns(command: str) -> None:
    text = shown(*command.split())
    assert max(map(len, text.splitlines())) <= 80
    assert "…" not in text
    found = set(re.findall(r"--[a-z][a-z-]*", text))
    assert {name for name in options_of(command.split()) if name.startswith("--")} <= found


@pytest.mark.parametrize("command", COMMANDS)
def test_help_is_in_sentences(command: str) -> None:
    """Each begins with a capital letter or a value of the option, and ends with a full stop."""
    found: Any = get_command(app)
    for word in command.split():
        found = found.commands[word]
    for parameter in found.params:
        text = parameter.help
        assert text.endswith("."), text
        assert text[0].isupper() or re.match(r"[\w-]+[:,]", text), text


def test_defaults_are_those_of_python() -> None:
    classifier = wl.WassersteinClassifier()
    for name, option in CLASSIFIER.items():
        assert option.parse(option.default) == getattr(classifier, name), name
    reading = ReadOptions()
    for name, option in TABLE.items():
        assert option.parse(option.default) == getattr(reading, name), name
    command, python = signature(train).parameters, signature(fit_table).parameters
    for name in ("test", "seed"):
        assert command[name].default == python[name].default


def test_options_are_parameters_of_python() -> None:
    assert set(CLASSIFIER) <= wl.WassersteinClassifier().get_params().keys()
    assert set(TABLE) == set(vars(ReadOptions()))
