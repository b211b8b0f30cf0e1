"""Convert targets to labels and weights, from lists of labels or any other form."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wassloss import SparseTarget


def from_lists(
    counts: NDArray[Any], labels: NDArray[Any], weights: NDArray[Any] | None = None
) -> SparseTarget:
    """Convert concatenated lists of labels to a sparse target.

    Args:
        counts: number of labels per example, `(n,)`.
        labels: label ids, those of the first example first, `(sum of counts,)`.
        weights: one per label; by default, the labels of an example share a mass of 1 equally,
            as the paper normalises tags.

    >>> from_lists(np.array([1, 2]), np.array([7, 3, 4])).weights
    tensor([[1.0000, 0.0000],
            [0.5000, 0.5000]])
    """
    if weights is None:
        weights = np.repeat(1.0 / np.maximum(counts, 1), counts).astype(np.float32)
    filled = np.arange(max(1, int(counts.max(initial=0)))) < np.asarray(counts)[:, None]
    indices = np.zeros(filled.shape, dtype=np.int64)  # (n, width)
    masses = np.zeros(filled.shape, dtype=weights.dtype)
    indices[filled], masses[filled] = labels, weights
    return SparseTarget(torch.from_numpy(indices), torch.from_numpy(masses))


def as_sparse(target: Tensor | SparseTarget) -> SparseTarget:
    """Convert class ids `(n,)` or dense weights `(n, labels)` to a sparse target."""
    if isinstance(target, SparseTarget):
        return target
    if target.dim() == 1:
        return SparseTarget(target.unsqueeze(1), torch.ones(len(target), 1, device=target.device))
    labels = torch.arange(target.shape[1], device=target.device)
    return SparseTarget(labels.expand_as(target), target)


def take(target: Tensor | SparseTarget, rows: Tensor) -> Tensor | SparseTarget:
    """The targets of some examples."""
    if isinstance(target, SparseTarget):
        return SparseTarget(target.indices[rows], target.weights[rows])
    return target[rows]


def as_dense(target: Tensor | SparseTarget, labels: int) -> Tensor:
    """Weights `(n, labels)`."""
    sparse = as_sparse(target)
    dense = sparse.weights.new_zeros(len(sparse.weights), labels)
    return dense.scatter_add_(1, sparse.indices, sparse.weights)
