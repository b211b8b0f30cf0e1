"""Tables: which columns are features and targets, and the tensors that they become.

CSV files, Parquet files and data frames are read as the same kind of table (an Arrow table);
docs/data.md says which columns there are.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from wassloss.data._arrow import (
    ROW,
    Place,
    as_numbers,
    as_words,
    cleaned,
    import_pyarrow,
    is_number,
    listed,
    named_errors,
    nulls,
    refuse,
    warn,
    whole,
)
from wassloss.data._inputs import part_name
from wassloss.data.labels import LabelIds, number, plain, read_labels, shown
from wassloss.data.ragged import from_lists
from wassloss.data.raw_table import RawTable
from wassloss.targets import Target

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
    usual_label: str | None = None  # the label's column, if there is one of that name
    labelled: bool = True  # whether rows must have labels

    @classmethod
    def like(cls, raw: RawTable, label_column: str | None = None, **more: Any) -> Wanted:
        """What a model that was fitted to a table needs of another."""
        return cls(
            label_column=label_column,
            feature_names=raw.names,
            drop=raw.ignored,
            raw=raw,
            usual_label=raw.label_column,
            **more,
        )


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


def find_layout(schema: pa.Schema, wanted: Wanted) -> Layout:
    """Find the columns of a table; errors name those that are missing."""
    names = schema.names
    asked = [] if wanted.raw else [*(wanted.feature_names or ()), *wanted.drop]
    feature_order(names, [*asked, *([wanted.group] if wanted.group else [])])
    target = _target_column(names, wanted)
    weights = "weights" if target == "labels" and "weights" in names else None
    part, group = _part_and_group(names, wanted)
    others = {target, part, group, weights, *wanted.drop}
    features = _feature_columns(names, others, wanted)
    if not wanted.labelled:
        return Layout(features, None, None, part, None)
    return Layout(features, target, weights, part, group)


def _target_column(names: Sequence[str], wanted: Wanted) -> str | None:
    """The column of the labels; None if there is none and none is needed."""
    usual = wanted.usual_label if wanted.usual_label in names else None
    label = wanted.label_column or usual or "label"
    usable = (label,) if wanted.label_column not in (None, "label") else (label, "labels")
    features = () if wanted.raw is None else [column.name for column in wanted.raw.columns]
    target = next((name for name in usable if name in names and name not in features), None)
    if wanted.labelled and target is None:
        raise ValueError(_no_label(usable, names))
    return target


def _part_and_group(names: Sequence[str], wanted: Wanted) -> tuple[str | None, str | None]:
    """The columns of parts and groups, unless they are features."""
    features = [c.name for c in wanted.raw.columns] if wanted.raw else wanted.feature_names or ()
    free = [name for name in names if name not in [*features, *wanted.drop]]
    group = wanted.group or ("group" if "group" in free else None)
    if group and not (wanted.group or wanted.raw) and wanted.labelled:
        warn(
            "the column 'group' says which rows stay together, and is not a feature: ask for that "
            "with group (--group group), or rename it"
        )
    return "part" if "part" in free else None, group


def _feature_columns(
    names: Sequence[str], others: Collection[str | None], wanted: Wanted
) -> tuple[str, ...]:
    """The columns that become features, in the order in which a model takes them."""
    # Pandas writes its index as a column of that name.
    columns = [n for n in names if n not in others and not n.startswith("__index_level_")]
    if wanted.raw is not None:
        matched = wanted.raw.matched(columns)
        extra = [name for name in columns if name not in matched]
        if extra:
            warn(f"ignoring {listed(extra)}, which the model was not trained on")
        columns = matched
    elif wanted.feature_names is not None:
        columns = [n for n in wanted.feature_names if n not in others]
    if not columns:
        raise ValueError(f"it lacks a column of features; it has {shown(names, 10)}")
    return tuple(columns)


def _no_label(usable: Sequence[str], names: Sequence[str]) -> str:
    """That the column of labels is missing, and which it might be."""
    usual = [name for name in names if name.lower() in _USUAL]
    likely = get_close_matches(usable[0], names, 1) or usual or list(names[-1:])
    hint = f"say which one has the labels with label_column (--label-column {likely[0]}?)"
    if any(number(name) is not None for name in names):
        hint = "if line 1 is data, put a line with the columns' names before it"
    return f"it lacks a column {' or '.join(map(repr, usable))}; it has {shown(names, 10)}; {hint}"


def feature_order(found: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """The position of each wanted column among those found; an error names the missing ones.

    >>> feature_order(["height", "age"], ["age"])
    [1]
    """
    place = {name: i for i, name in enumerate(found)}
    missing = [name for name in wanted if name not in place]
    if missing:
        near = get_close_matches(missing[0], found, 1)
        hint = f"; did you mean {near[0]!r}?" if near else ""
        raise ValueError(f"it lacks {listed(missing)}; it has {shown(found, 10)}{hint}")
    return [place[name] for name in wanted]


class Table(NamedTuple):
    """Rows with typed columns and what these mean; errors name the row, the column, the value."""

    rows: pa.Table
    layout: Layout
    wanted: Wanted
    place: Place = ROW

    def fields(self) -> dict[str, Any]:
        """What a `Dataset` is made of; without a target if labels are not read."""
        layout, wanted = self.layout, self.wanted
        found: dict[str, Any] = {}
        if layout.target is not None:
            target, names = self._target(layout.target)
            found = {"target": target, "label_names": names}
        own = self.rows.select(layout.features)
        raw = wanted.raw or RawTable.of(own, wanted.missing, self.place)
        return found | {
            "features": torch.from_numpy(raw.features(own, self.place)),
            "feature_names": raw.feature_names,
            "raw": raw,
            "parts": {} if layout.part is None else self._parts(layout.part),
            "groups": None if layout.group is None else self._groups(layout.group),
        }

    def _parts(self, column: str) -> dict[str, list[int]]:
        """The rows of each part, by name."""
        parts: dict[str, list[int]] = {}
        words = as_words(cleaned(whole(self.rows[column]), ("",)))
        for row, text in enumerate(words.to_pylist()):
            if name := part_name(text or ""):
                parts.setdefault(name, []).append(row)
        return parts

    def _groups(self, column: str) -> NDArray[Any]:
        """An integer for each row, the same for rows of a group."""
        values = self._column(column, "a group")
        values = values if is_number(values.type) else as_words(values)
        own = values.to_numpy(zero_copy_only=False)
        integers = own.dtype.kind in "iu"
        ids: NDArray[Any] = own.copy() if integers else np.unique(own, return_inverse=True)[1]
        return ids

    def _target(self, name: str) -> tuple[Target, tuple[str, ...]]:
        """Targets, and the names of the labels."""
        column = self._column(name, "a label")
        if not is_list(column.type):
            ids, names = self._label_ids(name, column, np.arange(len(column)))
            return torch.from_numpy(ids), names
        counts = np.diff(column.offsets.to_numpy())
        row_of = np.repeat(np.arange(len(counts)), counts)
        ids, names = self._label_ids(name, column.flatten(), row_of)
        weights = None
        if self.layout.weights is not None:
            masses = self._column(self.layout.weights, "numbers")
            if not is_list(masses.type):
                raise ValueError(f"column 'weights' must hold lists of numbers, got {masses.type}")
            different = np.diff(masses.offsets.to_numpy()) != counts
            refuse(different, "weights", "as many numbers as labels", masses, self.place)
            weights = self._floats(self.layout.weights, masses.flatten(), row_of)
        return from_lists(counts, ids, weights), names

    def _label_ids(self, name: str, values: pa.Array, row_of: NDArray[Any]) -> LabelIds:
        """The ids of labels given by value, as strings or numbers."""
        kind, names = import_pyarrow().types, self.wanted.label_names

        def place(i: int) -> str:
            return self.place(int(row_of[i]))

        values = cleaned(values, ("",))
        refuse(nulls(values), name, "a label", values, self.place, row_of)
        if kind.is_floating(values.type):
            finite = np.isfinite(values.to_numpy(zero_copy_only=False))
            refuse(~finite, name, "a finite number", values, self.place, row_of)
        if not (is_number(values.type) or kind.is_string(values.type)):
            raise ValueError(f"column {name!r} must hold numbers or strings, got {values.type}")
        return read_labels([str(plain(v)) for v in values.to_pylist()], names, place)

    def _column(self, name: str, expected: str) -> pa.Array:
        """A column as one array, without nulls."""
        column = cleaned(whole(self.rows[name]), ("",))
        refuse(nulls(column), name, expected, column, self.place)
        return column

    def _floats(self, name: str, values: pa.Array, row_of: NDArray[Any]) -> NDArray[Any]:
        """Finite float32 numbers of lists."""
        refuse(nulls(values), name, "a number", values, self.place, row_of)
        found = as_numbers(name, values, lambda i: self.place(int(row_of[i])))
        with np.errstate(over="ignore"):  # refused below
            array = found.astype(np.float32)
        finite = "a finite number that fits float32"
        refuse(~np.isfinite(array), name, finite, values, self.place, row_of)
        return array


def is_list(kind: pa.DataType) -> bool:
    """Whether values of a type are lists, of any or one length."""
    types = import_pyarrow().types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def is_frame(X: Any) -> bool:
    """Whether features are a data frame."""
    return hasattr(X, "columns") and hasattr(X, "to_numpy")


def table_of(X: Any) -> RawTable:
    """What becomes of the columns of a data frame, decided by its rows."""
    with named_errors("X"):
        return RawTable.of(_arrow(X))


def frame_features(X: Any, raw: RawTable) -> NDArray[np.float64]:
    """The features of a data frame, whose columns are found by name in any order."""
    rows = _arrow(X)
    with named_errors("X"):
        layout = find_layout(rows.schema, Wanted.like(raw, labelled=False))
        return raw.features(rows.select(layout.features))


def _arrow(X: Any) -> Any:
    return import_pyarrow().Table.from_pandas(X, preserve_index=False)
