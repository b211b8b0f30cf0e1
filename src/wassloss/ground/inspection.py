"""What a ground metric is like before one trains on it, and which power and epsilon to begin with.

The reasons are those of docs/defaults.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from wassloss.ground._summaries import default_epsilon, typical_cost
from wassloss.ground.base import GroundMetric

_LABELS = 512  # columns that the figures are taken from, where there are more
_NEGLIGIBLE = 1e-4  # entries of exp(−M/ε) below it hardly carry mass
_SHARES = (0.02, 0.05, 0.1, 0.2, 0.5)
_CROWDED = 0.6  # nearest over median distance, above which neighbours hardly stand out


@dataclass(frozen=True)
class Sparsity:
    """How many entries of the kernel exp(−M/ε) matter."""

    epsilon: float
    share_of_median: float
    kept: float  # share of pairs of different labels above 1e-4
    neighbours: float  # how many others a label has above 1e-4, median


@dataclass(frozen=True)
class Inspection:
    """Figures of a metric.

    Attributes:
        distances: between different labels, of up to 512 columns.
        nearest: the distance of each of those labels to its nearest other.
        sparsity: of the kernel, for several epsilon.
        median_cost: between two different labels.
        epsilon, epsilon_reason, power, power_reason: what to begin with, and why.
    """

    distances: NDArray[np.float64]
    nearest: NDArray[np.float64]
    sparsity: tuple[Sparsity, ...]
    median_cost: float
    epsilon: float
    epsilon_reason: str
    power: float
    power_reason: str

    def histogram(self, bins: int = 12) -> list[tuple[float, float, int]]:
        """From where to where, and how many distances are there; few are listed one by one."""
        values, counts = np.unique(self.distances, return_counts=True)
        if len(values) <= bins:
            return [(float(v), float(v), int(n)) for v, n in zip(values, counts, strict=True)]
        counts, edges = np.histogram(self.distances, bins=bins)
        return [
            (float(low), float(high), int(n))
            for (low, high), n in zip(pairwise(edges), counts, strict=True)
        ]


@torch.no_grad()
def inspect(metric: GroundMetric) -> Inspection:
    """Look at a metric.

    Raises:
        ValueError: it has one label only.

    >>> from wassloss.ground import Ordinal
    >>> look = inspect(Ordinal(10))
    >>> round(look.epsilon, 2), look.power
    (0.6, 1.0)
    """
    size = metric.size
    if size < 2:
        raise ValueError(f"metric must have at least two labels, got {metric!r}")
    chosen = torch.arange(min(size, _LABELS)) * size // min(size, _LABELS)
    others = torch.arange(size) != chosen[:, None]  # (chosen, K)
    distance = metric.distance_columns(chosen).double().cpu()
    cost = metric.cost_columns(chosen).double().cpu()
    nearest = distance.masked_fill(~others, torch.inf).amin(1)
    median_cost = typical_cost(metric)
    rows = []
    for share in _SHARES:
        matter = (torch.exp(-cost / (share * median_cost)) > _NEGLIGIBLE) & others
        rows.append(
            Sparsity(
                share * median_cost,
                share,
                float(matter.sum() / others.sum()),
                float(matter.sum(1).double().median()),
            )
        )
    apart = distance[others].numpy()
    power, reason = _power(nearest.numpy(), apart)
    return Inspection(
        distances=apart,
        nearest=nearest.numpy(),
        sparsity=tuple(rows),
        median_cost=median_cost,
        epsilon=default_epsilon(metric),
        epsilon_reason=(
            f"a fifth of the median cost between two labels ({median_cost:.4g} at power "
            f"{metric.power:g}). Below a tenth the entropy is too weak to train without KL, at a "
            "half the softened label begins to lose the true label"
        ),
        power=power,
        power_reason=reason,
    )


def _power(nearest: NDArray[np.float64], apart: NDArray[np.float64]) -> tuple[float, str]:
    median = float(np.median(apart))
    ratio = float(np.median(nearest)) / median if median else 0.0
    if apart.min() == apart.max():
        return 1.0, "all labels are equally far apart, and no power changes that"
    known = f"the nearest label is typically {100 * ratio:.0f} % as far as any other"
    if ratio < _CROWDED:
        return 1.0, f"the safe choice: {known}, so neighbours already stand out"
    return 1.0, (
        f"the safe choice. But {known}, so compare power 2 on a validation split: it makes "
        "neighbours stand out more; it did better on one data set and far worse on another"
    )
