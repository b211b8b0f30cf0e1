"""Seeds in the experiments: one range, and errors that name the argument and the range."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

import wassloss as wl
from experiments import theory
from experiments.corpora import noise, synthetic
from experiments.lab.many import train_many

ORDINAL = wl.ground.Ordinal(3)
TAGS = wl.SparseTarget(torch.tensor([[0, 1], [1, 2]]), torch.full((2, 2), 0.5))
X, Y = torch.rand(10, 2), torch.arange(10) % 3


def many(seed: Any) -> Any:
    models, losses = (
        [wl.models.Linear(2, 3)] * 2,
        [wl.WassersteinLoss(ORDINAL, kl_weight=0.0, normalize_cost=False)] * 2,
    )
    numbers = {"rates": [0.1, 0.1], "penalties": [0.0, 0.0], "seeds": [0, seed]}
    return train_many(models, losses, X, Y, iterations=1, batch_size=5, **numbers)


TAKING: dict[str, Callable[[Any], Any]] = {
    "train_many": many,
    "flip_labels": lambda seed: noise.flip_labels(Y, ORDINAL, 0.5, nearest=1, seed=seed),
    "drop_tags": lambda seed: noise.drop_tags(TAGS, 0.5, seed=seed),
    "reduce_redundancy": lambda seed: noise.reduce_redundancy(TAGS, ORDINAL, seed=seed),
    "lattice": lambda seed: synthetic.lattice(2, 0.1, train=1, test=1, seed=seed),
    "random_histograms": lambda seed: synthetic.random_histograms(2, 3, seed=seed),
    "random_metric": lambda seed: synthetic.random_metric(3, seed=seed),
    "linear_complexity_estimate": lambda seed: theory.linear_complexity_estimate(
        torch.eye(2), 1.0, draws=2, seed=seed
    ),
}


@pytest.mark.parametrize("name", TAKING)
def test_seeds(name: str) -> None:
    take = TAKING[name]
    for good in (0, 2**63 - 1, np.int64(7)):
        take(good)
    for bad in (-1, 2**63, 2**70):
        with pytest.raises(ValueError, match=rf"seeds? must be in 0..2\*\*63 - 1, got {bad}"):
            take(bad)
    for bad in (1.5, True, "a", None):
        with pytest.raises(TypeError, match=rf"seeds? must be an integer.*, got {bad!r}"):
            take(bad)
