"""The cost-confusion picture: how far from the truth predicted mass lies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wassloss.data.streaming import Batch
from wassloss.ground import GroundMetric
from wassloss.runs import TrainedRun
from wassloss.runs.evaluation import nearest_true

_MOST_VALUES = 12  # distances that each get a bar; beyond, they are put into bins
_BINS = 10
_LABELS = 512  # columns that the distinct distances are looked for in


@dataclass(frozen=True)
class MassByDistance:
    """Shares of the predicted mass.

    Attributes:
        ticks: the distances; the first is 0, a true label, where the metric is a distance.
        shares: of each run, `(runs, ticks)`; rows sum to 1.
        even: of mass spread evenly over all labels.
    """

    ticks: list[str]
    shares: NDArray[np.float64]
    even: NDArray[np.float64]


@torch.no_grad()
def mass_by_distance(
    runs: Sequence[TrainedRun], batches: Sequence[Batch], metric: GroundMetric
) -> MassByDistance:
    """Put the mass that each run predicts into bins of distance to the nearest true label."""
    edges, ticks = _bins(metric)
    totals = np.zeros((len(runs) + 1, len(ticks)))
    for features, target in batches:
        outputs = [run.logits(features).softmax(1) for run in runs]
        nearest = nearest_true(target, metric, outputs[0]).double()
        # The bin of every label: how many inner edges are below its distance.
        place = torch.bucketize(nearest.contiguous(), edges).reshape(-1)
        even = torch.full_like(outputs[0], 1 / metric.size)
        for i, mass in enumerate([*outputs, even]):
            totals[i] += _sums(place, mass, len(ticks))
    totals /= totals.sum(1, keepdims=True)
    return MassByDistance(ticks, totals[:-1], totals[-1])


def _sums(place: Tensor, mass: Tensor, bins: int) -> NDArray[np.float64]:
    weights = mass.reshape(-1).double()
    return torch.bincount(place, weights=weights, minlength=bins).numpy()


def _bins(metric: GroundMetric) -> tuple[Tensor, list[str]]:
    """Inner edges, and a word for each bin."""
    size = metric.size
    chosen = torch.arange(min(size, _LABELS)) * size // min(size, _LABELS)
    found = metric.distance_columns(chosen).double().unique()
    values = found[torch.cat([torch.tensor([True]), found.diff() > 1e-6 * float(found.max())])]
    if len(values) <= _MOST_VALUES:
        return (values[1:] + values[:-1]) / 2, [f"{value:.3g}" for value in values.tolist()]
    apart = float(values[0]) == 0  # a true label is at 0, unless costs say otherwise
    low, high = float(values[int(apart)]), float(values[-1])
    bounds = torch.linspace(low, high, _BINS + 1, dtype=torch.float64)
    words = [f"{bound:.2f}" if high < 10 else f"{bound:.3g}" for bound in bounds.tolist()]
    ranges = [f"{a}–{b}" for a, b in pairwise(words)]
    if not apart:
        return bounds[1:-1], ranges
    # It stands apart, and the bins are for the others.
    return torch.cat([bounds[:1] / 2, bounds[1:-1]]), ["true label", *ranges]
