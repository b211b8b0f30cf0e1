"""Columns of features by name: which of a file's are wanted, missing, or one too many."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from wassloss.data.labels import shown

TARGETS = ("labels", "weights")
ABOUT_ROWS = ("part", "group")


class DataWarning(UserWarning):
    """Data are read in a way that their owner should know of."""


def not_features(label_column: str) -> set[str]:
    """Names of columns that say what a row is."""
    return {label_column, *TARGETS, *ABOUT_ROWS}


def feature_order(found: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """Where each wanted column stands among those that were found.

    Raises:
        ValueError: columns are missing, and which.

    >>> feature_order(["height", "age"], ["age"])
    [1]
    """
    place = {name: i for i, name in enumerate(found)}
    lacking = [name for name in wanted if name not in place]
    if lacking:
        raise ValueError(f"it lacks {columns(lacking)}; it has {shown(found, 10)}")
    return [place[name] for name in wanted]


def columns(names: Sequence[str]) -> str:
    """Names of columns as words."""
    return f"the column{'' if len(names) == 1 else 's'} {shown(names, 10)}"


def check_feature_names(names: Any, width: int) -> tuple[str, ...] | None:
    """A different name for each feature, or None."""
    if names is None:
        return None
    checked = tuple(names)
    if isinstance(names, str) or not all(isinstance(name, str) for name in checked):
        raise TypeError(f"feature_names must be names, got {names!r}")
    if len(checked) != width:
        raise ValueError(f"feature_names must name {width} features, got {len(checked)}")
    if len(set(checked)) < width:
        twice = next(name for name in checked if checked.count(name) > 1)
        raise ValueError(f"feature_names must differ, got {twice!r} twice")
    return tuple(str(name) for name in checked)
