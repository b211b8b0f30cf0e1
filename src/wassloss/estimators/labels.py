"""Which class is which label of the ground metric.

A fold of cross-validation may lack classes, so the label of a class follows from the metric, or
from what the user says, and never from which classes occur:

- `classes` are given: the class of each label, in the metric's order;
- the metric has names: classes are names;
- it has none: classes are label numbers, 0..K-1. They must include 0, because 1, 2, 3 may be
  classes counted from 1; nor may they be positions of other labels on a line;
- ``"ordinal"``, or None: the classes make the metric, by their values alone.
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
    """Classes and the labels of a metric that they are."""

    metric: GroundMetric  # over K labels
    classes: NDArray[Any]  # K, as scikit-learn sees them: sorted, or in the order of y's columns
    places: NDArray[np.int64]  # the label that each class is

    def places_of(self, y: NDArray[Any]) -> NDArray[np.int64]:
        """The label of each class id in `y`, all of which must be known."""
        found, inverse = np.unique(y, return_inverse=True)
        _check_known(found, self.classes, "the classes")
        # As Python objects: NumPy compares integers of different types as floats.
        place = {each: i for i, each in enumerate(self.classes.tolist())}
        return self.places[[place[each] for each in found.tolist()]][inverse]

    def has_sets(self, y: NDArray[Any]) -> bool:
        """Whether some of `y` are words for several classes."""
        unknown = set(y.tolist()) - set(self.classes.tolist())
        return any(isinstance(each, str) and _is_read(each, self._words) for each in unknown)

    def target_of(self, y: NDArray[Any]) -> Tensor | SetTarget:
        """Class ids as labels; as sets of labels if some of `y` are words for several classes."""
        if not self.has_sets(y):
            return torch.from_numpy(self.places_of(y))
        place = dict(zip(self.classes.tolist(), self.places.tolist(), strict=True))
        return self._words.target([place.get(each, each) for each in y.tolist()])

    @property
    def names(self) -> tuple[str, ...]:
        """The classes in words, in the metric's order."""
        return tuple(map(_name, self.classes[np.argsort(self.places)].tolist()))

    @property
    def _words(self) -> GroundMetric:
        """The metric, with the names of the classes."""
        return self.metric._with_labels(self.names)

    def state(self) -> dict[str, Any]:
        """Classes and places as JSON holds them."""
        listed, dtype = self.classes.tolist(), self.classes.dtype
        if dtype.kind not in "biufU" and not all(isinstance(each, str) for each in listed):
            raise ValueError(
                f"classes must be numbers or strings to be saved, got {self.classes[0]!r}"
            )
        return {"classes": listed, "dtype": dtype.str, "places": self.places.tolist()}

    @classmethod
    def from_state(cls, metric: GroundMetric, state: dict[str, Any]) -> Labels:
        """The labels that `state` was taken of."""
        classes = np.array(state["classes"], dtype=np.dtype(state["dtype"]))
        places = np.array(state["places"], dtype=np.int64)
        every = np.arange(metric.size)
        if classes.shape != every.shape or not np.array_equal(np.sort(places), every):
            raise ValueError(f"it has no class for each of the {metric.size} labels")
        return cls(metric, classes, places)


def labels_of_classes(found: NDArray[Any], metric: Metric, classes: Classes) -> Labels:
    """Match class ids, sorted, to a metric: see the list above."""
    ground, every = _matched(found, metric, classes)
    # scikit-learn's scorers take the columns of probabilities to be in sorted order.
    order = np.argsort(every, kind="stable")
    return Labels(ground, every[order], order)


def labels_of_columns(columns: int, metric: Metric, classes: Classes) -> Labels:
    """The columns of a matrix are the metric's labels, in their order."""
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
                f"y must hold names, as the ground metric has labels ({names.tolist()[0]!r}, …), "
                f"got {found.tolist()[0]!r}; for ids, pass y = np.array(metric.labels)[ids], or "
                f"classes=[...]{_numbered(found)}"
            )
        _check_known(found, names, "the ground metric's labels", ground)
        return ground, names.astype(found.dtype) if found.dtype == object else names
    kind, whole = found.dtype.kind, False
    if kind in "iuf" and (found == np.floor(found)).all():
        whole = found[0] == 0 and found[-1] < ground.size
    if not (ground.size == 2 if kind == "b" else whole):
        raise ValueError(
            f"y must hold numbers of labels, 0 and others in 0..{ground.size - 1}, where the "
            f"ground metric has no names, got {_shown(found)}; say which class is which label with "
            "classes=[...] (--order), in the metric's order, or name the metric's labels with "
            "labels=[...]"
        )
    if isinstance(ground, Ordinal):
        place = {position: i for i, position in enumerate(ground.positions.tolist())}
        places = [place.get(each) for each in found.tolist()]
        if None not in places and places != found.tolist():
            raise ValueError(
                f"y could hold numbers of labels or positions of {ground!r}, got {_shown(found)}; "
                "say which class is which label with classes=[...] (--order), in the metric's order"
            )
    numbers = np.arange(ground.size)
    own = numbers.astype(found.dtype)
    return ground, own if np.array_equal(own, numbers) else numbers


def refuse_ordered_categories(y: Any) -> None:
    """Refuse them where their order would have to be guessed by whoever takes `y` apart."""
    ordered = ordered_categories(y)
    if ordered is not None:
        raise ValueError(
            f"y must not be ordered categories where metric is a word, got {_shown(ordered)}: "
            "ensembles and cross_val_predict would number them in alphabetical order; pass "
            "classes=list(y.cat.categories), or their numbers y.cat.codes as y"
        )


def ordered_categories(y: Any) -> NDArray[Any] | None:
    """The categories of an ordered pandas column, in their order; None for anything else."""
    kind = getattr(y, "dtype", None)
    if kind is None or not getattr(kind, "ordered", False):
        return None
    return np.asarray(kind.categories)


def read_classes(classes: Any) -> NDArray[Any]:
    """Different classes of one kind, in the user's order."""
    every = np.asarray(classes)
    if every.ndim != 1 or not len(every):
        raise ValueError(f"classes must be a list of classes, got shape {every.shape}")
    if len(np.unique(every)) != len(every):
        raise ValueError(f"classes must differ, got {_shown(every)}")
    return every


def metric_of_labels(kind: str | None, values: Sequence[Any]) -> GroundMetric:
    """The metric that labels make by themselves.

    Its kind is ``"ordinal"``, labels on a line: at their values if they are numbers, evenly spaced
    in the given order otherwise; or None, all labels one apart.
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
    # Integers that float64 would round are counted from the smallest of them.
    origin = 0 if all(float(value) == value for value in values) else min(values)
    places = np.array([float(value - origin) for value in values])
    with np.errstate(over="ignore"):  # refused below
        finite = np.isfinite(np.ptp(places))
    if not finite or len(np.unique(places)) < len(values):
        raise ValueError(
            f"classes must be different positions on a line in float64, a finite distance apart, "
            f"got {_shown(np.array(values))}; pass a ground metric"
        )
    return Ordinal(places)


def _metric_over(every: NDArray[Any], metric: Metric, what: str, unit: str) -> GroundMetric:
    """The metric whose labels are given classes; `what` has them as its `unit`, for the error."""
    if metric is None or isinstance(metric, str):
        return metric_of_labels(metric, every.tolist())
    ground = _fixed(metric)
    if ground.size != len(every):
        raise ValueError(
            f"{what} must have {ground.size} {unit}, as the ground metric has labels, got "
            f"{len(every)}"
        )
    return ground


def _fixed(metric: GroundMetric | Tensor | NDArray[Any]) -> GroundMetric:
    ground = as_ground_metric(metric)
    if ground.requires_grad:
        raise ValueError("metric must not require grad: an estimator does not learn it")
    return ground


def _name(each: Any) -> str:
    """A class in words: ``"2"`` for 2.0."""
    return str(int(each) if isinstance(each, float) and each.is_integer() else each)


def _check_known(
    found: NDArray[Any], known: NDArray[Any], what: str, metric: GroundMetric | None = None
) -> None:
    """Refuse what is no class, nor a word in which a metric with names reads several of them."""
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
    """A hint where classes look as if someone else had numbered them."""
    if found.dtype.kind not in "iu" or not np.array_equal(found, np.arange(len(found))):
        return ""
    return (
        ". Ensembles of scikit-learn and cross_val_predict number classes in sorted order before "
        "they fit: give them label numbers as y, in the metric's order, and classes=range(K) here"
    )


def _shown(classes: NDArray[Any]) -> str:
    listed = [repr(each) for each in classes[:6].tolist()]
    return ", ".join([*listed, "…"] if len(classes) > 6 else listed)
