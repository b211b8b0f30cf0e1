"""The record that every loader returns: features, targets, labels, parts, a suggested metric."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType

import torch
from torch import Tensor

from wassloss.data._inputs import (
    count_labels,
    feature_tensor,
    group_ids,
    own_parts,
    own_target,
    row_numbers,
)
from wassloss.data._parts import part_name
from wassloss.data._relabel import relabelled
from wassloss.data._split import draw_parts
from wassloss.data.columns import check_feature_names, feature_order
from wassloss.data.labels import places_in
from wassloss.data.ragged import as_sparse
from wassloss.ground import GroundMetric
from wassloss.ground._labels import check_labels, find_label
from wassloss.targets import SparseTarget, Target, is_dense, read_target, take_rows

NO_PARTS: Mapping[str, Tensor] = MappingProxyType({})


@dataclass(frozen=True, repr=False, eq=False)  # tensors do not compare to one truth value
class Dataset:
    """Examples, what they should be labelled, and how far apart the labels are.

    What is built is checked: finite features, as many targets as rows, label ids in range, some
    mass in every target, parts that do not overlap, a metric of as many labels. It lives on the
    CPU; move the batches.

    Attributes:
        features: floats `(n, features)`; arrays become tensors.
        target: class ids `(n,)`, dense weights `(n, labels)`, or a ``SparseTarget``; a sparse
            matrix of SciPy or torch becomes one.
        label_names: a name for each label, or None; by default those of the metric.
        label_count: how many labels there are; by default as many as names, as the metric has, as
            dense weights have columns, or else the highest class id and one.
        parts: rows of each part, such as ``"train"``, ``"validation"`` and ``"test"``: indices or
            a mask. Rows may belong to none.
        metric: a suggested ground metric.
        groups: integers `(n,)`; examples of one group are variants of each other, and
            :meth:`split` keeps them together.
        name: what to call it.
        provenance: where it comes from, under what licence, what was left out.
        feature_names: a name for each feature, or None.

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

    def __post_init__(self) -> None:
        features = feature_tensor(self.features)
        n = len(features)
        target = own_target(self.target)
        names = self.label_names
        if names is None and self.metric is not None:
            names = self.metric.labels
        count = self.label_count or count_labels(names, self.metric, target)
        if self.metric is not None and self.metric.size != count:
            raise ValueError(f"metric must have {count} labels, as the data, got {self.metric!r}")
        theirs = None if self.metric is None else self.metric.labels
        if names is not None and theirs is not None and tuple(names) != theirs:
            raise ValueError(
                "label_names must be those of the metric in the same order, but they differ: "
                f"{_first_difference(tuple(names), theirs)}"
            )
        read_target(target, count, torch.Size([n]), torch.empty(0))  # its errors name the example
        own = {
            "features": features,
            "target": target,
            "label_names": check_labels(names, count),
            "label_count": count,
            "parts": MappingProxyType(own_parts(self.parts, n)),
            "groups": group_ids(self.groups, n),
            "feature_names": check_feature_names(self.feature_names, features.shape[1]),
        }
        for name, value in own.items():
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.features)

    def __repr__(self) -> str:
        n, width = self.features.shape
        kind = "class ids"
        if not _is_class_ids(self.target):
            kind = "dense targets" if is_dense(self.target) else "sparse targets"
        parts = "".join(f", {len(rows)} {part}" for part, rows in self.parts.items())
        named = f"{self.name!r}, " if self.name else ""
        return (
            f"Dataset({named}{_count(n, 'example')}, {_count(width, 'feature')}, "
            f"{_count(self.label_count, 'label')}, {kind}{parts})"
        )

    def take(self, rows: Tensor | Sequence[int] | Sequence[bool] | slice) -> Dataset:
        """Some of the rows, in the order given; parts and groups follow them."""
        chosen = row_numbers("rows", rows, len(self))
        return dataclasses.replace(
            self,
            features=self.features[chosen],
            target=take_rows(self.target, chosen),
            parts={
                name: torch.isin(chosen, part).nonzero().squeeze(1)
                for name, part in self.parts.items()
                if torch.isin(chosen, part).any()
            },
            groups=None if self.groups is None else self.groups[chosen],
        )

    def part(self, name: str) -> Dataset:
        """The rows of one part, as a data set without parts."""
        if name not in self.parts:
            name = part_name(name)
        if name not in self.parts:
            known = ", ".join(self.parts) or "none; split(...) makes some"
            raise ValueError(f"part must be one of the data's parts ({known}), got {name!r}")
        return dataclasses.replace(self, parts=NO_PARTS).take(self.parts[name])

    def split(
        self, fractions: Mapping[str, float], seed: int = 0, *, of: str | None = None
    ) -> Dataset:
        """The same data with parts drawn at random: the same ones for the same seed.

        Args:
            fractions: of the rows, for each part; rows are left over where they sum to less than 1.
            seed: of the shuffle.
            of: a part to divide, the other parts staying as they are; by default everything.

        Rows of one group go to one part together, so the fractions are then approximate.

        >>> data = Dataset(torch.rand(10, 2), torch.arange(10))
        >>> data.split({"train": 0.6, "validation": 0.2, "test": 0.2})
        Dataset(10 examples, 2 features, 10 labels, class ids, 6 train, 2 validation, 2 test)
        """
        total = sum(fractions.values())
        if not fractions or min(fractions.values()) <= 0 or total > 1 + 1e-9:
            raise ValueError(
                f"fractions must be positive and sum to at most 1, got {dict(fractions)}"
            )
        if of is not None and of not in self.parts:
            self.part(of)  # for its error
        rows = torch.arange(len(self)) if of is None else self.parts[of]
        kept = {} if of is None else {k: v for k, v in self.parts.items() if k != of}
        twice = kept.keys() & fractions.keys()
        if twice:
            raise ValueError(f"fractions must name new parts, got {sorted(twice)[0]!r}")
        drawn = draw_parts(rows, self.groups, fractions, seed)
        return dataclasses.replace(self, parts={**drawn, **kept})

    def normalized(self) -> Dataset:
        """The same data with every target's weights divided by their sum."""
        target = self.target
        if isinstance(target, SparseTarget):
            sums = target.weights.sum(1, keepdim=True)
            target = SparseTarget(target.indices, target.weights / sums)
        elif is_dense(target):
            target = target / target.sum(1, keepdim=True)
        return dataclasses.replace(self, target=target)

    def keep_labels(self, labels: Iterable[str | int]) -> Dataset:
        """The same data with these labels only, in this order; examples left without any go too.

        The metric is dropped, for a metric of some of the labels must be built anew.

        >>> data = Dataset([[0.0], [1.0]], [0, 2], label_names=("cat", "net", "dog"))
        >>> data.keep_labels(["dog", "net"]).target
        tensor([0])
        """
        chosen = [self.label_index(label) for label in labels]
        place = torch.full((self.label_count,), -1)
        place[chosen] = torch.arange(len(chosen))
        target, rows = relabelled(self.target, place, len(chosen))
        if not rows.any():
            raise ValueError("labels must leave some example with a label, got none")
        # Rows go before the labels do, for no state in between would pass the checks.
        return dataclasses.replace(
            self.take(rows),
            target=take_rows(target, rows),
            label_names=None
            if self.label_names is None
            else tuple(self.label_names[i] for i in chosen),
            label_count=len(chosen),
            metric=None,
        )

    def with_features(self, names: Sequence[str]) -> Dataset:
        """The same data with these features only, in this order.

        >>> data = Dataset([[1.0, 2.0]], [0], feature_names=("age", "height"))
        >>> data.with_features(["height"]).features
        tensor([[2.]])
        """
        if self.feature_names is None:
            raise ValueError(f"the data's features have no names to find {names[0]!r} by")
        order = feature_order(self.feature_names, names)
        return dataclasses.replace(
            self, features=self.features[:, order], feature_names=tuple(names)
        )

    def with_metric(self, metric: GroundMetric) -> Dataset:
        """The same data with this ground metric, its labels in the metric's order.

        Labels are matched by name, or as the number that a name is, where both have names: the
        metric may have more of them and in another order. Where the metric has none, labels that
        are numbers are its positions on a line or its ids, and names are its labels in their order.
        Class ids without names are the metric's.

        >>> import wassloss as wl
        >>> data = Dataset([[0.0], [1.0]], [0, 1], label_names=("high", "low"))
        >>> data.with_metric(wl.ground.Ordinal(3, labels=["low", "middle", "high"])).target
        tensor([2, 0])
        """
        if self.label_names is None:
            if metric.size < self.label_count:
                raise ValueError(f"metric must have {self.label_count} labels, got {metric!r}")
            places, names = list(range(self.label_count)), metric.labels
        else:
            places, names = places_in(self.label_names, metric)
        target, _ = relabelled(self.target, torch.tensor(places), metric.size)
        return dataclasses.replace(
            self, target=target, label_names=names, label_count=metric.size, metric=metric
        )

    def label_index(self, label: str | int) -> int:
        """The index of a label given by its name or, checked, by its index."""
        return find_label(label, self.label_names, self.label_count)

    def label_weights(self) -> Tensor:
        """The mass each label has over all examples, float64 `(labels,)`."""
        target = as_sparse(self.target, self.label_count)
        total = torch.zeros(self.label_count, dtype=torch.float64)
        padding = target.weights == 0
        indices = target.indices.masked_fill(padding, 0)
        return total.index_add(0, indices.reshape(-1), target.weights.reshape(-1).double())

    def summary(self, examples: int = 5) -> str:
        """What there is, in a few lines: counts, parts, frequent labels and their neighbours."""
        used = (as_sparse(self.target, self.label_count).weights > 0).sum(1)
        lines = [
            repr(self),
            f"labels per example: {used.double().mean():.2f} on average, "
            f"{int(used.min())} to {int(used.max())}",
        ]
        weights = self.label_weights()
        frequent = weights.argsort(descending=True, stable=True)[:examples].tolist()
        shown = ", ".join(f"{self._label(i)} ({weights[i]:.4g})" for i in frequent)
        lines.append(f"heaviest labels: {shown}")
        unused = int((weights == 0).sum())
        if unused:
            lines.append(f"labels that no example has: {unused}")
        if self.metric is None:
            lines.append("ground metric: none suggested")
        else:
            lines.append(f"ground metric: {self.metric!r}")
            for i in frequent if self.label_count > 1 else []:
                near = (f"{label} {d:.3g}" for label, d in self.metric.nearest(i, 3))
                lines.append(f"  nearest to {self._label(i)}: {', '.join(near)}")
        if self.provenance:
            lines.append(self.provenance)
        return "\n".join(lines)

    def _label(self, index: int) -> str:
        return str(index) if self.label_names is None else self.label_names[index]


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}" + ("" if n == 1 else "s")


def _first_difference(ours: tuple[str, ...], theirs: tuple[str, ...]) -> str:
    pairs = enumerate(zip(ours, theirs, strict=True))
    return next(f"label {i} is {a!r} and {b!r}" for i, (a, b) in pairs if a != b)


def _is_class_ids(target: Target) -> bool:
    return isinstance(target, Tensor) and target.dim() == 1
