"""Seeds: one range everywhere, and errors that name the argument and the range."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import wassloss as wl
from wassloss import data
from wassloss.runs.settings import Settings

SET = data.Dataset(torch.rand(10, 2), torch.arange(10) % 3)


def stream(seed: Any, folder: Path) -> Any:
    pytest.importorskip("pyarrow")
    data.write(SET, folder / "set.parquet")
    return data.ParquetStream(folder / "set.parquet", 4, seed=seed)


TAKING: dict[str, Callable[[Any, Path], Any]] = {
    "TrainingPlan": lambda seed, folder: wl.TrainingPlan(seed=seed),
    "Settings": lambda seed, folder: Settings("clipart", seed=seed),
    "ParquetStream": stream,
}


@pytest.mark.parametrize("name", TAKING)
def test_seeds(name: str, tmp_path: Path) -> None:
    take = TAKING[name]
    for good in (0, 2**63 - 1, np.int64(7)):
        take(good, tmp_path)
    for bad in (-1, 2**63, 2**70):
        with pytest.raises(ValueError, match=rf"seeds? must be in 0..2\*\*63 - 1, got {bad}"):
            take(bad, tmp_path)
    for bad in (1.5, True, "a", None):
        with pytest.raises(TypeError, match=rf"seeds? must be an integer.*, got {bad!r}"):
            take(bad, tmp_path)


def test_a_plan_holds_a_plain_integer() -> None:
    assert type(wl.TrainingPlan(seed=np.int64(7)).seed) is int  # as JSON wants it
