"""Tables: which columns are features and targets, and the tensors that they become.

CSV files, Parquet files and data frames are read as the same kind of table (an Arrow table);
docs/data.md says which columns there are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from wassloss.data._arrow import (
    GAPS,
    ROW,
    Place,
    Values,
    check_columns,
    import_pyarrow,
    listed,
    named_errors,
    warn,
)
from wassloss.data._inputs import KNOWN_PARTS, from_lists
from wassloss.data.dataset import Dataset
from wassloss.data.labels import number, plain, read_labels, shown
from wassloss.data.raw_table import RawTable

if TYPE_CHECKING:
    import pyarrow as pa

Names = tuple[str, ...] | None
_USUAL = {"class", "target", "y", "outcome", "category", "species", "grade", "rating", "quality"}


class Wanted(NamedTuple):
    """What to read of a file; `wassloss.data.read` says more."""

    label_names: Names = None
    label_column: str | None = None
    feature_names: Names = None
    drop: tuple[str, ...] = ()
    group: str | None = None
    missing: str = "impute"
    raw: RawTable | None = None  # how another table's columns became features
    divide: Callable[[Dataset], Dataset] | None = None  # into parts, if rows are to be held out
    labelled: bool = True  # whether rows must have labels

    @classmethod
    def like(cls, raw: RawTable, label_column: str | None = None, **more: Any) -> Wanted:
        """What a model that was fitted to a table needs of another."""
        return cls(label_column=label_column, drop=raw.ignored, raw=raw)._replace(**more)


class Layout(NamedTuple):
    """Which columns hold what."""

    features: tuple[str, ...]
    target: str | None  # label or labels; None if labels are not read
    weights: str | None  # of labels
    part: str | None
    group: str | None

    @property
    def columns(self) -> list[str]:
        """All that are read."""
        return [*self.features, *(name for name in self[1:] if name is not None)]


def find_layout(names: Sequence[str], wanted: Wanted) -> Layout:
    """Find the columns of a table; errors name those that are missing."""
    raw, group = wanted.raw, wanted.group
    chosen = wanted.feature_names or () if raw is None else [c.name for c in raw.columns]
    asked = [] if raw else [*chosen, *wanted.drop]
    check_columns(names, [*asked, *([group] if group else [])])
    target = _target_column(names, wanted)
    weights = "weights" if target == "labels" and "weights" in names else None
    part = "part" if "part" in names and "part" not in [*chosen, *wanted.drop] else None
    others = {target, part, group, weights, *wanted.drop}
    # Pandas writes its index as a column of that name.
    columns = [n for n in names if n not in others and not n.startswith("__index_level_")]
    if raw is not None:
        given, columns = columns, raw.matched(columns)
        if extra := [name for name in given if name not in columns]:
            warn(f"ignoring {listed(extra)}, which the model was not trained on")
    elif wanted.feature_names is not None:
        columns = [name for name in chosen if name not in others]
    if not columns:
        raise ValueError(f"it lacks a column of features; it has {shown(names, 10)}")
    if not wanted.labelled:
        target = weights = group = None
    return Layout(tuple(columns), target, weights, part, group)


def _target_column(names: Sequence[str], wanted: Wanted) -> str | None:
    """The column of the labels; None if there is none and none is needed."""
    raw, asked = wanted.raw, wanted.label_column
    usual = raw.label_column if raw is not None and raw.label_column in names else None
    label = asked or usual or "label"
    usable = (label,) if asked not in (None, "label") else (label, "labels")
    features = () if raw is None else [column.name for column in raw.columns]
    target = next((name for name in usable if name in names and name not in features), None)
    if wanted.labelled and target is None:
        raise ValueError(_no_label(usable, names))
    return target


def _no_label(usable: Sequence[str], names: Sequence[str]) -> str:
    """That the column of labels is missing, and which it might be."""
    usual = [name for name in names if name.lower() in _USUAL]
    likely = get_close_matches(usable[0], names, 1) or usual or list(names[-1:])
    hint = f"say which one has the labels with label_column (--label-column {likely[0]}?)"
    if any(number(name) is not None for name in names):
        hint = "if line 1 is data, put a line with the columns' names before it"
    return f"it lacks a column {' or '.join(map(repr, usable))}; it has {shown(names, 10)}; {hint}"


def fields(rows: pa.Table, wanted: Wanted, layout: Layout, place: Place = ROW) -> dict[str, Any]:
    """What a `Dataset` is made of; all of class 0 if labels are not read."""

    def column(name: str, expected: str) -> Values:
        found = Values.of(rows, name, place, gaps=("",))
        found.refuse(found.missing, expected)
        return found

    rows, place = _labelled(rows, wanted, layout, place)
    found: dict[str, Any] = {"target": torch.zeros(rows.num_rows, dtype=torch.int64)}
    if layout.target is not None:
        labels = column(layout.target, "a label")
        weights = None if layout.weights is None else column(layout.weights, "numbers")
        target, names = _targets(labels, weights, wanted.label_names)
        found = {"target": target, "label_names": names}
    parts: dict[str, list[int]] = {}
    if layout.part is not None:
        words = Values.of(rows, layout.part, place, gaps=("",)).words().to_pylist()
        for row, name in enumerate(words):
            if name is not None:  # the three known names are found in any case
                known = name.lower() in KNOWN_PARTS
                parts.setdefault(name.lower() if known else name, []).append(row)
    groups = None
    if layout.group is not None:  # a number for each group, from 0
        groups = np.array(column(layout.group, "a group").array.dictionary_encode().indices)
    found |= {"parts": parts, "groups": groups}
    own, raw = rows.select(layout.features), wanted.raw
    if raw is None:
        data = Dataset(features=torch.zeros(rows.num_rows, 1), **found)
        divided = data if wanted.divide is None else wanted.divide(data)
        raw = RawTable.of(own, divided.parts.get("test", ()), wanted.missing, place)
    return found | {
        "features": torch.from_numpy(raw.features(own, place)),
        "feature_names": raw.feature_names,
        "raw": raw,
    }


def _labelled(
    rows: pa.Table, wanted: Wanted, layout: Layout, place: Place
) -> tuple[pa.Table, Place]:
    """The rows that have a label, and where they are; a warning counts the others."""
    if layout.target is None:
        return rows, place
    gaps = [word for word in GAPS if word not in (wanted.label_names or ())]
    values = Values.of(rows, layout.target, place, gaps)
    missing = values.missing
    if import_pyarrow().types.is_floating(values.array.type):
        missing = missing | np.isnan(values.numbers())
    if values.is_list or not missing.any():
        return rows, place
    if wanted.missing == "error":
        values.refuse(missing, "a label, as nothing may be missing (missing=error)")
    if missing.all():
        raise ValueError(f"column {layout.target!r} must hold labels, got none")
    kept = np.flatnonzero(~missing)
    words = Values.of(rows, layout.target, gaps=()).array.filter(values.array.is_null()).unique()
    said = [str(word) for word in words.to_pylist() if word not in (None, "")]
    named = f" ({shown(sorted(said))}, which would be labels if label_names, --order, said so)"
    warn(
        f"{int(missing.sum())} of {len(missing)} rows have no label{named if said else ''}: they "
        "are left out, and the others are numbered without them"
    )
    return rows.take(kept), lambda row: place(int(kept[row]))


def _targets(labels: Values, weights: Values | None, names: Names) -> tuple[Any, Names]:
    """Targets, and the names of all labels."""
    if not labels.is_list:
        ids, found = _label_ids(labels, names)
        return torch.from_numpy(ids), found
    counts, labels = labels.flat()
    ids, found = _label_ids(labels, names)
    if weights is None:
        return from_lists(counts, ids), found
    if not weights.is_list:
        raise ValueError(f"column 'weights' must hold lists of numbers, got {weights.array.type}")
    lengths, masses = weights.flat()
    weights.refuse(lengths != counts, "as many numbers as labels")
    masses.refuse(masses.missing, "a number")
    with np.errstate(over="ignore"):  # refused below
        array = masses.numbers().astype(np.float32)
    masses.refuse(~np.isfinite(array), "a finite number that fits float32")
    return from_lists(counts, ids, array), found


def _label_ids(values: Values, names: Names) -> tuple[NDArray[np.int64], tuple[str, ...]]:
    """The ids of labels given by value, as strings or numbers, and the names of all labels."""
    values.refuse(values.missing, "a label")
    types = import_pyarrow().types
    if types.is_floating(values.array.type):
        values.refuse(~np.isfinite(values.numbers()), "a finite number")
    if not (values.is_number or types.is_string(values.array.type)):
        raise ValueError(
            f"column {values.name!r} must hold numbers or strings, got {values.array.type}"
        )
    return read_labels([str(plain(v)) for v in values.array.to_pylist()], names, values.place)


def is_frame(X: Any) -> bool:
    """Whether features are a data frame."""
    return hasattr(X, "columns") and hasattr(X, "to_numpy")


def table_of(X: Any, held: NDArray[np.int64]) -> RawTable:
    """What becomes of the columns of a data frame, decided by the rows that are not held out."""
    table = _arrow(X)
    with named_errors("X"):
        return RawTable.of(table, held)


def frame_features(X: Any, raw: RawTable) -> NDArray[np.float64]:
    """The features of a data frame, whose columns are found by name in any order."""
    rows = _arrow(X)
    with named_errors("X"):
        layout = find_layout(rows.column_names, Wanted.like(raw, labelled=False))
        return raw.features(rows.select(layout.features))


def _arrow(X: Any) -> Any:
    return import_pyarrow().Table.from_pandas(X, preserve_index=False)
