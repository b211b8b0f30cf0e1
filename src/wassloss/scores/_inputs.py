"""What users hand to a score, arrays or tensors, read into tensors; answers given back in kind."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Literal, TypeAlias, cast

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from wassloss._checks import (
    check_choice,
    check_count,
    check_device,
    check_masses,
    check_weights,
    first_row,
    real_array,
)
from wassloss.ground import GroundMetric
from wassloss.ground.matrix import as_ground_metric
from wassloss.targets import SparseTarget, Target, read_target

Numbers: TypeAlias = Tensor | NDArray[Any] | Sequence[Any]
AnyTarget: TypeAlias = Any  # a form of wassloss.targets, a NumPy array, or a scipy.sparse matrix
Charge: TypeAlias = Literal["distance", "cost"]
Ks: TypeAlias = int | Sequence[int] | NDArray[Any]

_LARGEST_TABLE = 2048  # labels up to which all costs are tabulated, if they will be looked up


def read_scores(name: str, scores: Numbers, metric: GroundMetric | None = None) -> Tensor:
    """Predictions `(batch, labels)` without NaN, detached, in single precision or double."""
    if isinstance(scores, Tensor):
        x = scores.detach()
        if metric is not None:
            check_device(name, x, metric.device)
    else:
        x = from_array(name, scores, None if metric is None else metric.device)
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
    row = first_row(x.isnan())
    if row is not None:
        raise ValueError(f"{name} must not hold NaN, got one in example {row}")
    return x


def read_probabilities(
    name: str, probabilities: Numbers, metric: GroundMetric | None = None
) -> Tensor:
    """The same, and each row finite, not negative, and of some mass."""
    p = read_scores(name, probabilities, metric)
    check_masses(p, name)
    return p


def from_array(name: str, values: Any, device: torch.device | None) -> Tensor:
    """An array or nested list as a tensor."""
    array = real_array(name, values)
    wide = "f8" if array.dtype.itemsize > 4 else "f4"
    native = {"f": wide, "i": "i8", "u": "i8", "b": "?"}[array.dtype.kind]
    # Copied, for torch wants native byte order, positive strides and an array that may be written.
    return torch.from_numpy(np.array(array, dtype=native, order="C")).to(device)


def read_labels(target: AnyTarget, scores: Tensor, *, allow_empty: bool = False) -> SparseTarget:
    """True labels and their weights, both `(batch, support)`, of a target of any form."""
    batch, labels = scores.shape
    form = as_target(target, scores)
    read, _ = read_target(form, labels, torch.Size([batch]), scores, allow_empty=allow_empty)
    return SparseTarget(read.indices.expand_as(read.weights), read.weights)


def as_target(target: AnyTarget, scores: Tensor) -> Target:
    """A target of any form as one of those of :mod:`wassloss.targets`."""
    if isinstance(target, SparseTarget):
        return SparseTarget(
            _as_tensor("target.indices", target.indices, scores.device),
            _as_tensor("target.weights", target.weights, scores.device),
        )
    if sparse.issparse(target):
        return _from_scipy(target, scores.device)
    form = _as_tensor("target", target, scores.device)
    # A matrix is weights, whatever 0 and 1 are stored as: class ids have one dimension.
    return form.to(scores.dtype) if form.dim() == 2 and not form.is_floating_point() else form


def _as_tensor(name: str, value: Any, device: torch.device) -> Tensor:
    return value.detach() if isinstance(value, Tensor) else from_array(name, value, device)


def _from_scipy(matrix: Any, device: torch.device) -> Tensor:
    coo = matrix.tocoo()
    if coo.ndim != 2:
        raise ValueError(f"target must be a sparse matrix (batch, labels), got {coo.ndim} axes")
    where = torch.from_numpy(np.stack([coo.row, coo.col]).astype(np.int64))
    values = from_array("target", coo.data, None)
    weights = values if values.is_floating_point() else values.double()
    return torch.sparse_coo_tensor(where, weights, coo.shape, check_invariants=True).to(device)


def dense_weights(target: SparseTarget, labels: int) -> Tensor:
    """The weights as a matrix `(batch, labels)`."""
    zeros = target.weights.new_zeros(len(target.weights), labels)
    return zeros.scatter_add_(1, target.indices, target.weights)


def read_ks(k: Ks, labels: int | None = None) -> tuple[list[int], bool]:
    """The numbers of labels asked for, and whether it was one number."""
    one = np.ndim(k) == 0
    ks = [check_count("k", each) for each in cast(Sequence[int], [k] if one else k)]
    if not ks:
        raise ValueError("k must hold at least one number of labels, got none")
    if labels is not None and max(ks) > labels:
        raise ValueError(f"k must be at most the number of labels, {labels}, got {max(ks)}")
    return ks, one


def check_charge(charge: str) -> None:
    """One of the two things that a mistake may be charged."""
    check_choice("charge", charge, ("distance", "cost"))


def charged(
    metric: GroundMetric | Tensor | NDArray[Any], charge: Charge, pairs: int = 0
) -> GroundMetric:
    """The metric whose cost is what is charged, tabulated where `pairs` look-ups are worth it."""
    check_charge(charge)
    metric = as_ground_metric(metric)
    if charge == "distance" and (metric.power, metric.scale) != (1.0, 1.0):
        metric = metric.with_cost(power=1.0, scale=None)
    if metric.known_costs is None and metric.size <= _LARGEST_TABLE and pairs >= metric.size**2:
        return metric.tabulated()
    return metric


def common_dtype(x: Tensor, metric: GroundMetric) -> torch.dtype:
    """The wider of the two precisions."""
    return torch.promote_types(x.dtype, metric.dtype)


def read_sample_weight(sample_weight: Numbers | None, values: Tensor) -> Tensor:
    """One finite, non-negative weight for each row of `values`; all 1 where none are given."""
    batch = len(values)
    if sample_weight is None:
        return values.new_ones(batch)
    weight = _as_tensor("sample_weight", sample_weight, values.device)
    if weight.shape != (batch,):
        raise ValueError(
            f"sample_weight must have shape ({batch},), one weight an example, got "
            f"{tuple(weight.shape)}"
        )
    if weight.device != values.device:
        raise ValueError(
            f"sample_weight must be on the scores' device ({values.device}), got {weight.device}"
        )
    weight = weight.to(values.dtype)
    check_weights(weight, "sample_weight")
    return weight


def check_reduction(reduction: str) -> None:
    """A word for what becomes of the examples' values."""
    check_choice("reduction", reduction, ("mean", "none"))


def reduced(values: Tensor, sample_weight: Numbers | None, reduction: str) -> Tensor:
    """The weighted mean over examples, the first dimension; or, for ``"none"``, the values."""
    check_reduction(reduction)
    weight = read_sample_weight(sample_weight, values)
    if reduction == "none":
        return values
    total = weight.sum()
    if not total > 0:
        raise ValueError(
            f"scores must hold an example of positive weight to take a mean, got {len(values)} "
            f"examples of weight {float(total):g}"
        )
    share = (weight / total).reshape(-1, *(1,) * (values.dim() - 1))
    return (share * values).sum(0)


def given_back(answer: Tensor, given: Numbers) -> Any:
    """A tensor to who gave a tensor; else a float, or an array."""
    if isinstance(given, Tensor):
        return answer
    return answer.item() if answer.dim() == 0 else answer.cpu().numpy()
