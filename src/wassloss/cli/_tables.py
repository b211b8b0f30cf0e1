"""The options that say how a table is read: those of `wassloss train` and of `wassloss compare`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from wassloss.cli.metric import label_list

HELP = {
    "order": "The labels in their order, such as poor,fair,good, or a file with one per line; by "
    "default the values that occur.",
    "label_column": "The column of the labels; by default label. Of a CSV file without a header "
    "its position, from 0; by default the last.",
    "features": "The columns to learn from, separated by commas; by default all.",
    "drop": "Columns that are no features.",
    "group": "A column whose equal rows stay together when some are held out.",
    "missing": "impute: the median, and a feature that says so. error: refuse gaps.",
}


def name_list(text: str | None) -> tuple[str, ...]:
    """Names separated by commas."""
    return tuple(name.strip() for name in text.split(",")) if text else ()


# Settings that are words on the command line, and what they are made into.
PARSERS: dict[str, Callable[[str | None], Any]] = {
    "order": label_list,
    "features": lambda text: name_list(text) or None,
    "drop": name_list,
}
