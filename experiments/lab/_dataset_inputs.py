"""What a data set is built from, checked: features, targets of any form, groups and parts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from wassloss._checks import default_dtype, narrowed
from wassloss.ground import GroundMetric
from wassloss.ground._inputs import refuse
from wassloss.targets import SparseTarget, Target, is_dense, padded

KNOWN_PARTS = ("train", "validation", "test")


def feature_tensor(value: Any) -> Tensor:
    """Finite floats `(n, features)`, copied only if they must be converted."""
    if not isinstance(value, Tensor):
        array = np.asarray(value)
        if array.dtype.kind not in "fiub":
            raise TypeError(f"features must hold real numbers, got dtype {array.dtype}")
        typed = isinstance(value, np.ndarray)  # a plain list says nothing about precision
        value = torch.from_numpy(np.ascontiguousarray(array))
        if not typed and value.dim() == 2:
            value = narrowed("features", value, default_dtype())
    features: Tensor = value if value.is_floating_point() else value.to(default_dtype())
    if features.dim() != 2 or features.numel() == 0:
        raise ValueError(
            "features must have shape (examples, features), neither of them 0, got "
            f"{tuple(features.shape)}"
        )
    refuse("features", "be finite", features, ~torch.isfinite(features))
    return features.detach()


def own_target(value: Any) -> Target:
    """Class ids, dense weights or a `SparseTarget`, made from a sparse matrix of SciPy."""
    if isinstance(value, SparseTarget):
        return value
    if sparse.issparse(value):
        csr = sparse.csr_array(value)
        csr.sum_duplicates()
        csr.eliminate_zeros()
        weights = csr.data if csr.data.dtype.kind == "f" else csr.data.astype(np.float32)
        return from_lists(np.diff(csr.indptr), csr.indices, weights)
    given = value if isinstance(value, Tensor) else torch.from_numpy(np.ascontiguousarray(value))
    if given.is_floating_point():
        return given.detach()
    if given.dtype == torch.bool or given.dim() != 1:
        raise TypeError(
            "target must be integer class ids of shape (examples,), or floating weights of shape "
            f"(examples, labels), got {given.dtype} of shape {tuple(given.shape)}"
        )
    return given.long()


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
    if weights is None:
        weights = np.repeat(1.0 / np.maximum(counts, 1), counts).astype(np.float32)
    rows = torch.from_numpy(np.repeat(np.arange(len(counts)), counts))
    ids = torch.from_numpy(labels.astype(np.int64))
    return padded(rows, ids, torch.from_numpy(weights), len(counts))


def relabelled(target: Target, place: Tensor, labels: int) -> Target:
    """Move label i to ``place[i]``, which is different for each label, of ``labels`` labels."""
    if isinstance(target, SparseTarget):
        return SparseTarget(place[target.indices], target.weights)
    if is_dense(target):
        return target.new_zeros(len(target), labels).index_copy(1, place, target)
    return place[target]


def count_labels(names: Sequence[str] | None, metric: GroundMetric | None, target: Target) -> int:
    """The number of labels if none is given."""
    if names is not None:
        return len(names)
    if metric is not None:
        return metric.size
    if is_dense(target):
        return target.shape[-1]
    ids = target.indices[target.weights > 0] if isinstance(target, SparseTarget) else target
    return max(1, int(ids.max()) + 1) if ids.numel() else 1


def group_ids(groups: Any, n: int) -> Tensor | None:
    """One integer per example."""
    if groups is None:
        return None
    ids = groups if isinstance(groups, Tensor) else torch.as_tensor(np.asarray(groups))
    if ids.shape != (n,) or ids.is_floating_point():
        raise ValueError(
            f"groups must be {n} integers, got {ids.dtype} of shape {tuple(ids.shape)}"
        )
    return ids.long()


def check_parts(parts: Mapping[str, Any], n: int) -> dict[str, Tensor]:
    """Row numbers of each part. Parts must not be empty, and a row is in one of them at most."""
    checked = {}
    for name, rows in parts.items():
        checked[name] = row_numbers(f"parts[{name!r}]", rows, n)
        if len(checked[name]) == 0:
            raise ValueError(f"parts[{name!r}] must not be empty")
    found, uses = torch.cat([torch.empty(0).long(), *checked.values()]).unique(return_counts=True)
    if (uses > 1).any():
        row = int(found[uses > 1][0])
        owners = [repr(name) for name, rows in checked.items() if row in rows]
        raise ValueError(
            f"parts must name each row at most once, got row {row} twice, in {' and '.join(owners)}"
        )
    return checked


def row_numbers(name: str, given: Any, n: int) -> Tensor:
    """Row numbers from numbers, a mask or a slice."""
    if isinstance(given, slice):
        return torch.from_numpy(np.arange(n)[given].copy())
    rows = torch.as_tensor(np.asarray(given))
    if rows.dtype == torch.bool and rows.shape == (n,):
        return rows.nonzero().squeeze(1)
    if rows.numel() == 0:
        return rows.reshape(-1).long()
    if rows.dim() != 1 or rows.is_floating_point() or rows.dtype == torch.bool:
        raise TypeError(
            f"{name} must be a list of row numbers or a mask of {n} rows, got {rows.dtype} of "
            f"shape {tuple(rows.shape)}"
        )
    if int(rows.min()) < 0 or int(rows.max()) >= n:
        wrong = rows[(rows < 0) | (rows >= n)][0].item()
        raise ValueError(f"{name} must hold rows in 0..{n - 1}, got {wrong}")
    return rows.long()
