"""Names of labels: checking them, and finding a label by name or number."""

from __future__ import annotations

import difflib
import operator
from collections.abc import Sequence
from typing import SupportsIndex


def check_labels(labels: Sequence[str] | None, size: int) -> tuple[str, ...] | None:
    """``size`` different names, or None."""
    if labels is None:
        return None
    if isinstance(labels, str):
        raise TypeError(f"labels must be a sequence of names, got the single string {labels!r}")
    names = tuple(labels)
    if len(names) != size:
        raise ValueError(f"labels must hold one name for each of {size} labels, got {len(names)}")
    seen: dict[str, int] = {}
    for i, name in enumerate(names):
        if not isinstance(name, str):
            raise TypeError(f"labels must hold strings, got labels[{i}] = {name!r}")
        if name in seen:
            raise ValueError(f"labels must differ, got {name!r} at {seen[name]} and at {i}")
        seen[name] = i
    return tuple(str(name) for name in names)  # numpy.str_ becomes str


def find_label(label: SupportsIndex | str, names: tuple[str, ...] | None, size: int) -> int:
    """The index of a label given by name or by index."""
    if isinstance(label, str):
        if names is None:
            raise ValueError(f"label {label!r} is a name, but this metric was built without labels")
        if label not in names:
            close = difflib.get_close_matches(label, names)
            hint = f"; did you mean {' or '.join(map(repr, close))}?" if close else ""
            raise ValueError(f"label {label!r} is not among the {size} labels{hint}")
        return names.index(label)
    if isinstance(label, bool) or not hasattr(label, "__index__"):
        raise TypeError(f"label must be a name or an index, got {label!r}")
    index = operator.index(label)
    if not 0 <= index < size:
        raise ValueError(f"label must be between 0 and {size - 1}, got {index}")
    return index
