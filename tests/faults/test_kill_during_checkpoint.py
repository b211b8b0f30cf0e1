"""A run killed at any moment of writing a checkpoint resumes from this one or the one before."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

from tests.training.problems import linear, same, tags, wasserstein
from wassloss.training import TrainingPlan, train

MOMENTS = ["mkdir", "fsync", "replace", "unlink"]


def die_at(count: int, moment: str, patch: pytest.MonkeyPatch) -> None:
    """End the child process at the given call of a function of the file system."""
    place: Any = os if moment in ("fsync", "replace") else Path
    original: Callable[..., Any] = getattr(place, moment)
    calls = 0

    def deadly(*arguments: Any, **keywords: Any) -> Any:
        nonlocal calls
        calls += 1
        if calls == count:
            os._exit(9)  # like a kill: no finally, no flush
        return original(*arguments, **keywords)

    patch.setattr(place, moment, deadly)


def run(directory: Path, steps: int = 12) -> torch.nn.Module:
    model = linear()
    plan = TrainingPlan(
        steps=steps, batch_size=20, learning_rate=0.1, log_every=2, checkpoint_every=3
    )
    train(model, wasserstein(), tags(), plan, directory=directory, resume=True)
    return model


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs POSIX: kills a child process")
@pytest.mark.usefixtures("one_thread")
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_at_every_call(moment: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    expected = run(tmp_path / "whole")
    killed = 0
    for count in (1, 2, 3, 5, 8, 13):
        directory = tmp_path / f"{moment}-{count}"
        child = os.fork()
        if child == 0:
            try:
                die_at(count, moment, monkeypatch)
                run(directory)
            finally:
                os._exit(0)
        _, status = os.waitpid(child, 0)
        killed += os.waitstatus_to_exitcode(status) == 9
        assert same(run(directory), expected)
        if os.waitstatus_to_exitcode(status) == 0:
            break  # fewer calls than that in a whole run
    assert killed
