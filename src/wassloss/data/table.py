"""The columns of a table as tensors: features, targets, parts and groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wassloss.data._arrow import import_pyarrow, is_list
from wassloss.data._parts import part_name
from wassloss.data.dataset import Dataset
from wassloss.data.labels import LabelIds, read_labels, read_numbers
from wassloss.data.layout import Layout, Place
from wassloss.data.ragged import from_lists
from wassloss.targets import Target

if TYPE_CHECKING:
    import pyarrow as pa


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
