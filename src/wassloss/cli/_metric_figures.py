"""Figures of a ground metric: its distances, their unit, and the power to begin training with.

The reasons for the latter are in docs/defaults.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray

from wassloss.ground import GroundMetric

_INSPECTED = 512  # labels that figures are taken from, if there are more
_CROWDED = 0.6  # nearest over median distance, above which neighbours hardly stand out


@dataclass(frozen=True)
class Inspection:
    """Figures of a metric.

    Attributes:
        distances: between different labels, of up to 512 columns.
        unit: the distance whose cost is 1 in losses.
        power_advice: which power to begin with, and why.
    """

    distances: NDArray[np.float64]
    unit: float
    power_advice: str

    def histogram(self, bins: int = 12) -> list[tuple[float, float, int]]:
        """From where to where, and how many distances are there; few are listed one by one."""
        lows, counts = np.unique(self.distances, return_counts=True)
        spans = [(value, value) for value in lows]
        if len(lows) > bins:
            counts, edges = np.histogram(self.distances, bins=bins)
            spans = list(pairwise(edges))
        return [
            (float(low), float(high), int(n)) for (low, high), n in zip(spans, counts, strict=True)
        ]


@torch.no_grad()
def inspect(metric: GroundMetric) -> Inspection:
    """Look at a metric of two labels or more.

    >>> from wassloss.ground import Ordinal
    >>> inspect(Ordinal(10)).unit
    3.0
    """
    size = metric.size
    if size < 2:
        raise ValueError(f"metric must have at least two labels, got {metric!r}")
    chosen = torch.arange(min(size, _INSPECTED)) * size // min(size, _INSPECTED)
    others = torch.arange(size) != chosen[:, None]  # (chosen, K)
    distance = metric.distance_columns(chosen).double().cpu()
    nearest = distance.masked_fill(~others, torch.inf).amin(1).numpy()
    apart = distance[others].numpy()
    return Inspection(apart, metric.in_medians().scale, _why_power_one(nearest, apart))


def _why_power_one(nearest: NDArray[np.float64], apart: NDArray[np.float64]) -> str:
    if apart.min() == apart.max():
        return "all labels are equally far apart, and no power changes that"
    median = float(np.median(apart))
    ratio = float(np.median(nearest)) / median if median else 0.0
    known = f"the nearest label is typically {100 * ratio:.0f} % as far as any other"
    if ratio < _CROWDED:
        return f"the safe choice: {known}, so neighbours already stand out"
    return (
        f"the safe choice. But {known}, so compare power 2 on a validation split: it makes "
        "neighbours stand out more; it did better on one data set and far worse on another"
    )
