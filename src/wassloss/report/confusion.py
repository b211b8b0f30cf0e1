"""Which label is taken for which, with near labels next to each other."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wassloss.ground import GroundMetric, Ordinal

GROUPS = 24  # rows of a matrix; more labels are put together with their neighbours
_OPTIMAL = 500  # labels up to which the best order of a clustering's leaves is found in a second


def neighbour_order(metric: GroundMetric) -> NDArray[np.int64]:
    """The labels in an order in which near ones are neighbours.

    On a line it is theirs. Otherwise labels are clustered by average linkage, and the order is that
    of the leaves.

    >>> from wassloss.ground import Ordinal
    >>> neighbour_order(Ordinal([0.0, 2.0, 1.0])).tolist()
    [0, 2, 1]
    """
    if isinstance(metric, Ordinal):
        return np.argsort(metric.positions.numpy(), kind="stable")
    if metric.size < 3:
        return np.arange(metric.size)
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    distance = metric.distance().double().numpy()
    both_ways = (distance + distance.T) / 2  # a cost may be worse in one direction
    np.fill_diagonal(both_ways, 0)
    tree = linkage(squareform(both_ways), "average", optimal_ordering=metric.size <= _OPTIMAL)
    order: NDArray[np.int64] = leaves_list(tree).astype(np.int64)
    return order


def confusion(
    truth: NDArray[np.int64], guess: NDArray[np.int64], groups: list[NDArray[np.int64]]
) -> NDArray[np.int64]:
    """How often a label of group `i` is said to be one of group `j`, `(groups, groups)`."""
    group_of = np.empty(sum(map(len, groups)), dtype=np.int64)
    for i, labels in enumerate(groups):
        group_of[labels] = i
    counts = np.zeros((len(groups), len(groups)), dtype=np.int64)
    np.add.at(counts, (group_of[truth], group_of[guess]), 1)
    return counts
