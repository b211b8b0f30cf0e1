"""Labels in files, by name or by number, made into label ids."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


class LabelIds(NamedTuple):
    """Ids of labels, and what the labels are called if they came by name."""

    ids: NDArray[np.int64]
    names: tuple[str, ...] | None


def read_labels(
    values: Sequence[str], names: Sequence[str] | None, where: Sequence[str] | None = None
) -> LabelIds:
    """Label ids of words in a file.

    Where names are known, each word is one of them or a number. Where none are, words that are all
    whole numbers are ids; otherwise they are names, numbered in alphabetical order. Numbers that
    are not whole are refused: as names, 10.5 would come before 9.5.

    Args:
        values: the words.
        names: the labels' names, where known.
        where: the place of each word, for error messages.

    >>> read_labels(["cat", "dog", "cat"], None)
    LabelIds(ids=array([0, 1, 0]), names=('cat', 'dog'))
    >>> read_labels(["2", "cat"], ["dog", "cat", "eel"]).ids
    array([2, 1])
    """
    if names is None:
        numbers = _numbers(values)
        if numbers is not None:
            wrong = np.flatnonzero(numbers != np.floor(numbers))
            if len(wrong):
                place = "" if where is None else f"{where[wrong[0]]}: "
                raise ValueError(
                    f"{place}labels must be whole numbers or names, got {values[wrong[0]]!r}"
                )
            return LabelIds(numbers.astype(np.int64), None)
        found, ids = np.unique(np.array(values, dtype=np.str_), return_inverse=True)
        return LabelIds(ids.astype(np.int64).reshape(-1), tuple(found.tolist()))
    number = {name: i for i, name in enumerate(names)}
    ids = np.empty(len(values), dtype=np.int64)
    for i, value in enumerate(values):
        if value in number:
            ids[i] = number[value]
        elif _is_number(value):
            ids[i] = int(value)
        else:
            near = difflib.get_close_matches(value, names)
            hint = f"; did you mean {near[0]!r}?" if near else ""
            place = "" if where is None else f"{where[i]}: "
            raise ValueError(f"{place}{value!r} is none of the {len(names)} labels{hint}")
    return LabelIds(ids, tuple(names))


def agreed_names(given: Sequence[str] | None, own: Sequence[str] | None) -> tuple[str, ...] | None:
    """The names the user gave or the file holds; ids would mean other labels if they differed."""
    if given is not None and own is not None and tuple(given) != tuple(own):
        raise ValueError(f"label_names differ from the {len(own)} that the file itself holds")
    names = given if given is not None else own
    return None if names is None else tuple(str(name) for name in names)


def _numbers(values: Sequence[str]) -> NDArray[np.float64] | None:
    """The values as numbers, 1.0 as well as 1, or None where some are not."""
    try:
        numbers = np.array([float(value) for value in values])
    except ValueError:
        return None
    return numbers if np.isfinite(numbers).all() else None


def _is_number(value: str) -> bool:
    return value.removeprefix("-").isdecimal()
