"""Seeds: one range everywhere, and errors that name the argument and the range."""

import numpy as np
import pytest

from wassloss._checks import check_seed
from wassloss.runs.task import Task


def test_seeds() -> None:
    for good in (0, 2**63 - 1, np.int64(7)):
        assert type(check_seed("seed", good)) is int
    for bad in (-1, 2**63, 2**70):
        with pytest.raises(ValueError, match=rf"seed must be in 0..2\*\*63 - 1, got {bad}"):
            check_seed("seed", bad)
    for bad in (1.5, True, "a", None):
        with pytest.raises(TypeError, match=rf"seed must be an integer.*, got {bad!r}"):
            check_seed("seed", bad)  # type: ignore[arg-type]


def test_runs_take_the_seeds_of_scikit_learn() -> None:
    for good in (0, 2**32 - 1):
        Task(data="clipart", seed=good)
    with pytest.raises(ValueError, match=rf"seed must be in 0..2\*\*32 - 1, .*got {2**32}"):
        Task(data="clipart", seed=2**32)
