r"""Thresholds at which nested sets keep a promise: split conformal and conformal risk control.

Both require calibration rows that are exchangeable with new rows, and assume nothing about the
model.
"""

from __future__ import annotations

import math

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wassloss._memory import largest_block, pieces
from wassloss.ground import GroundMetric

Array = NDArray[np.float64]


def rank_of(level: float, rows: int) -> int:
    """The number of calibration rows, at least 1, for which sets must contain the truth."""
    return math.ceil((rows + 1) * level - 1e-9)  # 0.7 · 10 rounds to a little more than 7


def rows_for_level(level: float) -> int:
    """The fewest calibration rows for which sets smaller than all labels can keep a level."""
    return math.ceil(level / (1 - level) - 1e-9)


def coverage_threshold(before: Array, level: float) -> float:
    """The threshold at which sets contain the truth with probability `level` (split conformal).

    Args:
        before: the mass before the true label, `(rows,)`.
        level: the promised probability.

    By exchangeability, the mass before a new row's truth is equally likely to have any of the
    `rows + 1` ranks. It is therefore at most the `k`-th smallest with probability at least
    `k / (rows + 1)` and, without ties, less than `1 / (rows + 1)` more (Vovk et al., 2005).
    """
    rank = rank_of(level, len(before))
    return float(np.partition(before, rank - 1)[rank - 1])


def distance_threshold(steps: Array, falls: Array, core: Array, limit: float, most: float) -> float:
    """The threshold at which the mean distance is at most `limit` (conformal risk control).

    Args:
        steps: the thresholds at which the distance of a row decreases, `(n,)`.
        falls: the decreases there, `(n,)`.
        core: each row's distance to its core, `(rows,)`.
        limit: the promised mean distance.
        most: the largest distance.

    Distances decrease as sets grow. The least threshold at which the mean over the calibration rows
    *and one row at the largest distance* is at most the limit therefore keeps the limit for a new
    row (Angelopoulos et al., 2024). It is infinite if the set of all labels exceeds the limit,
    which is possible for costs with a non-zero diagonal.
    """
    allowed = limit * (len(core) + 1) - most
    if core.sum() <= allowed:
        return 0.0
    order = np.argsort(steps, kind="stable")
    left = core.sum() - np.cumsum(falls[order])
    enough = np.flatnonzero(left <= allowed + 1e-12 * core.sum())
    return float(steps[order][enough[0]]) if len(enough) else math.inf


def falling_distances(
    before: Tensor, truth: Tensor, metric: GroundMetric
) -> tuple[Array, Array, Array]:
    """The arguments `steps`, `falls` and `core` of :func:`distance_threshold`."""
    steps, falls, core = [], [], []
    for rows in pieces(len(truth), metric.size, largest_block(before.device)):
        ordered, labels = before[rows].sort(dim=1, stable=True)
        near = metric.cost_columns(truth[rows]).double().gather(1, labels).cummin(1).values
        # Labels of equal mass enter together: take the distance after the last of them.
        last = torch.searchsorted(ordered, ordered, right=True) - 1
        near = near.gather(1, last)
        fallen = near[:, :-1] - near[:, 1:]
        core.append(near[:, 0])
        steps.append(ordered[:, 1:][fallen > 0])
        falls.append(fallen[fallen > 0])
    found = [torch.cat(each).cpu().numpy() for each in (steps, falls, core)]
    return found[0], found[1], found[2]
