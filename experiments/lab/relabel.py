"""Change the labels of data sets: select them, match them to a metric, normalise weights."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import torch
from torch import Tensor

from experiments.lab.dataset import Dataset
from experiments.lab.sparse import as_sparse, take
from wassloss import SparseTarget
from wassloss.ground import GroundMetric


def normalized(data: Dataset) -> Dataset:
    """Divide the weights of every target by their sum."""
    target = data.target
    if isinstance(target, SparseTarget):
        target = target.normalized()
    elif target.is_floating_point():
        target = target / target.sum(1, keepdim=True)
    return replace(data, target=target)


def label_weights(data: Dataset) -> Tensor:
    """The total mass of each label over all examples, float64 `(labels,)`."""
    target = as_sparse(data.target)
    used = target.weights > 0
    total = torch.zeros(data.label_count, dtype=torch.float64)
    return total.index_add(0, target.indices[used], target.weights[used].double())


def with_metric(data: Dataset, metric: GroundMetric) -> Dataset:
    """Use this ground metric, whose labels have names, and reorder the labels to match it."""
    return replace(data.with_labels(metric.labels or ()), metric=metric)


def keep_labels(data: Dataset, labels: Sequence[str]) -> Dataset:
    """Keep these labels, in this order, and the examples that have one of them.

    The metric is dropped: build one for the remaining labels.

    >>> data = Dataset([[0.0], [1.0]], [0, 2], label_names=("cat", "net", "dog"))
    >>> keep_labels(data, ["dog", "net"]).target
    tensor([0])
    """
    names = data.label_names or ()
    place = torch.full((data.label_count,), -1)
    place[[names.index(label) for label in labels]] = torch.arange(len(labels))
    target, rows = _relabelled(data.target, place)
    if not rows.any():
        raise ValueError("labels must leave some example with a label, got none")
    # Rows are removed before labels, because no state in between would pass the checks.
    return replace(
        replace(data, metric=None).take(rows),
        target=take(target, rows),
        label_names=tuple(labels),
        label_count=len(labels),
    )


def _relabelled(
    target: Tensor | SparseTarget, place: Tensor
) -> tuple[Tensor | SparseTarget, Tensor]:
    """Move label i to ``place[i]``, or remove it for -1; return which examples keep a label."""
    if isinstance(target, SparseTarget) or target.is_floating_point():
        sparse = as_sparse(target)
        used = sparse.weights > 0
        moved = place[sparse.indices.masked_fill(~used, 0)]
        stays = used & (moved >= 0)
        return SparseTarget(moved.masked_fill(~stays, 0), sparse.weights * stays), stays.any(1)
    ids = place[target]
    return ids, ids >= 0
