"""Read the arguments of scores, arrays or tensors, and convert results back to the same kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias, cast

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from wassloss._checks import (
    check_count,
    check_device,
    check_masses,
    first_row,
    real_array,
)
from wassloss.ground import GroundMetric
from wassloss.ground.matrix import AnyMetric, as_ground_metric
from wassloss.losses.inputs import checked_sample_weight
from wassloss.losses.modules import LARGEST_TABLE
from wassloss.sets import SetTarget
from wassloss.targets import ReadSets, SparseTarget, Target, padded, read_form, read_target

Numbers: TypeAlias = Tensor | NDArray[Any] | Sequence[Any]
AnyTarget: TypeAlias = Any  # a form of wassloss.targets, a NumPy array, or a scipy.sparse matrix
Ks: TypeAlias = int | Sequence[int] | NDArray[Any]


def read_scores(given: Numbers, metric: GroundMetric | None = None, name: str = "scores") -> Tensor:
    """Read predictions `(batch, labels)`: without NaN, detached, in single or double precision."""
    x = _as_tensor(name, given, None if metric is None else metric.device)
    if metric is not None:
        check_device(name, x, metric.device)
    if x.is_complex() or x.layout != torch.strided:
        raise TypeError(f"{name} must be dense real numbers, got {x.dtype}, {x.layout}")
    if x.dim() != 2 or x.shape[1] == 0:
        raise ValueError(f"{name} must have shape (batch, labels), got {tuple(x.shape)}")
    if metric is not None and x.shape[1] != metric.size:
        raise ValueError(
            f"{name} must have {metric.size} labels, as the ground metric has, got shape "
            f"{tuple(x.shape)}"
        )
    if x.dtype not in (torch.float32, torch.float64):
        x = x.float() if x.is_floating_point() else x.double()
    row = first_row(x.isnan().any(1))
    if row is not None:
        raise ValueError(f"{name} must not hold NaN, got one in example {row}")
    return x


def read_probabilities(probabilities: Numbers, metric: GroundMetric | None = None) -> Tensor:
    """Read predictions whose rows are finite, non-negative and of positive mass."""
    p = read_scores(probabilities, metric, "probabilities")
    check_masses(p, "probabilities")
    _check_sums(p, "probabilities")
    return p


def shares(h: Tensor, target: AnyTarget) -> tuple[Tensor, Tensor]:
    """Prediction and target, both `(batch, labels)`, each row divided by its sum."""
    return h / h.sum(1, keepdim=True), true_shares(target, h)


def true_shares(target: AnyTarget, scores: Tensor) -> Tensor:
    """The share of each label in the truth, `(batch, labels)`."""
    y = read_weights(target, scores)
    return y / y.sum(1, keepdim=True)


def _as_tensor(name: str, value: Any, device: torch.device | None) -> Tensor:
    """A detached tensor; arrays and lists are converted to a dtype of torch, on the device."""
    if isinstance(value, Tensor):
        if value.is_complex():
            raise TypeError(f"{name} must hold real numbers, got Tensor of dtype {value.dtype}")
        return value.detach()
    array = real_array(name, value)
    wide = "f8" if array.dtype.itemsize > 4 else "f4"
    native = {"f": wide, "i": "i8", "u": "i8", "b": "?"}[array.dtype.kind]
    # A copy, because torch needs native byte order, positive strides and a writable array.
    return torch.from_numpy(np.array(array, dtype=native, order="C")).to(device)


def read_labels(
    target: AnyTarget, scores: Tensor, *, allow_empty: bool = False, sets: bool = False
) -> SparseTarget:
    """Read a target of any form as labels and weights, both `(batch, support)`.

    If `sets` are allowed, each label of a set has weight 1.
    """
    batch, labels = scores.shape
    if sets and isinstance(target, SetTarget):
        rows, named = read_sets(target, scores).nonzero(as_tuple=True)
        return padded(rows, named, scores.new_ones(len(rows)), batch)
    form = as_target(target, scores)
    read, _ = read_target(form, labels, torch.Size([batch]), scores, allow_empty=allow_empty)
    _check_sums(read.weights, "target")
    return SparseTarget(read.indices.expand_as(read.weights), read.weights)


def read_sets(target: SetTarget, scores: Tensor) -> Tensor:
    """A mask of the labels in each set, `(batch, labels)`."""
    batch, labels = scores.shape
    read = read_form(target, labels, torch.Size([batch]), scores)
    checked, _, _ = cast(ReadSets, read).checked(labels)
    return checked.allowed(labels)


def _check_sums(weights: Tensor, name: str) -> None:
    """Refuse rows whose sum overflows, because all their shares would be 0."""
    row = first_row(weights.sum(1).isinf())
    if row is not None:
        raise ValueError(
            f"{name} must have finite sums in {weights.dtype}, got inf in example {row}; divide "
            "its weights by the largest"
        )


def read_weights(
    target: AnyTarget, scores: Tensor, *, allow_empty: bool = False, sets: bool = False
) -> Tensor:
    """The target's weights as a matrix `(batch, labels)`; arguments as in :func:`read_labels`."""
    read = read_labels(target, scores, allow_empty=allow_empty, sets=sets)
    return read.dense(scores.shape[1])


def as_target(target: AnyTarget, scores: Tensor) -> Target:
    """Convert a target of any form to one of those of :mod:`wassloss.targets`."""
    device = scores.device
    if isinstance(target, SetTarget):
        raise TypeError(
            "target must be class ids or weights, got a SetTarget: only accuracy, top_k_cost, "
            "negative_log_likelihood and hierarchical_fbeta support sets of labels"
        )
    if isinstance(target, SparseTarget):
        return target
    if sparse.issparse(target):
        coo = target.tocoo()
        if coo.ndim != 2:
            raise ValueError(f"target must be a sparse matrix (batch, labels), got {coo.ndim} axes")
        where = torch.from_numpy(np.stack([coo.row, coo.col]).astype(np.int64))
        values = _as_tensor("target", coo.data, None)
        weights = values if values.is_floating_point() else values.double()
        return torch.sparse_coo_tensor(where, weights, coo.shape, check_invariants=True).to(device)
    form = _as_tensor("target", target, device)
    # A matrix holds weights, even if its dtype is an integer: class ids have one dimension.
    return form.to(scores.dtype) if form.dim() == 2 and not form.is_floating_point() else form


def read_ks(k: Ks, labels: int | None = None) -> list[int]:
    """Check `k`, and return it as a list."""
    ks = [check_count("k", each) for each in cast(Sequence[int], k if np.ndim(k) else [k])]
    if not ks:
        raise ValueError("k must hold at least one number of labels, got none")
    if labels is not None and max(ks) > labels:
        raise ValueError(f"k must be at most the number of labels, {labels}, got {max(ks)}")
    return ks


def at_k(curve: Tensor, k: Ks) -> Tensor:
    """Select the points of curves `(batch, largest k)` at `k`, one or several."""
    return curve[:, torch.as_tensor(k) - 1]


def with_distance(metric: AnyMetric) -> GroundMetric:
    """The same metric with its distance as the cost."""
    metric = as_ground_metric(metric)
    if (metric.power, metric.scale) == (1.0, 1.0):
        return metric
    return metric.with_cost(power=1.0, scale=None)


def tabulated(metric: GroundMetric, pairs: float) -> GroundMetric:
    """Precompute all costs of the metric if `pairs` look-ups are worth it."""
    if metric.known_costs is None and metric.size <= LARGEST_TABLE and pairs >= metric.size**2:
        return metric.tabulated()
    return metric


def read_sample_weight(sample_weight: Numbers | None, values: Tensor) -> Tensor:
    """Check that there is one finite, non-negative weight per row of `values`; 1 by default."""
    if sample_weight is None:
        return values.new_ones(len(values))
    weight = _as_tensor("sample_weight", sample_weight, values.device).to(values.dtype)
    return checked_sample_weight(weight, values.shape[:1], values.device)


def given_back(answer: Tensor, given: Numbers) -> Any:
    """Return a tensor if `given` is one, otherwise a float or an array."""
    if isinstance(given, Tensor):
        return answer
    return answer.item() if answer.dim() == 0 else answer.cpu().numpy()
