"""Labels in files, and their ids.

A label is the value in the file. If all values are numbers, they are compared and sorted as
numbers, so 10 comes after 9 and 1.0 is 1; otherwise they are names, sorted as text.
"""

from __future__ import annotations

import difflib
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wassloss.app._messages import shown

_WHOLE = re.compile(r"([+-]?\d{1,300})(?:\.0*)?", re.ASCII)
_DECIMAL = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_WRITTEN_OUT = 1e16  # from here on, Python writes whole floats as 1e+16
_CODE = re.compile(r"[+-]?0\d")  # as a number, 007 would lose its zeros


def number(word: str) -> int | float | None:
    """Parse a number, exact if whole; None for names and for codes such as 007.

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
    """Parse all words as numbers; None if one of them is not a number."""
    found = [number(word) for word in words]
    return None if None in found else found  # type: ignore[return-value]


def plain(label: Any) -> Any:
    """A label as it is written in files: 2 for 2.0."""
    whole = isinstance(label, float) and label.is_integer() and abs(label) < _WRITTEN_OUT
    return int(label) if whole else label


def read_labels(
    words: Sequence[str],
    names: Sequence[str] | None = None,
    where: Callable[[int], str] | None = None,
) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """Turn words into label ids, given a list of labels or else the values that occur.

    Words match labels as text, or else as numbers. Numbers are never positions in the list, because
    a file that counts from 1 would be read wrongly.

    Returns:
        The ids, and the names of all labels in their order.

    Raises:
        ValueError: a word is not in the list; ``where`` describes its place in the file.

    >>> read_labels(["10", "9.0", "10"])
    (array([1, 0, 1]), ('9', '10'))
    >>> read_labels(["40", "15.0"], ["15", "20", "40"])[0]
    array([2, 0])
    """
    distinct = list(dict.fromkeys(words))
    if names is None:
        values = numbers(distinct)
        names = sorted(distinct) if values is None else [str(v) for v in sorted(set(values))]
    place = dict(zip(distinct, places_of(distinct, names), strict=True))
    unknown = next((word for word, at in place.items() if at < 0), None)
    if unknown is not None:
        at = "" if where is None else f"{where(words.index(unknown))}: "
        near = difflib.get_close_matches(unknown, names)
        hint = f"; did you mean {near[0]!r}?" if near else f", {shown(names)}"
        raise ValueError(f"{at}{unknown!r} is not one of the {len(names)} labels{hint}")
    return np.array([place[word] for word in words], dtype=np.int64), tuple(names)


def places_of(words: Sequence[str], names: Sequence[str]) -> list[int]:
    """The index of each word among the names, by text or else by number; -1 if it has none."""
    place = {name: i for i, name in enumerate(names)}
    by_number: dict[int | float | None, int] = {}
    for i, name in enumerate(names):
        value = number(name)
        by_number[value] = -1 if value in by_number else i  # 1 and 1.0 are both listed
    by_number[None] = -1
    return [place[word] if word in place else by_number.get(number(word), -1) for word in words]
