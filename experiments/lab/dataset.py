"""The data set that every corpus returns: features, targets, labels, parts, a ground metric."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from experiments.lab.sparse import as_sparse, from_lists
from wassloss import SparseTarget
from wassloss.datasets import load_clipart
from wassloss.ground import GroundMetric


@dataclass(frozen=True, repr=False, eq=False)  # tensors do not compare to one truth value
class Dataset:
    """Examples, their labels, and how far apart the labels are; on the CPU.

    Attributes:
        features: finite floats `(n, features)`; arrays become tensors.
        target: class ids `(n,)`, dense weights `(n, labels)`, or a ``SparseTarget``; sparse
            matrices of SciPy become one.
        label_names: a name for each label, or None; by default the metric's.
        label_count: by default the number of names, of the metric's labels, of columns of dense
            weights, or else the highest class id plus one.
        parts: the rows of each part, such as ``"train"``, ``"validation"`` and ``"test"``.
        metric: a suggested ground metric.
        groups: integers `(n,)`; examples in the same group are variants of each other.
        name, provenance: what it is, where it is from, and what was left out.
        feature_names: a name for each feature, or None.

    >>> import wassloss as wl
    >>> data = Dataset([[0.0], [1.0], [2.0]], [0, 1, 1], metric=wl.ground.Ordinal(3))
    >>> data
    Dataset(3 examples, 1 features, 3 labels)
    >>> data.take([2, 0]).target
    tensor([1, 0])
    """

    features: Tensor
    target: Tensor | SparseTarget
    label_names: tuple[str, ...] | None = None
    label_count: int = 0
    parts: Mapping[str, Tensor] = field(default_factory=dict)
    metric: GroundMetric | None = None
    groups: Tensor | None = None
    name: str = ""
    provenance: str = ""
    feature_names: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        features = torch.as_tensor(self.features)
        features = features if features.is_floating_point() else features.float()
        if features.dim() != 2 or not features.isfinite().all():
            raise ValueError(f"features must be finite, (n, features), got {features.shape}")
        target, metric = _read(self.target), self.metric
        names = self.label_names or (None if metric is None else metric.labels)
        names = None if names is None else tuple(names)
        count = self.label_count or len(names or ()) or (0 if metric is None else metric.size)
        count = count or _labels_of(target)
        theirs = None if metric is None else metric.labels or names
        if metric is not None and (metric.size != count or theirs != names):
            raise ValueError(f"metric must have the {count} labels of the data, got {metric!r}")
        if len(target) != len(features) or _labels_of(target) > count:
            raise ValueError(f"target must have a label in 0..{count - 1} for each row of features")
        parts = {part: _rows(rows, len(features)) for part, rows in self.parts.items()}
        every = torch.cat([torch.empty(0).long(), *parts.values()])
        if len(every.unique()) < len(every):
            raise ValueError("parts must hold each row at most once")
        checked = {
            "features": features,
            "target": target,
            "label_names": names,
            "label_count": count,
            "parts": parts,
            "groups": None if self.groups is None else torch.as_tensor(self.groups).long(),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.features)

    def __repr__(self) -> str:
        n, width = self.features.shape
        parts = "".join(f", {len(rows)} {part}" for part, rows in self.parts.items())
        named = f"{self.name!r}, " if self.name else ""
        return f"Dataset({named}{n} examples, {width} features, {self.label_count} labels{parts})"

    def take(self, rows: Tensor | Sequence[int] | slice) -> Dataset:
        """Select rows, in the order given; parts and groups follow them."""
        chosen = _rows(rows, len(self))
        found = {part: torch.isin(chosen, own).nonzero()[:, 0] for part, own in self.parts.items()}
        return replace(
            self,
            features=self.features[chosen],
            target=self.target[chosen],
            parts={part: inside for part, inside in found.items() if len(inside)},
            groups=None if self.groups is None else self.groups[chosen],
        )

    def part(self, name: str) -> Dataset:
        """Select the rows of one part, as a data set without parts."""
        return replace(self, parts={}).take(self.parts[name])

    @property
    def y(self) -> Any:
        """Class ids or names `(n,)`, or weights `(n, labels)`, as scikit-learn takes them."""
        if isinstance(self.target, Tensor) and not self.target.is_floating_point():
            ids = self.target.numpy()
            return ids if self.label_names is None else np.array(self.label_names)[ids]
        own = as_sparse(self.target)
        row, place = (own.weights > 0).numpy().nonzero()  # the others are padding
        entries = own.weights.numpy()[row, place].astype(np.float64)
        where = row, own.indices.numpy()[row, place]
        return sparse.csr_array((entries, where), shape=(len(self), self.label_count))

    def with_labels(self, names: Sequence[str]) -> Dataset:
        """Put the labels into this order, without the metric; there may be more of them.

        >>> data = Dataset([[0.0], [1.0]], [0, 1], label_names=("high", "low"))
        >>> data.with_labels(["low", "middle", "high"]).target
        tensor([2, 0])
        """
        place = torch.tensor([list(names).index(name) for name in self.label_names or ()])
        target = self.target
        if isinstance(target, SparseTarget):
            target = SparseTarget(place[target.indices], target.weights)
        elif target.is_floating_point():
            target = target.new_zeros(len(target), len(names)).index_copy(1, place, target)
        else:
            target = place[target]
        return replace(
            self, target=target, label_names=tuple(names), label_count=len(names), metric=None
        )


def clipart() -> Dataset:
    """The drawings that ship with the package."""
    found = load_clipart()
    return Dataset(
        found.data,
        found.target,
        label_names=found.target_names,
        parts={"train": found.train, "test": found.test},
        metric=found.metric,
        groups=found.groups,
        name="clipart",
        provenance=found.DESCR,
    )


def _read(target: Any) -> Tensor | SparseTarget:
    if isinstance(target, SparseTarget):
        return target
    if sparse.issparse(target):
        csr = sparse.csr_array(target)
        csr.sum_duplicates()
        csr.eliminate_zeros()
        return from_lists(np.diff(csr.indptr), csr.indices, csr.data.astype(np.float32))
    given = torch.as_tensor(np.ascontiguousarray(target))
    return given if given.is_floating_point() else given.long()


def _labels_of(target: Tensor | SparseTarget) -> int:
    """The least number of labels that a target has."""
    if isinstance(target, SparseTarget):
        used = target.indices[target.weights > 0]
        return 1 + int(used.max()) if len(used) else 1
    return target.shape[1] if target.is_floating_point() else 1 + int(target.max())


def _rows(given: Any, n: int) -> Tensor:
    """Row numbers, of numbers, a mask or a slice."""
    return torch.arange(n)[torch.as_tensor(given) if not isinstance(given, slice) else given]
