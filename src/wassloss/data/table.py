"""The columns of a table as features and targets.

What a column means is decided here, for Parquet files and for CSV files, which are read as the same
kind of table (an Arrow table):

================  ============================================================================
``label``         the class: a number or a string
``labels``        instead of ``label``: a list of numbers or strings
``weights``       next to ``labels``: a list of numbers of the same length; without it, the
                  labels of a row share a mass of 1. Parquet without ``labels`` or ``label``: one
                  weight per label
``part``          optional: train, validation, test, ...; empty for rows of no part
``group``         optional: an integer, the same for rows that are variants of each other
``features``      lists of floats, all of one length; without such a column, every column that is
                  not named above is a feature, in the order of the file
================  ============================================================================

The metadata of a Parquet file may hold, under the key ``wassloss``, JSON with ``label_names``,
``label_count``, ``feature_names`` (of the lists), ``name`` and ``provenance``. With either of the
first two, integers are ids of labels; otherwise they are values.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wassloss.data._parts import part_name
from wassloss.data.columns import ABOUT_ROWS, feature_order, not_features
from wassloss.data.dataset import Dataset
from wassloss.data.labels import LabelIds, agreed_names, numbers, read_labels, read_numbers, shown
from wassloss.data.ragged import from_lists
from wassloss.targets import Target

if TYPE_CHECKING:
    import pyarrow as pa

METADATA_KEY = b"wassloss"
FORMAT = 1
Place = Callable[[int], str]  # where a row is in its file, for error messages


def import_pyarrow() -> Any:
    """Import pyarrow with the modules that read and write tables."""
    try:
        import pyarrow
        import pyarrow.compute
        import pyarrow.csv
        import pyarrow.dataset
        import pyarrow.fs
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("CSV and Parquet files need pyarrow: pip install 'wassloss[data]'") from (
            error
        )
    return pyarrow


def one_line(error: BaseException) -> str:
    """The message of an error on one line."""
    return " ".join(str(error).split()) or type(error).__name__


@contextmanager
def named_errors(path: str | os.PathLike[str]) -> Iterator[None]:
    """Turn errors about a file's contents into one line that names the file."""
    try:
        yield
    except (ValueError, TypeError, KeyError, OverflowError, NotImplementedError, OSError) as error:
        if isinstance(error, OSError) and (error.errno or isinstance(error, FileNotFoundError)):
            raise
        raise ValueError(f"{os.fspath(path)} cannot be read as data: {one_line(error)}") from error


@dataclass(frozen=True)
class Layout:
    """Which columns hold features and targets, found from a table's schema and metadata."""

    feature_columns: tuple[str, ...]
    feature_names: tuple[str, ...] | None  # None for lists of numbers without names
    order: tuple[int, ...] | None  # which numbers of the lists are wanted; None for all
    target_column: str | None  # label, labels or weights; None if labels are not read
    weighted: bool  # whether labels have weights
    label_names: tuple[str, ...] | None
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


class Loaded(NamedTuple):
    """A table with typed columns, what they mean, and where each row is in its file."""

    table: pa.Table
    layout: Layout
    place: Place


def find_layout(
    schema: pa.Schema,
    label_names: tuple[str, ...] | None = None,
    label_column: str | None = None,
    feature_names: tuple[str, ...] | None = None,
    labelled: bool = True,
) -> Layout:
    """Find the columns of a table; errors name those that are missing."""
    label = label_column or "label"
    choices = (label, "labels", "weights")
    target = next((name for name in choices if name in schema.names), None) if labelled else None
    if labelled and target is None:
        raise ValueError(f"it lacks a column {label!r}, 'labels' or 'weights'; {_names(schema)}")
    said = said_by(schema)
    own, count = said.get("label_names"), int(said.get("label_count", 0))
    label_names = agreed_names(label_names, own)
    counted = count > 0 and (label_names is None or len(label_names) == count)
    if count and not counted and numbers(label_names or ()) is None:
        raise ValueError(
            f"label_names must name the {count} labels that the file counts, or some of them "
            f"by number, got {len(label_names or ())} names"
        )
    columns, names, order = _feature_columns(schema, said, label, feature_names)
    return Layout(
        columns,
        names,
        order,
        target,
        weighted=target == "labels" and "weights" in schema.names,
        label_names=label_names,
        label_count=len(label_names) if label_names else count,
        ids=own is not None or counted,
        about_rows=tuple(name for name in ABOUT_ROWS if name in schema.names),
        name=str(said.get("name", "")),
        provenance=str(said.get("provenance", "")),
    )


def said_by(schema: pa.Schema) -> dict[str, Any]:
    """What a file says about itself in its metadata."""
    said = json.loads((schema.metadata or {}).get(METADATA_KEY, b"{}"))
    if not isinstance(said, dict):
        raise ValueError("its metadata under 'wassloss' must be a JSON object")
    if said.get("format", FORMAT) != FORMAT:
        raise ValueError(f"format {said['format']} is unknown, this version reads {FORMAT}")
    return said


def _feature_columns(
    schema: pa.Schema, said: dict[str, Any], label: str, wanted: tuple[str, ...] | None
) -> tuple[tuple[str, ...], tuple[str, ...] | None, tuple[int, ...] | None]:
    """The columns of features, the features' names, and which numbers of lists are wanted."""
    if "features" in schema.names and is_list(schema.field("features").type):
        own = said.get("feature_names")
        if own is None or wanted is None:
            return ("features",), None if own is None else tuple(own), None
        return ("features",), wanted, tuple(feature_order(own, wanted))
    reserved = not_features(label)
    # Pandas writes its index as a column of that name.
    found = [n for n in schema.names if n not in reserved and not n.startswith("__index_level_")]
    if not found:
        raise ValueError(f"it lacks a column of features; {_names(schema)}")
    if wanted is not None:
        found = [found[i] for i in feature_order(found, wanted)]
    return tuple(found), tuple(found), None


def to_dataset(table: pa.Table, layout: Layout, place: Place) -> Dataset:
    """A whole table in memory."""
    target, names = targets_of(table, layout, place)
    parts: dict[str, list[int]] = {}
    if "part" in layout.about_rows:
        for i, part in enumerate(table["part"].to_pylist()):
            if part and part.strip():
                parts.setdefault(part_name(part), []).append(i)
    groups = None
    if "group" in layout.about_rows:
        groups = torch.from_numpy(_whole(table, "group").to_numpy(zero_copy_only=False).copy())
    return Dataset(
        features_of(table, layout),
        target,
        label_names=names,
        label_count=0 if names else layout.label_count,
        parts={name: torch.tensor(rows) for name, rows in parts.items()},
        groups=groups,
        name=layout.name,
        provenance=layout.provenance,
        feature_names=layout.feature_names,
    )


def features_of(table: pa.Table, layout: Layout) -> Tensor:
    """Finite floats `(n, features)`. This is where columns become features."""
    if layout.feature_columns == ("features",) and is_list(table.schema.field("features").type):
        features = _rectangle(_whole(table, "features"), "features")
        features = features if layout.order is None else features[:, list(layout.order)]
    else:
        columns = [_numbers(_whole(table, name), name) for name in layout.feature_columns]
        features = np.stack(columns, axis=1)
    bad = ~np.isfinite(features)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise ValueError(
            f"features must be finite, got {features[row, column]} in row {row}, column {column}"
        )
    return torch.from_numpy(features)


def targets_of(
    table: pa.Table, layout: Layout, place: Place
) -> tuple[Target, tuple[str, ...] | None]:
    """Targets, and the names of the labels if there are any."""
    name = layout.target_column or "label"
    column = _whole(table, name)
    if name == "weights":
        return torch.from_numpy(_rectangle(column, name)), layout.label_names
    if not is_list(column.type):
        ids, names = _label_ids(column, layout, place)
        return torch.from_numpy(ids), names
    counts = np.diff(column.offsets.to_numpy())
    row_of = np.repeat(np.arange(len(counts)), counts)
    ids, names = _label_ids(column.flatten(), layout, lambda i: place(int(row_of[i])))
    weights = None
    if layout.weighted:
        masses = _whole(table, "weights")
        if not np.array_equal(np.diff(masses.offsets.to_numpy()), counts):
            raise ValueError("columns 'labels' and 'weights' must have lists of equal lengths")
        weights = _numbers(masses.flatten(), "weights")
    return from_lists(counts, ids, weights), names


def _label_ids(
    values: pa.Array, layout: Layout, place: Place
) -> tuple[NDArray[np.int64], tuple[str, ...] | None]:
    if values.null_count:
        raise ValueError(f"column {layout.target_column!r} must hold labels, got a null")
    if layout.ids and import_pyarrow().types.is_integer(values.type):
        return values.to_numpy(zero_copy_only=False).astype(np.int64), layout.label_names
    return labels_of(values, layout.target_column or "label", layout.label_names, place)


def labels_of(
    values: pa.Array, column: str, names: tuple[str, ...] | None, place: Place | None = None
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


def _whole(table: pa.Table, name: str) -> pa.Array:
    """A column as one array, without nulls."""
    column = table[name].combine_chunks()
    pa = import_pyarrow()
    if isinstance(column, pa.ChunkedArray):  # depends on pyarrow's version
        column = pa.concat_arrays(column.chunks)
    if column.null_count:
        raise ValueError(f"column {name!r} must have no nulls, got {column.null_count}")
    return column


def is_list(kind: pa.DataType) -> bool:
    """Whether values of a type are lists, of any or one length."""
    types = import_pyarrow().types
    return bool(types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind))


def _rectangle(column: pa.Array, name: str) -> NDArray[Any]:
    """Lists of numbers, all of the same length, as floats `(n, length)`."""
    if not is_list(column.type):
        raise ValueError(f"column {name!r} must hold lists of numbers, got {column.type}")
    lengths = import_pyarrow().compute.list_value_length(column).to_numpy()
    if len(lengths) and (lengths != lengths[0]).any():
        row = int(np.flatnonzero(lengths != lengths[0])[0])
        raise ValueError(
            f"column {name!r} must hold lists of one length, got {lengths[0]} and, in row {row}, "
            f"{lengths[row]}"
        )
    return _numbers(column.flatten(), name).reshape(len(column), -1)


def _numbers(values: pa.Array, name: str) -> NDArray[Any]:
    """Floats in an array of our own: float32, unless they are float64 or float16."""
    if values.null_count:
        raise ValueError(f"column {name!r} must have no nulls, got {values.null_count}")
    array: NDArray[Any] = values.to_numpy(zero_copy_only=False)
    if array.dtype.kind not in "fiub":
        raise ValueError(f"column {name!r} must hold numbers, got {values.type}")
    return array.astype(array.dtype if array.dtype.kind == "f" else np.float32)


def _names(schema: pa.Schema) -> str:
    return f"it has {shown(schema.names, 10)}"
