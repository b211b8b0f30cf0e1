"""The data set that every reader returns: features, targets, labels, parts, a ground metric."""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from torch import Tensor

from wassloss.data._inputs import (
    check_parts,
    count_labels,
    feature_tensor,
    group_ids,
    own_target,
    relabelled,
    row_numbers,
)
from wassloss.data.labels import numbers, read_labels
from wassloss.data.raw_table import RawTable
from wassloss.ground import GroundMetric
from wassloss.ground._inputs import check_labels
from wassloss.targets import Target, is_class_ids, is_dense, read_target


@dataclass(frozen=True, repr=False, eq=False)  # tensors do not compare to one truth value
class Dataset:
    """Examples, their labels, and how far apart the labels are; on the CPU.

    Everything is checked on construction: features are finite, each row has a target, label ids
    are in range, every target has some mass, parts do not overlap, and the metric fits the labels.

    Attributes:
        features: floats `(n, features)`; arrays become tensors.
        target: class ids `(n,)`, dense weights `(n, labels)`, or a ``SparseTarget``; sparse
            matrices of SciPy become one.
        label_names: a name for each label, or None; by default the metric's.
        label_count: the number of labels; by default the number of names, of the metric's labels,
            of columns of dense weights, or else the highest class id plus one.
        parts: the rows of each part, such as ``"train"``, ``"validation"`` and ``"test"``: indices
            or a mask. Rows may belong to no part.
        metric: a suggested ground metric.
        groups: integers `(n,)`; examples in the same group are variants of each other, which stay
            together when some are held out.
        name: a short name.
        provenance: source, licence, and what was left out.
        feature_names: a name for each feature, or None.
        raw: what became of the columns of a table, or None; ``read(path, like=data)`` does the same
            to another table.

    >>> import wassloss as wl
    >>> data = Dataset([[0.0], [1.0], [2.0]], [0, 1, 1], metric=wl.ground.Ordinal(3))
    >>> data
    Dataset(3 examples, 1 feature, 3 labels, class ids)
    >>> data.take([2, 0]).target
    tensor([1, 0])
    """

    features: Tensor
    target: Target
    label_names: tuple[str, ...] | None = None
    label_count: int = 0
    parts: Mapping[str, Tensor] = field(default_factory=dict)
    metric: GroundMetric | None = None
    groups: Tensor | None = None
    name: str = ""
    provenance: str = ""
    feature_names: tuple[str, ...] | None = None
    raw: RawTable | None = None

    def __post_init__(self) -> None:
        features = feature_tensor(self.features)
        n = len(features)
        target = own_target(self.target)
        theirs = None if self.metric is None else self.metric.labels
        names = theirs if self.label_names is None else self.label_names
        count = self.label_count or count_labels(names, self.metric, target)
        if self.metric is not None and self.metric.size != count:
            raise ValueError(f"metric must have {count} labels, as the data, got {self.metric!r}")
        for i, (own, other) in enumerate(zip(names or (), theirs or (), strict=False)):
            if own != other:
                raise ValueError(
                    "label_names must be those of the metric in the same order, but they differ: "
                    f"label {i} is {own!r} and {other!r}"
                )
        read_target(target, count, torch.Size([n]), torch.empty(0))  # its errors name the example
        checked = {
            "features": features,
            "target": target,
            "label_names": check_labels(names, count, "label_names"),
            "label_count": count,
            "parts": check_parts(self.parts, n),
            "groups": group_ids(self.groups, n),
            "feature_names": check_labels(self.feature_names, features.shape[1], "feature_names"),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.features)

    def __repr__(self) -> str:
        n, width = self.features.shape
        kind = "dense targets" if is_dense(self.target) else "sparse targets"
        if is_class_ids(self.target):
            kind = "class ids"
        parts = "".join(f", {len(rows)} {part}" for part, rows in self.parts.items())
        named = f"{self.name!r}, " if self.name else ""
        return (
            f"Dataset({named}{_count(n, 'example')}, {_count(width, 'feature')}, "
            f"{_count(self.label_count, 'label')}, {kind}{parts})"
        )

    def take(self, rows: Tensor | Sequence[int] | Sequence[bool] | slice) -> Dataset:
        """Select rows, in the order given; parts and groups follow them."""
        chosen = row_numbers("rows", rows, len(self))
        return dataclasses.replace(
            self,
            features=self.features[chosen],
            target=self.target[chosen],
            parts={
                name: inside.nonzero().squeeze(1)
                for name, part in self.parts.items()
                if (inside := torch.isin(chosen, part)).any()
            },
            groups=None if self.groups is None else self.groups[chosen],
        )

    def part(self, name: str) -> Dataset:
        """Select the rows of one part, as a data set without parts."""
        return dataclasses.replace(self, parts={}).take(self._rows_of(name))

    def _rows_of(self, part: str) -> Tensor:
        """The row numbers of one part."""
        if part not in self.parts:
            known = ", ".join(self.parts) or "none"
            raise ValueError(f"part must be one of the data's parts ({known}), got {part!r}")
        return self.parts[part]

    @property
    def classes(self) -> NDArray[Any]:
        """All labels in order, as numbers if all of them are; ids where they have no names."""
        if self.label_names is None:
            return np.arange(self.label_count)
        values = numbers(self.label_names)
        distinct = values is not None and len(set(values)) == len(values)
        return np.array(values if distinct else self.label_names)

    @property
    def y(self) -> Any:
        """The targets as scikit-learn's estimators take them.

        The class of each example, `(n,)`; or weights of labels, `(n, labels)`, a SciPy matrix.
        """
        if is_class_ids(self.target):
            ids = self.target.numpy()
            return ids if self.label_names is None else self.classes[ids]
        if isinstance(self.target, Tensor):
            return sparse.csr_array(self.target.double().numpy())
        row, place = (self.target.weights > 0).numpy().nonzero()  # the others are padding
        entries = self.target.weights.numpy()[row, place].astype(np.float64)
        where = row, self.target.indices.numpy()[row, place]
        return sparse.csr_array((entries, where), shape=(len(self), self.label_count))

    def with_labels(self, names: Sequence[str]) -> Dataset:
        """Put the labels into this order, without the metric; there may be more of them.

        Labels are found by name, or as the number that a name spells; class ids without names are
        places in the list.

        >>> data = Dataset([[0.0], [1.0]], [0, 1], label_names=("high", "low"))
        >>> data.with_labels(["low", "middle", "high"]).target
        tensor([2, 0])
        """
        own = self.label_names
        if self.label_count > len(names):
            raise ValueError(f"label_names must be of {self.label_count} labels, got {len(names)}")
        places = np.arange(self.label_count) if own is None else read_labels(own, names)[0]
        found, counts = np.unique(places, return_counts=True)
        if (counts > 1).any():
            twice = names[found[counts.argmax()]]
            raise ValueError(
                f"label_names must keep the labels of the data apart, but {twice!r} is two"
            )
        return dataclasses.replace(
            self,
            target=relabelled(self.target, torch.from_numpy(places), len(names)),
            label_names=tuple(names),
            label_count=len(names),
            metric=None,
        )


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" + ("" if n == 1 else "s")
