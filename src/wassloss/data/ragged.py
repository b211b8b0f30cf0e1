"""Targets in other forms: lists of labels per example, sparse, and with labels renumbered."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wassloss.targets import SparseTarget, Target, is_dense, read_target


def from_lists(
    counts: NDArray[Any], labels: NDArray[Any], weights: NDArray[Any] | None = None
) -> SparseTarget:
    """Build a sparse target from lists of labels laid end to end.

    Args:
        counts: the number of labels of each example, `(n,)`.
        labels: label ids, the first example's first, `(sum of counts,)`.
        weights: one per label; by default the labels of an example share a mass of 1 equally, as
            the paper normalises tags.

    >>> import numpy as np
    >>> from_lists(np.array([1, 2]), np.array([7, 3, 4])).weights
    tensor([[1.0000, 0.0000],
            [0.5000, 0.5000]])
    """
    n, width = len(counts), max(1, int(counts.max(initial=0)))
    if weights is None:
        weights = np.repeat(1.0 / np.maximum(counts, 1), counts).astype(np.float32)
    filled = np.arange(width) < np.asarray(counts)[:, None]  # (n, width)
    indices = np.zeros((n, width), dtype=np.int64)
    masses = np.zeros((n, width), dtype=weights.dtype)
    indices[filled], masses[filled] = labels, weights
    return SparseTarget(torch.from_numpy(indices), torch.from_numpy(masses))


def as_sparse(target: Target, labels: int) -> SparseTarget:
    """A target of any form, on the CPU, as labels and weights `(n, support)`."""
    if isinstance(target, SparseTarget):
        return target
    like = torch.empty(0, dtype=target.dtype if is_dense(target) else torch.float32)
    read, _ = read_target(target, labels, torch.Size([target.shape[0]]), like)
    return SparseTarget(read.indices.expand_as(read.weights), read.weights)


def relabelled(target: Target, place: Tensor, labels: int) -> Target:
    """Move label i to ``place[i]``, which is different for each label, of ``labels`` labels."""
    if isinstance(target, SparseTarget):
        return SparseTarget(place[target.indices], target.weights)
    if is_dense(target):
        return target.new_zeros(len(target), labels).index_copy(1, place, target)
    return place[target]
