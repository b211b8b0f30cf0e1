"""Match classes to the labels of a ground metric.

A fold of cross-validation may lack classes, so the label of a class depends on the metric or the
user's `classes`, and never on which classes occur:

- `classes` are given: they list the class of each label, in the metric's order;
- the metric has names: classes are names;
- the metric has no names: classes are label numbers in 0..K-1. They must include 0, because 1, 2, 3
  may be classes counted from 1, and must not also be positions of other labels on a line;
- the metric is ``"ordinal"`` or None: the values of the classes define the metric.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wassloss.ground import Discrete, GroundMetric, Ordinal
from wassloss.ground.matrix import as_ground_metric
from wassloss.sets import SetTarget

Metric = GroundMetric | Tensor | NDArray[Any] | str | None
Classes = NDArray[Any] | Sequence[Any] | None


@dataclass(frozen=True)
class Labels:
    """A metric's labels and the class of each."""

    metric: GroundMetric  # over K labels
    classes: NDArray[Any]  # (K,) as in scikit-learn: sorted, or in the order of y's columns
    places: NDArray[np.int64]  # (K,) the label of each class

    def places_of(self, y: NDArray[Any]) -> NDArray[np.int64]:
        """The label of each class id in `y`, all of which must be known."""
        found, inverse = np.unique(y, return_inverse=True)
        _check_known(found, self.classes, "the classes")
        # Python objects, because NumPy compares integers of different dtypes as floats.
        place = {each: i for i, each in enumerate(self.classes.tolist())}
        return self.places[[place[each] for each in found.tolist()]][inverse]

    def has_sets(self, y: NDArray[Any]) -> bool:
        """Whether an entry of `y` names several classes."""
        unknown = set(y.tolist()) - set(self.classes.tolist())
        return any(isinstance(each, str) and _is_read(each, self._words) for each in unknown)

    def target_of(self, y: NDArray[Any]) -> Tensor | SetTarget:
        """Convert class ids to labels, or to sets of labels if an entry names several classes."""
        if not self.has_sets(y):
            return torch.from_numpy(self.places_of(y))
        place = dict(zip(self.classes.tolist(), self.places.tolist(), strict=True))
        return self._words.target([place.get(each, each) for each in y.tolist()])

    @property
    def names(self) -> tuple[str, ...]:
        """The classes as strings, in the metric's order."""
        return tuple(map(_name, self.classes[np.argsort(self.places)].tolist()))

    @property
    def _words(self) -> GroundMetric:
        """The metric with the classes' names as labels."""
        return self.metric._with_labels(self.names)

    def state(self) -> dict[str, Any]:
        """Convert classes and places to JSON values."""
        listed, dtype = self.classes.tolist(), self.classes.dtype
        if dtype.kind not in "biufU" and not all(isinstance(each, str) for each in listed):
            raise ValueError(
                f"classes must be numbers or strings to be saved, got {self.classes[0]!r}"
            )
        return {"classes": listed, "dtype": dtype.str, "places": self.places.tolist()}

    @classmethod
    def from_state(cls, metric: GroundMetric, state: dict[str, Any]) -> Labels:
        """Rebuild labels from their `state`."""
        classes = np.array(state["classes"], dtype=np.dtype(state["dtype"]))
        places = np.array(state["places"], dtype=np.int64)
        every = np.arange(metric.size)
        if classes.shape != every.shape or not np.array_equal(np.sort(places), every):
            raise ValueError(f"it has no class for each of the {metric.size} labels")
        return cls(metric, classes, places)


def labels_of_classes(found: NDArray[Any], metric: Metric, classes: Classes) -> Labels:
    """Match sorted class ids to a metric by the rules above."""
    ground, every = _matched(found, metric, classes)
    # scikit-learn's scorers expect the columns of probabilities in sorted order.
    order = np.argsort(every, kind="stable")
    return Labels(ground, every[order], order)


def labels_of_columns(columns: int, metric: Metric, classes: Classes) -> Labels:
    """Match the columns of a matrix to the metric's labels, in order."""
    every = np.arange(columns) if classes is None else read_classes(classes)
    if len(every) != columns:
        raise ValueError(
            f"y must have a column for each of {len(every)} classes, got {columns} columns"
        )
    ground = _metric_over(every, metric, "y", "columns")
    if classes is None and ground.labels is not None:
        every = np.array(ground.labels)
    return Labels(ground, every, np.arange(columns))


def _matched(
    found: NDArray[Any], metric: Metric, classes: Classes
) -> tuple[GroundMetric, NDArray[Any]]:
    """The metric and the class of each of its labels."""
    if classes is not None:
        every = read_classes(classes)
        ground = _metric_over(every, metric, "classes", "classes")
        _check_known(found, every, "classes", ground)
        return ground, every
    if metric is None or isinstance(metric, str):
        if metric == "ordinal" and found.dtype.kind not in "biuf":
            raise ValueError(
                'metric="ordinal" takes numbers as classes, got '
                f"{found.tolist()[0]!r}; pass classes=[...] in their order"
            )
        return metric_of_labels(metric, found.tolist()), found
    ground = _fixed(metric)
    if ground.labels is not None:
        names = np.array(ground.labels)
        if not all(isinstance(name, str) for name in found.tolist()):
            raise ValueError(
                "y must hold names, because the ground metric has labels "
                f"({names.tolist()[0]!r}, …), got {found.tolist()[0]!r}; for ids, pass "
                f"y = np.array(metric.labels)[ids], or classes=[...]{_numbered(found)}"
            )
        _check_known(found, names, "the ground metric's labels", ground)
        return ground, names.astype(found.dtype) if found.dtype == object else names
    kind, whole = found.dtype.kind, False
    if kind in "iuf" and (found == np.floor(found)).all():
        whole = found[0] == 0 and found[-1] < ground.size
    if not (ground.size == 2 if kind == "b" else whole):
        raise ValueError(
            f"y must hold label numbers, 0 and others in 0..{ground.size - 1}, because the ground "
            f"metric has no names, got {_shown(found)}; list the class of each label, in the "
            "metric's order, with classes=[...] (--order), or name the metric's labels with "
            "labels=[...]"
        )
    if isinstance(ground, Ordinal):
        place = {position: i for i, position in enumerate(ground.positions.tolist())}
        places = [place.get(each) for each in found.tolist()]
        if None not in places and places != found.tolist():
            raise ValueError(
                f"y must not be ambiguous, but it could hold label numbers or positions of "
                f"{ground!r}, got {_shown(found)}; list the class of each label, in the metric's "
                "order, with classes=[...] (--order)"
            )
    numbers = np.arange(ground.size)
    own = numbers.astype(found.dtype)
    return ground, own if np.array_equal(own, numbers) else numbers


def refuse_ordered_categories(y: Any) -> None:
    """Refuse ordered categories, whose order is lost once `y` becomes an array."""
    ordered = ordered_categories(y)
    if ordered is not None:
        raise ValueError(
            f"y must not be ordered categories if metric is a string, got {_shown(ordered)}: "
            "ensembles and cross_val_predict would number them in alphabetical order; pass "
            "classes=list(y.cat.categories), or the numbers y.cat.codes as y"
        )


def ordered_categories(y: Any) -> NDArray[Any] | None:
    """The categories of an ordered pandas column, in their order; None for anything else."""
    kind = getattr(y, "dtype", None)
    if kind is None or not getattr(kind, "ordered", False):
        return None
    return np.asarray(kind.categories)


def read_classes(classes: Any) -> NDArray[Any]:
    """Check a list of distinct classes, and keep its order."""
    every = np.asarray(classes)
    if every.ndim != 1 or not len(every):
        raise ValueError(f"classes must be a list of classes, got shape {every.shape}")
    if len(np.unique(every)) != len(every):
        raise ValueError(f"classes must be distinct, got {_shown(every)}")
    return every


def metric_of_labels(kind: str | None, values: Sequence[Any]) -> GroundMetric:
    """Build the metric that is defined by the values of the labels.

    ``"ordinal"`` puts labels on a line: at their values if they are numbers, otherwise evenly
    spaced in the given order. None is the 0-1 metric.
    """
    if kind is None:
        return Discrete(len(values))
    if kind != "ordinal":
        raise ValueError(
            'metric must be a ground metric, a matrix of distances, "ordinal", or None for the '
            f"0-1 metric, got {kind!r}"
        )
    if not all(isinstance(value, int | float) for value in values):
        return Ordinal(len(values))
    # Integers that float64 would round are shifted by the smallest.
    origin = 0 if all(float(value) == value for value in values) else min(values)
    places = np.array([float(value - origin) for value in values])
    with np.errstate(over="ignore"):  # refused below
        finite = np.isfinite(np.ptp(places))
    if not finite or len(np.unique(places)) < len(values):
        raise ValueError(
            f"classes must be distinct in float64 and at finite distances, got "
            f"{_shown(np.array(values))}; pass a ground metric"
        )
    return Ordinal(places)


def _metric_over(every: NDArray[Any], metric: Metric, what: str, unit: str) -> GroundMetric:
    """The metric over the given classes; `what` and `unit` name their source in the error."""
    if metric is None or isinstance(metric, str):
        return metric_of_labels(metric, every.tolist())
    ground = _fixed(metric)
    if ground.size != len(every):
        raise ValueError(
            f"{what} must have {ground.size} {unit}, one per label of the ground metric, got "
            f"{len(every)}"
        )
    return ground


def _fixed(metric: GroundMetric | Tensor | NDArray[Any]) -> GroundMetric:
    ground = as_ground_metric(metric)
    if ground.requires_grad:
        raise ValueError("metric must not require grad: estimators do not learn the metric")
    return ground


def _name(each: Any) -> str:
    """A class as a string: ``"2"`` for 2.0."""
    return str(int(each) if isinstance(each, float) and each.is_integer() else each)


def _check_known(
    found: NDArray[Any], known: NDArray[Any], what: str, metric: GroundMetric | None = None
) -> None:
    """Refuse values that are neither a class nor, for a metric with names, name several classes."""
    unknown = sorted(set(found.tolist()) - set(known.tolist()), key=str)
    if unknown and metric is not None and all(isinstance(each, str) for each in unknown):
        words = metric._with_labels([_name(each) for each in known.tolist()])
        unknown = [each for each in unknown if not _is_read(each, words)]
    if unknown:
        raise ValueError(
            f"y must hold {what} {_shown(known)}, got {unknown[0]!r}{_numbered(found)}"
        )


def _is_read(word: str, metric: GroundMetric) -> bool:
    try:
        metric.target([word])
    except ValueError:
        return False
    return True


def _numbered(found: NDArray[Any]) -> str:
    """A hint for classes that look as if scikit-learn had numbered them."""
    if found.dtype.kind not in "iu" or not np.array_equal(found, np.arange(len(found))):
        return ""
    return (
        ". scikit-learn's ensembles and cross_val_predict number classes in sorted order before "
        "they fit: pass them label numbers in the metric's order as y, and classes=range(K) here"
    )


def _shown(classes: NDArray[Any]) -> str:
    listed = [repr(each) for each in classes[:6].tolist()]
    return ", ".join([*listed, "…"] if len(classes) > 6 else listed)
