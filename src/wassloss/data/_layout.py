"""Where a Parquet file keeps features and targets, and how they become tensors."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wassloss.data.columns import feature_order, not_features
from wassloss.data.labels import LabelIds, agreed_names, numbers, read_labels, read_numbers
from wassloss.data.ragged import from_lists
from wassloss.targets import Target

if TYPE_CHECKING:
    import pyarrow as pa

METADATA_KEY = b"wassloss"
FORMAT = 1


def import_pyarrow() -> Any:
    """Pyarrow with its Parquet reader, which only Parquet files need."""
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise ImportError("Parquet files need pyarrow: pip install 'wassloss[data]'") from error
    return pyarrow


def one_line(error: BaseException) -> str:
    """An error of pyarrow, which may run over several lines."""
    return " ".join(str(error).split()) or type(error).__name__


@dataclass(frozen=True)
class Layout:
    """Where a file keeps what, found from its schema and metadata alone."""

    feature_columns: tuple[str, ...]  # one column of lists, or one column a feature
    target_column: str  # label, labels or weights
    weighted: bool  # whether labels have weights beside them
    label_names: tuple[str, ...] | None
    label_count: int  # 0 where the file does not say
    ids: bool  # whether whole numbers are ids of labels, rather than values to look up
    has_part: bool
    has_group: bool
    name: str = ""
    provenance: str = ""
    feature_names: tuple[str, ...] | None = None  # None for lists of numbers without names
    order: tuple[int, ...] | None = None  # which numbers of the lists are wanted; None for all

    @property
    def columns(self) -> list[str]:
        """The columns that training reads."""
        weights = ["weights"] if self.weighted else []
        return [*self.feature_columns, self.target_column, *weights]

    @classmethod
    def of(
        cls,
        schema: pa.Schema,
        label_names: tuple[str, ...] | None = None,
        label_column: str = "label",
        feature_names: tuple[str, ...] | None = None,
    ) -> Layout:
        """Find the columns, or raise an error that says which are missing."""
        names = schema.names
        choices = (label_column, "labels", "weights")
        target = next((name for name in choices if name in names), None)
        if target is None:
            raise ValueError(
                f"it lacks a column {label_column!r}, 'labels' or 'weights'; {_columns(names)}"
            )
        said = said_by(schema)
        features = FeatureColumns.of(schema, label_column, feature_names)
        own, count = said.get("label_names"), int(said.get("label_count", 0))
        label_names = agreed_names(label_names, own)
        counted = count > 0 and (label_names is None or len(label_names) == count)
        if count and not counted and numbers(label_names or ()) is None:
            raise ValueError(
                f"label_names must name the {count} labels that the file counts, or some of them "
                f"by number, got {len(label_names or ())} names"
            )
        return cls(
            features.columns,
            target,
            weighted=target == "labels" and "weights" in names,
            label_names=label_names,
            label_count=len(label_names) if label_names else count,
            ids=own is not None or counted,
            has_part="part" in names,
            has_group="group" in names,
            name=str(said.get("name", "")),
            provenance=str(said.get("provenance", "")),
            feature_names=features.names,
            order=features.order,
        )

    def decode(
        self, table: pa.Table, first_row: int = 0
    ) -> tuple[Tensor, Target, tuple[str, ...] | None]:
        """Features and target of some rows, and the labels' names; errors name the column."""
        features = features_of(table, self.feature_columns, self.order)
        return features, *self._target(table, first_row)

    def _target(self, table: pa.Table, first: int) -> tuple[Target, tuple[str, ...] | None]:
        pa = import_pyarrow()
        column = whole_column(table, self.target_column)
        if self.target_column == "weights":
            return torch.from_numpy(_rectangle(column, "weights")), self.label_names
        if not (pa.types.is_list(column.type) or pa.types.is_large_list(column.type)):
            ids, names = self._ids(column, lambda i: f"row {first + i}")
            return torch.from_numpy(ids), names
        counts = np.diff(column.offsets.to_numpy())
        row_of = np.repeat(np.arange(len(counts)), counts)
        ids, names = self._ids(column.flatten(), lambda i: f"row {first + row_of[i]}")
        weights = None
        if self.weighted:
            masses = whole_column(table, "weights")
            if not np.array_equal(np.diff(masses.offsets.to_numpy()), counts):
                raise ValueError("columns 'labels' and 'weights' must have lists of equal lengths")
            weights = _numbers(masses.flatten(), "weights")
        return from_lists(counts, ids, weights), names

    def _ids(
        self, values: pa.Array, where: Callable[[int], str]
    ) -> tuple[NDArray[np.int64], tuple[str, ...] | None]:
        if values.null_count:
            raise ValueError(f"column {self.target_column!r} must hold labels, got a null")
        if self.ids and import_pyarrow().types.is_integer(values.type):
            return values.to_numpy(zero_copy_only=False).astype(np.int64), self.label_names
        return labels_of(values, self.target_column, self.label_names, where)


@dataclass(frozen=True)
class FeatureColumns:
    """Where the features are, and what they are called."""

    columns: tuple[str, ...]
    names: tuple[str, ...] | None
    order: tuple[int, ...] | None

    @classmethod
    def of(
        cls, schema: pa.Schema, label_column: str, wanted: tuple[str, ...] | None = None
    ) -> FeatureColumns:
        """Find them: a column of lists; ``x0``, ``x1``, ...; or all that say nothing else."""
        if "features" in schema.names:
            own = said_by(schema).get("feature_names")
            if own is None or wanted is None:
                return cls(("features",), None if own is None else tuple(own), None)
            return cls(("features",), wanted, tuple(feature_order(own, wanted)))
        found = _columns_of_features(schema.names, label_column)
        if wanted is not None:
            found = tuple(found[i] for i in feature_order(found, wanted))
        return cls(found, found, None)


def said_by(schema: pa.Schema) -> dict[str, Any]:
    """What a file says of itself in its metadata."""
    said = json.loads((schema.metadata or {}).get(METADATA_KEY, b"{}"))
    if not isinstance(said, dict):
        raise ValueError("its metadata under 'wassloss' must be a JSON object")
    if said.get("format", FORMAT) != FORMAT:
        raise ValueError(f"format {said['format']} is unknown, this version reads {FORMAT}")
    return said


def labels_of(
    values: pa.Array,
    column: str,
    names: tuple[str, ...] | None,
    where: Callable[[int], str] | None = None,
) -> LabelIds:
    """Ids of labels by their values, strings or numbers."""
    kind = import_pyarrow().types
    if kind.is_integer(values.type) or kind.is_floating(values.type):
        return read_numbers(values.to_numpy(zero_copy_only=False), names, where)
    if kind.is_dictionary(values.type):
        values = values.cast(values.type.value_type)
    if not (kind.is_string(values.type) or kind.is_large_string(values.type)):
        raise ValueError(f"column {column!r} must hold numbers or strings, got {values.type}")
    return read_labels(values.to_pylist(), names, where)


def whole_column(table: pa.Table, name: str) -> pa.Array:
    """A column as one array without nulls, but for parts, which rows may lack."""
    column = table[name].combine_chunks()
    pa = import_pyarrow()
    if isinstance(column, pa.ChunkedArray):  # pyarrow gives either, by version and emptiness
        column = pa.concat_arrays(column.chunks)
    if column.null_count and name != "part":
        raise ValueError(f"column {name!r} must have no nulls, got {column.null_count}")
    return column


def _columns_of_features(names: list[str], label_column: str) -> tuple[str, ...]:
    """``x0``, ``x1``, ... in their order, or every column that says nothing else of a row."""
    numbered = (f"x{i}" for i in itertools.count())
    found = tuple(itertools.takewhile(lambda name: name in names, numbered))
    if not found:
        told = not_features(label_column)
        # Pandas writes its index as a column of that name.
        found = tuple(n for n in names if n not in told and not n.startswith("__index_level_"))
    if not found:
        raise ValueError(f"it lacks a column of features; {_columns(names)}")
    return found


def _columns(names: list[str]) -> str:
    return "it has " + ", ".join(names[:10]) + (", ..." if len(names) > 10 else "")


def features_of(
    table: pa.Table, columns: tuple[str, ...], order: tuple[int, ...] | None = None
) -> Tensor:
    """Finite floats `(n, features)`; of lists, in the order asked for."""
    if columns == ("features",):
        features = _rectangle(whole_column(table, "features"), "features")
        features = features if order is None else features[:, list(order)]
    else:
        kinds = {name: _numbers(whole_column(table, name), name) for name in columns}
        features = np.stack(list(kinds.values()), axis=1)
    bad = ~np.isfinite(features)
    if bad.any():
        row, column = np.argwhere(bad)[0]
        raise ValueError(
            f"features must be finite, got {features[row, column]} in row {row}, column {column}"
        )
    return torch.from_numpy(features)


def _rectangle(column: pa.Array, name: str) -> NDArray[Any]:
    """Lists of numbers, all of one length, as floats `(n, length)`."""
    pa = import_pyarrow()
    kind = column.type
    if pa.types.is_fixed_size_list(kind):
        return _numbers(column.flatten(), name).reshape(len(column), kind.list_size)
    if not (pa.types.is_list(kind) or pa.types.is_large_list(kind)):
        raise ValueError(f"column {name!r} must hold lists of numbers, got {kind}")
    lengths = np.diff(column.offsets.to_numpy())
    if len(set(lengths.tolist())) > 1:
        row = int(np.flatnonzero(lengths != lengths[0])[0])
        raise ValueError(
            f"column {name!r} must hold lists of one length, got {lengths[0]} and, in row {row}, "
            f"{lengths[row]}"
        )
    return _numbers(column.flatten(), name).reshape(len(column), -1)


def _numbers(values: pa.Array, name: str) -> NDArray[Any]:
    """Floats of our own, float32 unless they are given as float64 or float16."""
    if values.null_count:
        raise ValueError(f"column {name!r} must have no nulls, got {values.null_count}")
    array: NDArray[Any] = values.to_numpy(zero_copy_only=False)
    if array.dtype.kind not in "fiub":
        raise ValueError(f"column {name!r} must hold numbers, got {values.type}")
    return array.astype(array.dtype if array.dtype.kind == "f" else np.float32)
