"""The data set that every reader returns: features, targets, labels, parts, a ground metric."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import torch
from torch import Tensor

from wassloss.data._inputs import (
    check_feature_names,
    check_parts,
    count_labels,
    feature_tensor,
    group_ids,
    own_target,
    row_numbers,
    rows_of_part,
)
from wassloss.data.labels import places_in
from wassloss.data.ragged import as_sparse, relabelled, to_lists
from wassloss.data.raw_table import RawTable
from wassloss.ground import GroundMetric
from wassloss.ground._inputs import check_labels, find_label
from wassloss.targets import (
    SparseTarget,
    Target,
    is_class_ids,
    is_dense,
    read_target,
)

NO_PARTS: Mapping[str, Tensor] = MappingProxyType({})


@dataclass(frozen=True, repr=False, eq=False)  # tensors do not compare to one truth value
class Dataset:
    """Examples, their labels, and how far apart the labels are; on the CPU.

    Everything is checked on construction: features are finite, each row has a target, label ids
    are in range, every target has some mass, parts do not overlap, and the metric fits the labels.

    Attributes:
        features: floats `(n, features)`; arrays become tensors.
        target: class ids `(n,)`, dense weights `(n, labels)`, or a ``SparseTarget``; sparse
            matrices of SciPy and torch become one.
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
    parts: Mapping[str, Tensor] = field(default_factory=lambda: NO_PARTS)
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
            "label_names": check_labels(names, count),
            "label_count": count,
            "parts": MappingProxyType(check_parts(self.parts, n)),
            "groups": group_ids(self.groups, n),
            "feature_names": check_feature_names(self.feature_names, features.shape[1]),
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
        rows = rows_of_part(self.parts, name)
        return dataclasses.replace(self, parts=NO_PARTS).take(rows)

    def normalized(self) -> Dataset:
        """Divide the weights of every target by their sum."""
        target = self.target
        if isinstance(target, SparseTarget):
            target = target.normalized()
        elif is_dense(target):
            target = target / target.sum(1, keepdim=True)
        return dataclasses.replace(self, target=target)

    def keep_labels(self, labels: Iterable[str | int]) -> Dataset:
        """Keep these labels, in this order, and the examples that have one of them.

        The metric is dropped: build one for the labels that remain.

        >>> data = Dataset([[0.0], [1.0]], [0, 2], label_names=("cat", "net", "dog"))
        >>> data.keep_labels(["dog", "net"]).target
        tensor([0])
        """
        chosen = [find_label(label, self.label_names, self.label_count) for label in labels]
        place = torch.full((self.label_count,), -1)
        place[chosen] = torch.arange(len(chosen))
        target, rows = relabelled(self.target, place, len(chosen))
        if not rows.any():
            raise ValueError("labels must leave some example with a label, got none")
        names = None if self.label_names is None else tuple(self.label_names[i] for i in chosen)
        # Rows are removed before labels: no state in between would pass the checks.
        return dataclasses.replace(
            self.take(rows),
            target=target[rows],
            label_names=names,
            label_count=len(chosen),
            metric=None,
        )

    def with_metric(self, metric: GroundMetric) -> Dataset:
        """Use this ground metric, and put the labels in its order.

        If both have names, labels are matched by name (numbers by value); the metric may have more
        labels, in another order. If only the data have names, names that are numbers are positions
        on the metric's line or its ids, and others are its labels in order. Class ids without
        names are the metric's ids.

        >>> import wassloss as wl
        >>> data = Dataset([[0.0], [1.0]], [0, 1], label_names=("high", "low"))
        >>> data.with_metric(wl.ground.Ordinal(3, labels=["low", "middle", "high"])).target
        tensor([2, 0])
        """
        if self.label_names is None:
            if metric.size < self.label_count:
                raise ValueError(f"metric must have {self.label_count} labels, got {metric!r}")
            places, names = torch.arange(self.label_count), metric.labels
        else:
            ids, names = places_in(self.label_names, metric)
            places = torch.from_numpy(ids)
        target, _ = relabelled(self.target, places, metric.size)
        return dataclasses.replace(
            self, target=target, label_names=names, label_count=metric.size, metric=metric
        )

    def label_weights(self) -> Tensor:
        """The total mass of each label over all examples, float64 `(labels,)`."""
        _, labels, weights = to_lists(as_sparse(self.target, self.label_count))
        total = torch.zeros(self.label_count, dtype=torch.float64)
        return total.index_add(0, torch.from_numpy(labels), torch.from_numpy(weights).double())

    def summary(self, examples: int = 5) -> str:
        """Describe the data in a few lines: counts, frequent labels and their neighbours."""
        used = (as_sparse(self.target, self.label_count).weights > 0).sum(1)
        weights = self.label_weights()
        frequent = weights.argsort(descending=True, stable=True)[:examples].tolist()
        names = self.label_names or tuple(map(str, range(self.label_count)))
        lines = [
            repr(self),
            f"labels per example: {used.double().mean():.2f} on average, "
            f"{int(used.min())} to {int(used.max())}",
            "heaviest labels: " + ", ".join(f"{names[i]} ({weights[i]:.4g})" for i in frequent),
        ]
        unused = int((weights == 0).sum())
        if unused:
            lines.append(f"labels that no example has: {unused}")
        lines.append(f"ground metric: {self.metric or 'none suggested'}")
        if self.metric is not None and self.label_count > 1:
            for i in frequent:
                near = (f"{label} {d:.3g}" for label, d in self.metric.nearest(i, 3))
                lines.append(f"  nearest to {names[i]}: {', '.join(near)}")
        if self.provenance:
            lines.append(self.provenance)
        return "\n".join(lines)


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" + ("" if n == 1 else "s")
