"""Seeds: one range everywhere, and errors that name the argument and the range."""

import numpy as np
import pytest

import wassloss as wl
from wassloss.runs.task import Task


def test_seeds() -> None:
    for good in (0, 2**63 - 1, np.int64(7)):
        wl.TrainingPlan(seed=good)
    for bad in (-1, 2**63, 2**70):
        with pytest.raises(ValueError, match=rf"seeds? must be in 0..2\*\*63 - 1, got {bad}"):
            wl.TrainingPlan(seed=bad)
    for bad in (1.5, True, "a", None):
        with pytest.raises(TypeError, match=rf"seeds? must be an integer.*, got {bad!r}"):
            wl.TrainingPlan(seed=bad)  # type: ignore[arg-type]


def test_a_plan_holds_a_plain_integer() -> None:
    assert type(wl.TrainingPlan(seed=np.int64(7)).seed) is int  # for JSON


def test_runs_take_the_seeds_of_scikit_learn() -> None:
    for good in (0, 2**32 - 1):
        Task(data="clipart", seed=good)
    with pytest.raises(ValueError, match=rf"seed must be in 0..2\*\*32 - 1, .*got {2**32}"):
        Task(data="clipart", seed=2**32)
