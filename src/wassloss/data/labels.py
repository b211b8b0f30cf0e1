"""Labels in files: the values that occur, and their places in a list or a ground metric.

A label is the value in the file. If all values are numbers, they are compared and sorted as
numbers, so 10 comes after 9 and 1.0 is 1; otherwise they are names, sorted as text.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from wassloss.ground import GroundMetric, Ordinal

_WHOLE = re.compile(r"([+-]?\d{1,300})(?:\.0*)?", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_CODE = re.compile(r"[+-]?0\d")  # as a number, 007 would lose its zeros


class LabelIds(NamedTuple):
    """Ids of some labels, and the names of all labels in their order."""

    ids: NDArray[np.int64]
    names: tuple[str, ...]


class UnknownLabelError(ValueError):
    """A value that is not one of the labels; its place in the file is empty if not known."""

    def __init__(self, label: str, place: str, reason: str) -> None:
        super().__init__(f"{place}: {reason}" if place else reason)
        self.label, self.place = label, place


def number(word: str) -> int | float | None:
    """The number that a word spells, exact if whole; None for names, and for codes such as 007.

    >>> [number(word) for word in ("1.0", "+2", "0.50", "1e3", "007", "nan", "low")]
    [1, 2, 0.5, 1000, None, None, None]
    """
    if _CODE.match(word) or not _DECIMAL.fullmatch(word):
        return None
    if whole := _WHOLE.fullmatch(word):
        return int(whole[1])
    value = float(word)
    if not math.isfinite(value):
        return None
    return int(value) if value.is_integer() else value


def numbers(words: Sequence[str]) -> list[int | float] | None:
    """The words as numbers, or None if one of them is not a number."""
    found = [number(word) for word in words]
    return None if None in found else found  # type: ignore[return-value]


def read_labels(
    words: Sequence[str],
    names: Sequence[str] | None = None,
    where: Callable[[int], str] | None = None,
) -> LabelIds:
    """Number words by a list of labels or, without one, by the values that occur.

    Words are found in a list by name, or as the number that a name spells. Numbers are never
    positions in the list: a file that counts from 1 would be read wrongly.

    Raises:
        UnknownLabelError: a word is not in the list; ``where`` says its place in the file.

    >>> read_labels(["10", "9.0", "10"])
    LabelIds(ids=array([1, 0, 1]), names=('9', '10'))
    >>> read_labels(["40", "15.0"], ["15", "20", "40"]).ids
    array([2, 0])
    """
    distinct = list(dict.fromkeys(words))
    if names is None:
        values = numbers(distinct)
        names = sorted(distinct) if values is None else [str(v) for v in sorted(set(values))]
    place = dict(zip(distinct, _places(distinct, names), strict=True))
    unknown = next((word for word, at in place.items() if at < 0), None)
    if unknown is not None:
        at = "" if where is None else where(words.index(unknown))
        near = difflib.get_close_matches(unknown, names)
        hint = f"; did you mean {near[0]!r}?" if near else f", {shown(names)}"
        raise UnknownLabelError(
            unknown, at, f"{unknown!r} is none of the {len(names)} labels{hint}"
        )
    return LabelIds(np.array([place[word] for word in words], dtype=np.int64), tuple(names))


def read_numbers(
    values: NDArray[Any],
    names: Sequence[str] | None,
    where: Callable[[int], str] | None = None,
) -> LabelIds:
    """Number values that are numbers already, as `read_labels` does words.

    >>> import numpy as np
    >>> read_numbers(np.array([20.0, 0.5, 20.0]), None)
    LabelIds(ids=array([1, 0, 1]), names=('0.5', '20'))
    """
    distinct, first, place = np.unique(values, return_index=True, return_inverse=True)
    if distinct.dtype.kind == "f" and not np.isfinite(distinct).all():
        at = int(first[~np.isfinite(distinct)][0])
        raise ValueError(f"{where(at) + ': ' if where else ''}labels must be finite numbers")
    words = [str(int(v)) if v == int(v) else str(v) for v in distinct]
    found = read_labels(words, names, None if where is None else lambda i: where(int(first[i])))
    return LabelIds(found.ids[place.reshape(-1)], found.names)


def agreed_names(given: Sequence[str] | None, own: Sequence[str] | None) -> tuple[str, ...] | None:
    """The names that the user or the file gives; if both do, they must be the same."""
    if given is not None and own is not None and tuple(given) != tuple(own):
        raise ValueError(f"label_names differ from the {len(own)} that the file itself holds")
    names = given if given is not None else own
    return None if names is None else tuple(str(name) for name in names)


def places_in(names: Sequence[str], metric: GroundMetric) -> LabelIds:
    """Find labels in a ground metric; returns their places, and names for all its labels.

    Labels are found by name, or as the number that a name spells. In a metric without names,
    numbers are positions on its line or ids 0..K-1, unless they could be either, and other names
    are its labels in order.

    >>> places_in(["40", "15"], Ordinal([15, 20, 40]))
    LabelIds(ids=array([2, 0]), names=('15', '20', '40'))
    """
    if metric.labels is not None:
        places = _places(names, metric.labels)
        missing = [name for name, at in zip(names, places, strict=True) if at < 0]
        if missing:
            reason = (
                f"metric must have all {len(names)} labels of the data, but it lacks "
                f"{len(missing)}: {shown(missing, 3)}; it has {shown(metric.labels)}"
            )
            raise UnknownLabelError(missing[0], "", reason)
        if len(set(places)) < len(places):
            twice = [n for n, at in zip(names, places, strict=True) if places.count(at) > 1]
            raise ValueError(f"the labels {shown(twice[:2])} are one label of the metric")
        return LabelIds(np.array(places), metric.labels)
    values = numbers(names)
    if values is None:
        if len(names) != metric.size:
            raise ValueError(f"metric must have {len(names)} labels, got {metric!r}")
        return LabelIds(np.arange(len(names)), tuple(names))
    positions = _at_positions(values, metric)
    ids = None
    if all(isinstance(value, int) and 0 <= value < metric.size for value in values):
        ids = LabelIds(np.array(values), tuple(str(i) for i in range(metric.size)))
    if positions and ids and not np.array_equal(positions.ids, ids.ids):
        raise ValueError(
            f"the labels {shown(names)} could be ids or positions of {metric!r}: name its labels "
            "(labels=[...], or `wassloss metric build --labels`)"
        )
    found = positions or ids
    if found is None:
        kind = "positions nor ids in" if isinstance(metric, Ordinal) else "ids in"
        raise ValueError(
            f"the labels {shown(names)} are no {kind} 0..{metric.size - 1} of {metric!r}, which "
            "has no names: name its labels (labels=[...], or `wassloss metric build --labels`)"
        )
    return found


def shown(names: Sequence[object], most: int = 6) -> str:
    """The first few names, quoted."""
    quoted = [repr(str(name)) for name in names[:most]]
    return ", ".join([*quoted, "…"] if len(names) > most else quoted)


def _places(words: Sequence[str], names: Sequence[str]) -> list[int]:
    """The place of each word among the names, by text or else by number; -1 if it has none."""
    place = {name: i for i, name in enumerate(names)}
    by_number: dict[int | float | None, int] = {}
    for i, name in enumerate(names):
        value = number(name)
        by_number[value] = -1 if value in by_number else i  # 1 and 1.0 are both listed
    by_number[None] = -1
    return [place[word] if word in place else by_number.get(number(word), -1) for word in words]


def _at_positions(values: list[int | float], metric: GroundMetric) -> LabelIds | None:
    """The places of labels that are positions on the metric's line; None if some are not."""
    if not isinstance(metric, Ordinal):
        return None
    positions = metric.positions.detach().cpu()
    place = {position: i for i, position in enumerate(positions.tolist())}
    exact = torch.tensor([float(value) for value in values], dtype=torch.float64)
    rounded = exact.to(positions.dtype).tolist()
    if len(place) < metric.size or not all(value in place for value in rounded):
        return None
    places = [place[value] for value in rounded]
    names = [f"{p:g}" if float(f"{p:g}") == p else repr(p) for p in positions.tolist()]
    for at, value in zip(places, values, strict=True):
        names[at] = str(value)  # as in the data: 0.1, not its rounding to single precision
    return LabelIds(np.array(places), tuple(names))
