"""Tables: which columns are features and targets, and the tensors that they become.

CSV and Parquet files are read as the same kind of table (an Arrow table); docs/data.md says which
columns there are. The metadata of a Parquet file may hold JSON under the key ``wassloss``.
"""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wassloss.data._arrow import (
    ROW,
    Place,
    as_numbers,
    as_words,
    cleaned,
    import_pyarrow,
    is_number,
    listed,
    nulls,
    refuse,
    warn,
    whole,
)
from wassloss.data._inputs import part_name
from wassloss.data.labels import (
    LabelIds,
    agreed_names,
    number,
    numbers,
    read_labels,
    read_numbers,
    shown,
)
from wassloss.data.ragged import from_lists
from wassloss.data.raw_table import RawTable
from wassloss.targets import Target

if TYPE_CHECKING:
    import pyarrow as pa

METADATA_KEY = b"wassloss"
FORMAT = 1
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


@dataclass(frozen=True)
class Layout:
    """Which columns hold features and targets, found from a table's schema and metadata."""

    feature_columns: tuple[str, ...]
    feature_names: Names  # of lists of numbers
    lists: bool  # whether features are lists of numbers
    order: list[int] | None  # which numbers of the lists are wanted; None for all
    raw: RawTable | None  # what becomes of the columns; None if that is decided by the rows
    missing: str
    target_column: str | None  # label, labels or weights; None if labels are not read
    weighted: bool  # whether labels have weights
    label_names: Names
    label_count: int  # 0 if the file does not say
    ids: bool  # whether integers are ids of labels rather than values
    part: str | None  # the columns of parts and groups, if the table has them
    group: str | None
    name: str
    provenance: str

    @property
    def columns(self) -> list[str]:
        """The columns of features and targets."""
        target = [] if self.target_column is None else [self.target_column]
        return [*self.feature_columns, *target, *(["weights"] if self.weighted else [])]

    @property
    def all_columns(self) -> list[str]:
        """Those of parts and groups, too."""
        return [*self.columns, *(c for c in (self.part, self.group) if c is not None)]


def find_layout(schema: pa.Schema, wanted: Wanted) -> Layout:
    """Find the columns of a table; errors name those that are missing."""
    names, said = schema.names, _said_by(schema)
    lists = "features" in names and is_list(schema.field("features").type)
    asked = [] if wanted.raw or lists else [*(wanted.feature_names or ()), *wanted.drop]
    feature_order(names, [*asked, *([wanted.group] if wanted.group else [])])
    target = _target_column(schema, wanted)
    weighted = target == "labels" and "weights" in names
    part, group = _part_and_group(names, wanted, from_us=bool(said) or lists)
    label_names, label_count, ids = _labels(said, wanted.label_names)
    listed_names, order = _listed_features(said, wanted) if lists else (None, None)
    others = {target, part, group, *wanted.drop, *(["weights"] if weighted else [])}
    return Layout(
        ("features",) if lists else _feature_columns(names, others, wanted),
        listed_names,
        lists,
        order,
        None if lists else wanted.raw,
        wanted.missing,
        target if wanted.labelled else None,
        weighted=weighted and wanted.labelled,
        label_names=label_names,
        label_count=label_count,
        ids=ids,
        part=part,
        group=group if wanted.labelled else None,
        name=str(said.get("name", "")),
        provenance=str(said.get("provenance", "")),
    )


def _target_column(schema: pa.Schema, wanted: Wanted) -> str | None:
    """The column of the labels; None if there is none and none is needed."""
    names: list[str] = schema.names
    usual = wanted.usual_label if wanted.usual_label in names else "label"
    label = wanted.label_column or usual
    only = wanted.label_column not in (None, "label")
    usable = (label,) if only else (label, "labels", "weights")
    target = next((name for name in usable if name in names), None)
    if target == "weights" and not is_list(schema.field(target).type):
        target = None
    if wanted.labelled and target is None:
        raise ValueError(_no_label(usable[:2], names))
    return target


def _part_and_group(
    names: Sequence[str], wanted: Wanted, from_us: bool
) -> tuple[str | None, str | None]:
    """The columns of parts and groups, unless they are features."""
    features = [c.name for c in wanted.raw.columns] if wanted.raw else wanted.feature_names or ()
    free = [name for name in names if name not in [*features, *wanted.drop]]
    group = wanted.group or ("group" if "group" in free else None)
    if group and not (wanted.group or wanted.raw or from_us) and wanted.labelled:
        warn(
            "the column 'group' says which rows stay together, and is not a feature: ask for that "
            "with group (--group group), or rename it"
        )
    return "part" if "part" in free else None, group


def _labels(said: Mapping[str, Any], given: Names) -> tuple[Names, int, bool]:
    """Names and number of the labels, as far as they are known, and whether integers are ids."""
    own, count = said.get("label_names"), int(said.get("label_count", 0))
    names = agreed_names(given, own)
    counted = count > 0 and (names is None or len(names) == count)
    if count and not counted and numbers(names or ()) is None:
        raise ValueError(
            f"label_names must name the {count} labels that the file counts, or some of them "
            f"by number, got {len(names or ())} names"
        )
    return names, len(names) if names else count, own is not None or counted


def _listed_features(said: Mapping[str, Any], wanted: Wanted) -> tuple[Names, list[int] | None]:
    """The names of features in lists, and which of them are wanted; None for all."""
    if said.get("feature_names") is None:
        return None, None
    if wanted.feature_names is None:
        return tuple(said["feature_names"]), None
    return wanted.feature_names, feature_order(said["feature_names"], wanted.feature_names)


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


def _said_by(schema: pa.Schema) -> dict[str, Any]:
    """What a file says about itself in its metadata."""
    said = json.loads((schema.metadata or {}).get(METADATA_KEY, b"{}"))
    if not isinstance(said, dict):
        raise ValueError("its metadata under 'wassloss' must be a JSON object")
    if said.get("format", FORMAT) != FORMAT:
        raise ValueError(f"format {said['format']} is unknown, this version reads {FORMAT}")
    return said


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
    place: Place = ROW

    def fields(self) -> dict[str, Any]:
        """What a `Dataset` is made of; without a target if labels are not read."""
        layout = self.layout
        found: dict[str, Any] = {}
        if layout.target_column is not None:
            target, names = self.target()
            count = 0 if names else layout.label_count
            found = {"target": target, "label_names": names, "label_count": count}
        raw = self.raw()
        return found | {
            "features": self.features(raw),
            "parts": {} if layout.part is None else self._parts(layout.part),
            "groups": None if layout.group is None else self._groups(layout.group),
            "name": layout.name,
            "provenance": layout.provenance,
            "feature_names": layout.feature_names if raw is None else raw.feature_names,
            "raw": raw,
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

    def raw(self) -> RawTable | None:
        """What becomes of the columns, decided by these rows unless it is known."""
        layout = self.layout
        if layout.raw is not None or layout.lists:
            return layout.raw
        own = self.rows.select(layout.feature_columns)
        return RawTable.of(own, layout.missing, self.place)

    def features(self, raw: RawTable | None) -> Tensor:
        """Finite floats `(n, features)`: this is where columns become features."""
        layout = self.layout
        if raw is None:
            numbers = self._rectangle("features")
            return torch.from_numpy(numbers if layout.order is None else numbers[:, layout.order])
        own = self.rows.select(layout.feature_columns)
        return torch.from_numpy(raw.features(own, self.place))

    def target(self) -> tuple[Target, Names]:
        """Targets, and the names of the labels if there are any."""
        name = self.layout.target_column or "label"
        if name == "weights":
            return torch.from_numpy(self._rectangle(name)), self.layout.label_names
        column = self._column(name, "a label")
        if not is_list(column.type):
            ids, names = self._label_ids(column, np.arange(len(column)))
            return torch.from_numpy(ids), names
        counts = np.diff(column.offsets.to_numpy())
        row_of = np.repeat(np.arange(len(counts)), counts)
        ids, names = self._label_ids(column.flatten(), row_of)
        weights = None
        if self.layout.weighted:
            masses = self._column("weights", "numbers")
            different = np.diff(masses.offsets.to_numpy()) != counts
            refuse(different, "weights", "as many numbers as labels", masses, self.place)
            weights = self._floats("weights", masses.flatten(), row_of)
        return from_lists(counts, ids, weights), names

    def _label_ids(self, values: pa.Array, row_of: NDArray[Any]) -> tuple[NDArray[np.int64], Names]:
        name, names = self.layout.target_column or "label", self.layout.label_names
        values = cleaned(values, ("",))
        refuse(nulls(values), name, "a label", values, self.place, row_of)
        if self.layout.ids and import_pyarrow().types.is_integer(values.type):
            return values.to_numpy(zero_copy_only=False).astype(np.int64), names
        return labels_of(values, name, names, lambda i: self.place(int(row_of[i])))

    def _column(self, name: str, expected: str) -> pa.Array:
        """A column as one array, without nulls."""
        column = cleaned(whole(self.rows[name]), ("",))
        refuse(nulls(column), name, expected, column, self.place)
        return column

    def _rectangle(self, name: str) -> NDArray[Any]:
        """Lists of numbers, all of the same length, as floats `(n, length)`."""
        column = self._column(name, "a list of numbers")
        lengths = import_pyarrow().compute.list_value_length(column).to_numpy()
        different = lengths != lengths[:1]
        refuse(different, name, "as many numbers as in row 0", column, self.place)
        row_of = np.repeat(np.arange(len(column)), lengths)
        return self._floats(name, column.flatten(), row_of).reshape(len(column), -1)

    def _floats(self, name: str, values: pa.Array, row_of: NDArray[Any]) -> NDArray[Any]:
        """Finite floats of lists, in an array of our own: float32, unless they are other floats."""
        refuse(nulls(values), name, "a number", values, self.place, row_of)
        if not is_number(values.type):
            raise ValueError(f"column {name!r} must hold numbers, got {values.type}")
        found = as_numbers(name, values)
        floating = import_pyarrow().types.is_floating(values.type)
        array = found.astype(values.type.to_pandas_dtype() if floating else np.float32)
        finite = f"a finite number that fits {array.dtype}"
        refuse(~np.isfinite(array), name, finite, values, self.place, row_of)
        return array


def labels_of(
    values: pa.Array, column: str, names: Names = None, place: Place | None = None
) -> LabelIds:
    """The ids of labels given by value, as strings or numbers."""
    kind = import_pyarrow().types
    if kind.is_integer(values.type) or kind.is_floating(values.type):
        return read_numbers(values.to_numpy(zero_copy_only=False), names, place)
    values = cleaned(values, ())
    if not (kind.is_boolean(values.type) or kind.is_string(values.type)):
        raise ValueError(f"column {column!r} must hold numbers or strings, got {values.type}")
    return read_labels([str(value) for value in values.to_pylist()], names, place)


def is_list(kind: pa.DataType) -> bool:
    """Whether values of a type are lists, of any or one length."""
    types = import_pyarrow().types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))
