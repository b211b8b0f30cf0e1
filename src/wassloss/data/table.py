"""Tables: which columns are features and targets, and the tensors that they become.

CSV and Parquet files are read as the same kind of table (an Arrow table); docs/data.md says which
columns there are. The metadata of a Parquet file may hold JSON under the key ``wassloss``.
"""

from __future__ import annotations

import json
import reprlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wassloss.data._arrow import import_pyarrow
from wassloss.data._inputs import part_name
from wassloss.data.labels import LabelIds, agreed_names, numbers, read_labels, read_numbers, shown
from wassloss.data.ragged import from_lists
from wassloss.targets import Target

if TYPE_CHECKING:
    import pyarrow as pa

METADATA_KEY = b"wassloss"
FORMAT = 1
Names = tuple[str, ...] | None


class DataWarning(UserWarning):
    """Data are read in a way that their owner should know about."""


class Wanted(NamedTuple):
    """What to read of a file; `wassloss.data.read` says more."""

    label_names: Names = None
    label_column: str | None = None
    feature_names: Names = None
    labelled: bool = True  # whether rows must have labels


class Description(NamedTuple):
    """What a file says about itself before its rows are read."""

    feature_names: Names
    labels: str | None = None  # "names" or "ids"; None if labels are the values that occur
    unnamed: int = 0  # columns of a table without a header


@dataclass(frozen=True)
class Layout:
    """Which columns hold features and targets, found from a table's schema and metadata."""

    feature_columns: tuple[str, ...]
    feature_names: Names  # None for lists of numbers without names
    order: list[int] | None  # which numbers of the lists are wanted; None for all
    target_column: str | None  # label, labels or weights; None if labels are not read
    weighted: bool  # whether labels have weights
    label_names: Names
    label_count: int  # 0 if the file does not say
    ids: bool  # whether integers are ids of labels rather than values
    about_rows: tuple[str, ...]  # part and group, if the table has them
    name: str
    provenance: str

    @property
    def columns(self) -> list[str]:
        """The columns of features and targets."""
        target = [] if self.target_column is None else [self.target_column]
        return [*self.feature_columns, *target, *(["weights"] if self.weighted else [])]


def find_layout(schema: pa.Schema, wanted: Wanted) -> Layout:
    """Find the columns of a table; errors name those that are missing."""
    label = wanted.label_column or "label"
    choices = (label, "labels", "weights") if wanted.labelled else ()
    target = next((name for name in choices if name in schema.names), None)
    if wanted.labelled and target is None:
        raise ValueError(
            f"it lacks a column {label!r}, 'labels' or 'weights'; it has {shown(schema.names, 10)}"
        )
    said = _said_by(schema)
    own, count = said.get("label_names"), int(said.get("label_count", 0))
    label_names = agreed_names(wanted.label_names, own)
    counted = count > 0 and (label_names is None or len(label_names) == count)
    if count and not counted and numbers(label_names or ()) is None:
        raise ValueError(
            f"label_names must name the {count} labels that the file counts, or some of them "
            f"by number, got {len(label_names or ())} names"
        )
    order = None
    if "features" in schema.names and is_list(schema.field("features").type):
        columns: tuple[str, ...] = ("features",)
        names = None if said.get("feature_names") is None else tuple(said["feature_names"])
        if names is not None and wanted.feature_names is not None:
            order = feature_order(names, wanted.feature_names)
            names = tuple(wanted.feature_names)
    else:
        others = not_features(label)
        # Pandas writes its index as a column of that name.
        columns = tuple(n for n in schema.names if n not in others and n[:14] != "__index_level_")
        if not columns:
            raise ValueError(f"it lacks a column of features; it has {shown(schema.names, 10)}")
        if wanted.feature_names is not None:
            columns = tuple(columns[i] for i in feature_order(columns, wanted.feature_names))
        names = columns
    return Layout(
        columns,
        names,
        order,
        target,
        weighted=target == "labels" and "weights" in schema.names,
        label_names=label_names,
        label_count=len(label_names) if label_names else count,
        ids=own is not None or counted,
        about_rows=tuple(name for name in ("part", "group") if name in schema.names),
        name=str(said.get("name", "")),
        provenance=str(said.get("provenance", "")),
    )


def _said_by(schema: pa.Schema) -> dict[str, Any]:
    """What a file says about itself in its metadata."""
    said = json.loads((schema.metadata or {}).get(METADATA_KEY, b"{}"))
    if not isinstance(said, dict):
        raise ValueError("its metadata under 'wassloss' must be a JSON object")
    if said.get("format", FORMAT) != FORMAT:
        raise ValueError(f"format {said['format']} is unknown, this version reads {FORMAT}")
    return said


def not_features(label_column: str) -> set[str]:
    """The names of columns that are not features."""
    return {label_column, "labels", "weights", "part", "group"}


def feature_order(found: Sequence[str], wanted: Sequence[str]) -> list[int]:
    """The position of each wanted column among those found; an error names the missing ones.

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


class Table(NamedTuple):
    """Rows with typed columns and what these mean; errors name the row, the column, the value."""

    rows: pa.Table
    layout: Layout
    place: Callable[[int], str] = "row {}".format  # where a row is in its file
    words: pa.Table | None = None  # the rows as their file spells them, if it is text

    def fields(self) -> dict[str, Any]:
        """What a `Dataset` is made of; without a target if labels are not read."""
        layout, found = self.layout, {}
        if layout.target_column is not None:
            target, names = self.target()
            count = 0 if names else layout.label_count
            found = {"target": target, "label_names": names, "label_count": count}
        parts: dict[str, list[int]] = {}
        if "part" in layout.about_rows:
            words = self.rows["part"].cast(import_pyarrow().string()).to_pylist()
            for row, text in enumerate(words):
                if name := part_name(text or ""):
                    parts.setdefault(name, []).append(row)
        if "group" in layout.about_rows:
            found["groups"] = self._column("group", "an integer").to_numpy().copy()
        return found | {
            "features": self.features(),
            "parts": {name: torch.tensor(rows) for name, rows in parts.items()},
            "name": layout.name,
            "provenance": layout.provenance,
            "feature_names": layout.feature_names,
        }

    def features(self) -> Tensor:
        """Finite floats `(n, features)`: this is where columns become features."""
        names, order = self.layout.feature_columns, self.layout.order
        if names == ("features",) and is_list(self.rows.schema.field("features").type):
            lists = self._rectangle("features")
            return torch.from_numpy(lists if order is None else lists[:, order])
        columns = [self._floats(name, self._column(name, "a number")) for name in names]
        return torch.from_numpy(np.stack(columns, axis=1))

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
            self._refuse(different, "weights", "as many numbers as labels", masses)
            weights = self._floats("weights", masses.flatten(), row_of)
        return from_lists(counts, ids, weights), names

    def _label_ids(self, values: pa.Array, row_of: NDArray[Any]) -> tuple[NDArray[np.int64], Names]:
        name, names = self.layout.target_column or "label", self.layout.label_names
        self._refuse(_nulls(values), name, "a label", values, row_of)
        if self.layout.ids and import_pyarrow().types.is_integer(values.type):
            return values.to_numpy(zero_copy_only=False).astype(np.int64), names
        return labels_of(values, name, names, lambda i: self.place(int(row_of[i])))

    def _column(self, name: str, expected: str) -> pa.Array:
        """A column as one array, without nulls."""
        column = whole(self.rows[name])
        self._refuse(_nulls(column), name, expected, column)
        return column

    def _rectangle(self, name: str) -> NDArray[Any]:
        """Lists of numbers, all of the same length, as floats `(n, length)`."""
        column = self._column(name, "a list of numbers")
        if not is_list(column.type):
            raise ValueError(f"column {name!r} must hold lists of numbers, got {column.type}")
        lengths = import_pyarrow().compute.list_value_length(column).to_numpy()
        self._refuse(lengths != lengths[:1], name, "as many numbers as in row 0", column)
        row_of = np.repeat(np.arange(len(column)), lengths)
        return self._floats(name, column.flatten(), row_of).reshape(len(column), -1)

    def _floats(
        self, name: str, values: pa.Array, row_of: NDArray[Any] | None = None
    ) -> NDArray[Any]:
        """Finite floats in an array of our own: float32, unless they are float64 or float16."""
        self._refuse(_nulls(values), name, "a number", values, row_of)
        array: NDArray[Any] = values.to_numpy(zero_copy_only=False)
        if array.dtype.kind not in "fiub":
            raise ValueError(f"column {name!r} must hold numbers, got {values.type}")
        array = array.astype(array.dtype if array.dtype.kind == "f" else np.float32)
        self._refuse(
            ~np.isfinite(array), name, f"a finite number that fits {array.dtype}", values, row_of
        )
        return array

    def _refuse(
        self,
        bad: NDArray[np.bool_],
        name: str,
        expected: str,
        values: pa.Array,
        row_of: NDArray[Any] | None = None,  # of each value, if a row may have several
    ) -> None:
        """Raise an error about the first value that is bad, if any is."""
        if bad.any():
            at = int(bad.argmax())
            row = at if row_of is None else int(row_of[at])
            got = values[at] if self.words is None else self.words[name][row]
            where = f"{self.place(row)}, column {name!r}"
            raise ValueError(f"{where}: expected {expected}, got {reprlib.repr(got.as_py())}")


def _nulls(values: pa.Array) -> NDArray[np.bool_]:
    """Which values are missing; nothing if none is."""
    if not values.null_count:
        return np.zeros(0, dtype=bool)
    found: NDArray[np.bool_] = values.is_null().to_numpy(zero_copy_only=False)
    return found


def labels_of(
    values: pa.Array, column: str, names: Names = None, place: Callable[[int], str] | None = None
) -> LabelIds:
    """The ids of labels given by value, as strings or numbers."""
    kind = import_pyarrow().types
    if kind.is_integer(values.type) or kind.is_floating(values.type):
        return read_numbers(values.to_numpy(zero_copy_only=False), names, place)
    if kind.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if not (kind.is_string(values.type) or kind.is_large_string(values.type)):
        raise ValueError(f"column {column!r} must hold numbers or strings, got {values.type}")
    return read_labels(values.to_pylist(), names, place)


def whole(column: pa.ChunkedArray) -> pa.Array:
    """A column as one array."""
    pa, one = import_pyarrow(), column.combine_chunks()
    if isinstance(one, pa.ChunkedArray):  # depends on pyarrow's version
        return pa.concat_arrays(one.chunks)
    return one


def is_list(kind: pa.DataType) -> bool:
    """Whether values of a type are lists, of any or one length."""
    types = import_pyarrow().types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))
