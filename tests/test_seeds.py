"""Seeds: one range everywhere, and errors that name the argument and the range."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import wassloss as wl
from wassloss import bounds, data
from wassloss.training import train_many

ORDINAL = wl.ground.Ordinal(3)
TAGS = wl.SparseTarget(torch.tensor([[0, 1], [1, 2]]), torch.full((2, 2), 0.5))
SET = data.Dataset(torch.rand(10, 2), torch.arange(10) % 3)


def many(seed: Any) -> Any:
    models = [wl.models.LinearSoftmax(2, 3) for _ in range(2)]
    plan = wl.TrainingPlan(steps=1, batch_size=5)
    loss = wl.WassersteinLoss(ORDINAL)
    return train_many(models, loss, (SET.features, SET.target), plan, seeds=[0, seed])


def stream(seed: Any, folder: Path) -> Any:
    pytest.importorskip("pyarrow")
    data.write(SET, folder / "set.parquet")
    return data.ParquetStream(folder / "set.parquet", 4, seed=seed)


TAKING: dict[str, Callable[[Any, Path], Any]] = {
    "TrainingPlan": lambda seed, folder: wl.TrainingPlan(seed=seed),
    "Settings": lambda seed, folder: wl.runs.Settings("clipart", seed=seed),
    "train_many": lambda seed, folder: many(seed),
    "Dataset.split": lambda seed, folder: SET.split({"train": 0.5}, seed),
    "ParquetStream": stream,
    "flip_labels": lambda seed, folder: data.flip_labels(
        SET.target, ORDINAL, 0.5, nearest=1, seed=seed
    ),
    "drop_tags": lambda seed, folder: data.drop_tags(TAGS, 0.5, seed=seed),
    "reduce_redundancy": lambda seed, folder: data.reduce_redundancy(TAGS, ORDINAL, seed=seed),
    "lattice": lambda seed, folder: data.lattice(2, 0.1, train=1, test=1, seed=seed),
    "random_histograms": lambda seed, folder: data.random_histograms(2, 3, seed=seed),
    "random_metric": lambda seed, folder: data.random_metric(3, seed=seed),
    "linear_complexity_estimate": lambda seed, folder: bounds.linear_complexity_estimate(
        torch.eye(2), 1.0, draws=2, seed=seed
    ),
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
        if bad is None and name == "train_many":
            continue
        with pytest.raises(TypeError, match=rf"seeds? must be an integer.*, got {bad!r}"):
            take(bad, tmp_path)


def test_a_plan_holds_a_plain_integer() -> None:
    assert type(wl.TrainingPlan(seed=np.int64(7)).seed) is int  # as JSON wants it
