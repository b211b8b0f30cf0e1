"""Names of a table's columns: which are features, and how they are found."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

from wassloss.data.labels import shown

TARGETS = ("labels", "weights")
ABOUT_ROWS = ("part", "group")


class DataWarning(UserWarning):
    """Data are read in a way that their owner should know about."""


class Description(NamedTuple):
    """What a file says about itself before its rows are read.

    Its labels may be listed by name, or be ids; otherwise (None) they are the values that occur.
    """

    feature_names: tuple[str, ...] | None
    labels: Literal["names", "ids"] | None


def not_features(label_column: str) -> set[str]:
    """The names of columns that are not features."""
    return {label_column, *TARGETS, *ABOUT_ROWS}


def feature_order(found: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """The position of each wanted column among those found.

    Raises:
        ValueError: columns are missing; the message names them.

    >>> feature_order(["height", "age"], ["age"])
    [1]
    """
    place = {name: i for i, name in enumerate(found)}
    missing = [name for name in wanted if name not in place]
    if missing:
        raise ValueError(f"it lacks {columns(missing)}; it has {shown(found, 10)}")
    return [place[name] for name in wanted]


def columns(names: Sequence[str]) -> str:
    """Names of columns for a message: ``the columns 'age', 'height'``."""
    return f"the column{'' if len(names) == 1 else 's'} {shown(names, 10)}"
