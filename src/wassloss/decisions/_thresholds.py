r"""Which threshold makes nested sets keep a promise: two theorems, each a few lines.

Both need calibration rows that are exchangeable with the new ones, and nothing of the model.
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
    """How many of the calibration rows, and at least one more, a set must be right for."""
    return math.ceil((rows + 1) * level - 1e-9)  # 0.7 · 10 is a little more than 7 in floats


def rows_for_level(level: float) -> int:
    """The fewest calibration rows with which a level can be promised by less than all labels."""
    return math.ceil(level / (1 - level) - 1e-9)


def coverage_threshold(before: Array, level: float) -> float:
    """The threshold at which sets hold the truth with probability `level` (split conformal).

    Args:
        before: the mass before the true label, `(rows,)`.
        level: the probability promised.

    The mass before a new row's truth is, by exchangeability, as likely to have any of `rows + 1`
    ranks, so it is at most the `k`-th smallest with probability at least `k / (rows + 1)`; and,
    without ties, less than `1 / (rows + 1)` more than that (Vovk et al., 2005).
    """
    rank = rank_of(level, len(before))
    return float(np.partition(before, rank - 1)[rank - 1])


def distance_threshold(steps: Array, falls: Array, core: Array, limit: float, most: float) -> float:
    """The threshold at which the mean distance is at most `limit` (conformal risk control).

    Args:
        steps: the thresholds at which the distance of some row falls, `(n,)`.
        falls: by how much it falls there, `(n,)`.
        core: each row's distance to its core, `(rows,)`.
        limit: the mean distance promised.
        most: the largest distance there is.

    Distances fall as sets grow, to 0, so the least threshold whose mean over the calibration rows
    *and one row at the largest distance* is at most the limit keeps it for a new row (Angelopoulos
    et al., 2024). Infinite if not even all labels are near enough, which costs allow whose diagonal
    is not 0.
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
    """At which thresholds and by how much distances to the sets fall, and those to the cores."""
    steps, falls, core = [], [], []
    for rows in pieces(len(truth), metric.size, largest_block(before.device)):
        ordered, labels = before[rows].sort(dim=1, stable=True)
        near = metric.cost_columns(truth[rows]).double().gather(1, labels).cummin(1).values
        # Labels of one mass enter together: the distance to the set is that after the last.
        last = torch.searchsorted(ordered, ordered, right=True) - 1
        near = near.gather(1, last)
        fallen = near[:, :-1] - near[:, 1:]
        core.append(near[:, 0])
        steps.append(ordered[:, 1:][fallen > 0])
        falls.append(fallen[fallen > 0])
    found = [torch.cat(each).cpu().numpy() for each in (steps, falls, core)]
    return found[0], found[1], found[2]
