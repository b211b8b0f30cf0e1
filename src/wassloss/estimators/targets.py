"""What `y` may be: class ids, an indicator matrix, or distributions over labels."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from scipy import sparse

from wassloss.targets import SparseTarget, Target, padded


def is_matrix(y: Any) -> bool:
    """Whether `y` is weights over labels rather than class ids."""
    return bool(sparse.issparse(y) or (y.ndim == 2 and y.shape[1] > 1))


def check_weights(y: Any) -> Any:
    """A matrix of weights over labels, as CSR or dense floats: not negative, no row without any.

    Raises:
        ValueError: says what is wrong, and in which row.
    """
    values = y.data if sparse.issparse(y) else y
    if values.dtype.kind not in "fiub":
        raise ValueError(f"y must hold numbers where it has several columns, got {values.dtype}")
    if values.dtype.kind in "iu" and values.size and values.max() > 1:
        raise ValueError(
            f"y must be an indicator of 0 and 1 where it is a matrix of integers, got "
            f"{values.max()}; pass weights as floats"
        )
    if values.size and values.min() < 0:
        raise ValueError(f"y must not be negative, got {values.min()}")
    weights = sparse.csr_array(y) if sparse.issparse(y) else np.asarray(y)
    weights = weights.astype(np.float64)
    total = np.asarray(weights.sum(axis=1))
    if not total.all():
        row = int(np.flatnonzero(total == 0)[0])
        raise ValueError(f"y must give every example a label, got none in row {row}")
    return weights


def target_of_weights(weights: Any) -> Target:
    """Checked weights as the losses take them, each row divided by its sum.

    Sparse where that is shorter, and as class ids where each row has one label, so that the same
    content in another form trains the same model.
    """
    labels = weights.shape[1]
    rows = sparse.csr_array(weights)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    counts = np.diff(rows.indptr)
    if counts.max() == 1:
        return torch.from_numpy(rows.indices.astype(np.int64))
    share = rows.data / np.repeat(rows.sum(axis=1), counts)
    if 2 * counts.max() > labels:
        dense = sparse.csr_array((share, rows.indices, rows.indptr), shape=rows.shape)
        return torch.from_numpy(dense.toarray())
    example = torch.from_numpy(np.repeat(np.arange(len(counts)), counts))
    label = torch.from_numpy(rows.indices.astype(np.int64))
    return padded(example, label, torch.from_numpy(share), len(counts))


def cast(target: Target, dtype: torch.dtype) -> Target:
    """A target whose weights, if it has any, are of a dtype."""
    if isinstance(target, SparseTarget):
        return SparseTarget(target.indices, target.weights.to(dtype))
    return target.to(dtype) if target.is_floating_point() else target
