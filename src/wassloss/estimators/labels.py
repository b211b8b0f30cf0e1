"""Which class is which label of the ground metric."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from wassloss.ground import Discrete, GroundMetric, Ordinal, as_ground_metric

Metric = GroundMetric | Tensor | NDArray[Any] | str | None
Classes = NDArray[Any] | Sequence[Any] | None


@dataclass(frozen=True)
class Labels:
    """Classes and the labels of a metric that they are.

    Attributes:
        metric: over K labels.
        classes: K of them, in the order that scikit-learn sees: sorted for class ids, in the order
            of the columns for matrices.
        places: the label that each class is.
    """

    metric: GroundMetric
    classes: NDArray[Any]
    places: NDArray[np.int64]

    def places_of(self, y: NDArray[Any]) -> NDArray[np.int64]:
        """The label of each class id in `y`.

        Raises:
            ValueError: a class is not among those known.
        """
        found, inverse = np.unique(y, return_inverse=True)
        _check_known("y", found, self.classes, "the classes")
        order = np.argsort(self.classes, kind="stable")
        place = order[np.searchsorted(self.classes, found, sorter=order)]
        return self.places[place][inverse]

    def state(self) -> dict[str, Any]:
        """Classes and places as JSON holds them.

        Raises:
            ValueError: the classes are neither numbers nor strings.
        """
        listed = self.classes.tolist()
        named = self.classes.dtype.kind == "O" and all(isinstance(each, str) for each in listed)
        if self.classes.dtype.kind not in "biufU" and not named:
            raise ValueError(
                f"classes must be numbers or strings to be saved, got {self.classes[0]!r}"
            )
        return {
            "classes": listed,
            "dtype": self.classes.dtype.str,
            "places": self.places.tolist(),
        }

    @classmethod
    def from_state(cls, metric: GroundMetric, state: dict[str, Any]) -> Labels:
        """The labels that `state` was taken of."""
        classes = np.array(state["classes"], dtype=np.dtype(state["dtype"]))
        places = np.array(state["places"], dtype=np.int64)
        every = np.arange(metric.size)
        if classes.shape != every.shape or not np.array_equal(np.sort(places), every):
            raise ValueError(f"it has no class for each of the {metric.size} labels")
        return cls(metric, classes, places)


def labels_of_classes(
    found: NDArray[Any], metric: Metric, classes: Classes, power: float | None
) -> Labels:
    """Match class ids, sorted, to a metric: by `classes`, by name, by number, or in order."""
    if classes is not None:
        every = read_classes(classes)
        _check_known("y", found, every, "classes")
        return _sorted(_resolved(metric, every, power), every)
    if metric is None:
        return _sorted(_resolved(None, found, power), found)
    if isinstance(metric, str):
        if _is_ordinal(metric) and found.dtype.kind not in "iuf":
            raise ValueError(
                'metric="ordinal" takes numbers as classes, got '
                f"{found[0]!r}; pass classes=[...] in their order"
            )
        return _sorted(_resolved(metric, found, power), found)
    ground = _with_power(_fixed(metric), power)
    if ground.labels is not None:
        names = np.array(ground.labels)
        if not all(isinstance(name, str) for name in found.tolist()):
            raise ValueError(
                f"y must hold names, as the ground metric has labels ({names[0]!r}, …), got "
                f"{found[0]!r}; for ids, pass y = np.array(metric.labels)[ids], or classes=[...]"
            )
        _check_known("y", found, names, "the ground metric's labels")
        return _sorted(ground, names.astype(found.dtype) if found.dtype == object else names)
    if found.dtype.kind in "iu" and found[0] >= 0 and found[-1] < ground.size:
        return _sorted(ground, np.arange(ground.size, dtype=found.dtype))
    if len(found) != ground.size:
        raise ValueError(
            f"y must hold {ground.size} classes, as the ground metric has labels, or ids in "
            f"0..{ground.size - 1}, got the {len(found)} classes of {_shown(found)}; name them all "
            "with classes=[...]"
        )
    return _sorted(ground, found)


def labels_of_columns(
    columns: int, metric: Metric, classes: Classes, power: float | None
) -> Labels:
    """The columns of a matrix are the metric's labels, in their order."""
    every = np.arange(columns) if classes is None else read_classes(classes)
    if len(every) != columns:
        raise ValueError(
            f"y must have a column for each of {len(every)} classes, got {columns} columns"
        )
    ground = _resolved(metric, every, power, what="y", unit="columns")
    if classes is None and ground.labels is not None:
        every = np.array(ground.labels)
    return Labels(ground, every, np.arange(columns))


def names_all_classes(metric: Metric, classes: Classes) -> bool:
    """Whether the classes are known before any data are seen."""
    if classes is not None:
        return True
    return metric is not None and not isinstance(metric, str)


def read_classes(classes: Any) -> NDArray[Any]:
    """Different classes of one kind, in the user's order."""
    every = np.asarray(classes)
    if every.ndim != 1 or not len(every):
        raise ValueError(f"classes must be a list of classes, got shape {every.shape}")
    if len(np.unique(every)) != len(every):
        raise ValueError(f"classes must differ, got {_shown(every)}")
    return every


def _resolved(
    metric: Metric,
    classes: NDArray[Any],
    power: float | None,
    what: str = "classes",
    unit: str = "classes",
) -> GroundMetric:
    """The metric over given classes, its labels."""
    ground: GroundMetric
    if metric is None:
        ground = Discrete(len(classes))
    elif isinstance(metric, str):
        _is_ordinal(metric)
        numbers = classes.dtype.kind in "iuf"
        ground = Ordinal(classes.astype(np.float64)) if numbers else Ordinal(len(classes))
    else:
        ground = _fixed(metric)
        if ground.size != len(classes):
            raise ValueError(
                f"{what} must have {ground.size} {unit}, as the ground metric has labels, got "
                f"{len(classes)}"
            )
    return _with_power(ground, power)


def _is_ordinal(metric: str) -> bool:
    if metric != "ordinal":
        raise ValueError(
            'metric must be a ground metric, a matrix of distances, "ordinal", or None for the '
            f"0-1 metric, got {metric!r}"
        )
    return True


def _fixed(metric: GroundMetric | Tensor | NDArray[Any]) -> GroundMetric:
    ground = as_ground_metric(metric)
    if ground.requires_grad:
        raise ValueError("metric must not require grad, for an estimator does not learn it")
    return ground


def _with_power(ground: GroundMetric, power: float | None) -> GroundMetric:
    return ground if power is None else ground.with_cost(power=power)


def _sorted(ground: GroundMetric, classes: NDArray[Any]) -> Labels:
    """scikit-learn's scorers take the columns of probabilities to be in sorted order."""
    order = np.argsort(classes, kind="stable")
    return Labels(ground, classes[order], order)


def _check_known(name: str, found: NDArray[Any], known: NDArray[Any], what: str) -> None:
    unknown = sorted(set(found.tolist()) - set(known.tolist()), key=str)
    if unknown:
        raise ValueError(f"{name} must hold {what} {_shown(known)}, got {unknown[0]!r}")


def _shown(classes: NDArray[Any]) -> str:
    listed = [repr(each) for each in classes[:6].tolist()]
    return ", ".join([*listed, "…"] if len(classes) > 6 else listed)
