"""Subtrees as ranges of labels, and distances to the nearest label of a set in a tree."""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

Array = NDArray[np.int64]


class Subtrees(NamedTuple):
    """The labels in depth-first order, and the ranges of labels below each node.

    From outside, the nearest label of a subtree is always the one nearest to its top, so one cost
    column gives the distances of all other labels.
    """

    order: Array  # (K,), labels
    codes: Array  # (subtrees,), first place · K + last place, increasing
    nearest: Array  # (subtrees,), labels


def subtrees(parent: Array, end: Array, labels: Array, depth: list[float]) -> Subtrees:
    """Compute the range of labels below each node of a tree in preorder; `labels` are nodes."""
    order = labels.argsort(kind="stable")
    top: list[int] = [-1] * len(parent)  # the label nearest to each node among those below it
    for label in reversed(range(len(labels))):
        top[labels[label]] = label
    place = labels.tolist()
    for x in range(len(parent) - 1, 0, -1):
        own, above = top[x], int(parent[x])
        if own >= 0 and (top[above] < 0 or depth[place[own]] < depth[place[top[above]]]):
            top[above] = own
    first = np.searchsorted(labels[order], np.arange(len(parent)))
    last = np.searchsorted(labels[order], end) - 1
    some = last >= first
    codes, index = np.unique((first * len(labels) + last)[some], return_index=True)
    return Subtrees(order, codes, np.array(top)[some][index])


def levels(parent: Array) -> tuple[Array, tuple[int, ...]]:
    """The nodes below the root, level by level, and the end of each level in that list."""
    level = [0]
    for above in parent.tolist()[1:]:
        level.append(level[above] + 1)
    counts = np.bincount(level)
    return np.argsort(level, kind="stable")[1:], tuple((counts.cumsum() - 1).tolist())


def distances_to_nearest(
    allowed: Tensor,
    labels: Tensor,
    parents: Tensor,
    lengths: Tensor,
    by_level: Tensor,
    level_ends: tuple[int, ...],
) -> Tensor:
    """Distances `(n, K)` from every label to the nearest allowed label, in time O(n · nodes).

    A pass up the tree finds the nearest allowed label below each node; a pass down, the nearest of
    all.
    """
    n = len(allowed)
    near = torch.full((n, len(parents)), math.inf, dtype=lengths.dtype, device=lengths.device)
    own = torch.where(allowed, 0.0, math.inf).to(near)
    near = near.scatter_reduce(1, labels.expand(n, -1), own, "amin")
    parts = [by_level[start:stop] for start, stop in itertools.pairwise(level_ends)]
    for nodes in reversed(parts):
        reached = near[:, nodes] + lengths[nodes]
        near = near.scatter_reduce(1, parents[nodes].expand(n, -1), reached, "amin")
    for nodes in parts:
        reached = near[:, parents[nodes]] + lengths[nodes]
        near[:, nodes] = torch.minimum(near[:, nodes], reached)
    return near[:, labels]
