"""Runs that a command is told to use."""

from __future__ import annotations

from pathlib import Path

from wassloss.runs import TrainedRun, load


def opened_run(path: Path) -> TrainedRun:
    """The run in a directory."""
    found = load(path)
    if not isinstance(found, TrainedRun):
        raise ValueError(
            f"{path} is a saved {type(found).__name__}, expected the directory of a run; predict "
            "with it in Python: wassloss.load"
        )
    return found
