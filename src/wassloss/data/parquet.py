"""Data sets as Parquet, the format to stream from when they do not fit into memory.

================  ============================================================================
``features``      lists of floats, all of one length; or one column each: ``x0``, ``x1``, ...,
                  or without these every column that is not named below
``label``         the class: a number, or a string
``labels``        instead of ``label``: a list of numbers or strings
``weights``       beside ``labels``: a list of numbers, as long; without it, the labels of a
                  row share a mass of 1. Without ``labels`` or ``label``: a weight for each
                  label there is, all rows alike
``part``          optional string: train, validation, test, ...; null for rows of no part
``group``         optional integer
================  ============================================================================

The file's metadata hold, under the key ``wassloss``, JSON with ``label_names``, ``label_count``,
``feature_names`` (of the lists), ``name`` and ``provenance``, each optional. With either of the
first two, integers are ids of labels; without, they are values.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Literal

import numpy as np
import torch
from torch import Tensor

from wassloss._files import replacing
from wassloss.data._layout import (
    FORMAT,
    METADATA_KEY,
    FeatureColumns,
    Layout,
    features_of,
    import_pyarrow,
    labels_of,
    one_line,
    said_by,
    whole_column,
)
from wassloss.data._parts import part_name
from wassloss.data._sources import is_part
from wassloss.data.dataset import Dataset
from wassloss.data.ragged import to_lists
from wassloss.targets import SparseTarget, Target

_ROW_GROUP_BYTES = 8 << 20  # of features: small enough to shuffle, large enough to read fast


def read(
    path: str | os.PathLike[str],
    label_names: tuple[str, ...] | None = None,
    label_column: str | None = None,
    feature_names: tuple[str, ...] | None = None,
) -> Dataset:
    """Read a whole data set into memory; ``wassloss.data.ParquetStream`` reads it in batches."""
    try:
        with _opened(path) as file:
            schema = file.schema_arrow
            layout = Layout.of(schema, label_names, label_column or "label", feature_names)
            extra = [
                n for n, has in (("part", layout.has_part), ("group", layout.has_group)) if has
            ]
            table = file.read([*layout.columns, *extra])
    except MemoryError as error:
        raise MemoryError(
            f"{os.fspath(path)} does not fit into memory ({one_line(error)}); "
            "wassloss.data.ParquetStream reads it in batches"
        ) from error
    if table.num_rows == 0:
        raise ValueError("it has no rows")
    features, target, names = layout.decode(table)
    parts: dict[str, list[int]] = {}
    for i, part in enumerate(table["part"].to_pylist() if layout.has_part else []):
        if part:
            parts.setdefault(part_name(part), []).append(i)
    groups = None
    if layout.has_group:
        groups = torch.from_numpy(
            whole_column(table, "group").to_numpy(zero_copy_only=False).copy()
        )
    return Dataset(
        features,
        target,
        label_names=names,
        label_count=0 if names else layout.label_count,
        parts={name: torch.tensor(rows) for name, rows in parts.items()},
        groups=groups,
        name=layout.name,
        provenance=layout.provenance,
        feature_names=layout.feature_names,
    )


def read_features(
    path: str | os.PathLike[str],
    label_column: str | None = None,
    feature_names: tuple[str, ...] | None = None,
) -> Tensor:
    """The columns of features alone; rows need not say what they are."""
    with _opened(path) as file:
        found = FeatureColumns.of(file.schema_arrow, label_column or "label", feature_names)
        table = file.read(list(found.columns))
    if table.num_rows == 0:
        raise ValueError("it has no rows")
    return features_of(table, found.columns, found.order)


def feature_batches(
    path: str | os.PathLike[str],
    rows: int,
    part: str | None = None,
    label_column: str | None = None,
    feature_names: tuple[str, ...] | None = None,
) -> Iterator[tuple[list[int], Tensor]]:
    """The same in pieces of at most ``rows``, with the numbers of the rows, of one part or all."""
    try:
        with _opened(path) as file:
            found = FeatureColumns.of(file.schema_arrow, label_column or "label", feature_names)
            if part is not None and "part" not in file.schema_arrow.names:
                raise ValueError(f"it has no column 'part' to find {part!r} in")
            read = [*found.columns, *(["part"] if part is not None else [])]
            start = 0
            for batch in file.iter_batches(rows, columns=read):
                table = import_pyarrow().Table.from_batches([batch])
                numbers = np.arange(start, start + len(batch))
                start += len(batch)
                if part is not None:
                    own = is_part(table, part)
                    table, numbers = table.filter(own), numbers[own]
                if len(numbers):
                    yield numbers.tolist(), features_of(table, found.columns, found.order)
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)} cannot be read as data: {error}") from error


def column_names(
    path: str | os.PathLike[str], label_column: str | None = None
) -> tuple[str, ...] | None:
    """The names of the features; None for lists of numbers that have none."""
    with _opened(path) as file:
        return FeatureColumns.of(file.schema_arrow, label_column or "label").names


def declared_labels(path: str | os.PathLike[str]) -> Literal["names", "ids"] | None:
    """Whether the file lists its labels, or says how many there are so that integers are ids."""
    with _opened(path) as file:
        said = said_by(file.schema_arrow)
    if said.get("label_names") is not None:
        return "names"
    return "ids" if said.get("label_count") else None


def label_values(path: str | os.PathLike[str], label_column: str | None = None) -> tuple[str, ...]:
    """The values that occur as labels, read from their column alone and a piece at a time."""
    pa = import_pyarrow()
    found: dict[str, None] = {}
    try:
        with _opened(path) as file:
            column = Layout.of(file.schema_arrow, None, label_column or "label").target_column
            for group in range(file.num_row_groups):
                values = whole_column(file.read_row_group(group, [column]), column)
                if pa.types.is_list(values.type) or pa.types.is_large_list(values.type):
                    values = values.flatten()
                found |= dict.fromkeys(labels_of(values.unique(), column, None).names)
    except ValueError as error:
        raise ValueError(f"{os.fspath(path)} cannot be read as data: {error}") from error
    return tuple(found)


def row_count(path: str | os.PathLike[str]) -> int:
    """How many rows a file has, as its footer says."""
    with _opened(path) as file:
        return int(file.metadata.num_rows)


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[Any]:
    """An open file, whose errors are one line."""
    pa = import_pyarrow()
    try:
        with pa.parquet.ParquetFile(path) as file:
            yield file
    except (pa.ArrowException, OSError) as error:
        if isinstance(error, FileNotFoundError | PermissionError | IsADirectoryError):
            raise
        raise ValueError(one_line(error)) from error


def write(data: Dataset, path: str | os.PathLike[str], row_group_rows: int | None = None) -> None:
    """Write a data set, all or nothing; the metric is not held: ``metric.save(path)``.

    Args:
        data: the data set.
        path: the file.
        row_group_rows: rows that are read together; by default about 8 MiB of features.
    """
    pa = import_pyarrow()
    said = {
        "format": FORMAT,
        "label_names": data.label_names,
        "label_count": data.label_count,
        "feature_names": data.feature_names,
        "name": data.name,
        "provenance": data.provenance,
    }
    columns = {"features": _fixed_lists(data.features), **_target_columns(data.target)}
    if data.parts:
        part = np.full(len(data), None, dtype=object)
        for name, rows in data.parts.items():
            part[rows.numpy()] = name
        columns["part"] = pa.array(part, pa.string())
    if data.groups is not None:
        columns["group"] = pa.array(data.groups.numpy())
    table = pa.table(columns).replace_schema_metadata({METADATA_KEY: json.dumps(said)})
    wide = data.features.shape[1] * data.features.element_size()
    together = row_group_rows or max(1, _ROW_GROUP_BYTES // wide)
    with replacing(path) as temporary:
        # Floats hardly compress; a dictionary of them costs time and saves nothing.
        pa.parquet.write_table(
            table,
            temporary,
            row_group_size=together,
            compression="zstd",
            use_dictionary=[name for name in ("label", "part") if name in columns],
        )


def _fixed_lists(rows: Tensor) -> Any:
    pa = import_pyarrow()
    flat = pa.array(rows.contiguous().reshape(-1).numpy())
    return pa.FixedSizeListArray.from_arrays(flat, rows.shape[1])


def _target_columns(target: Target) -> dict[str, Any]:
    pa = import_pyarrow()
    if not isinstance(target, SparseTarget):
        if target.dim() == 1:
            return {"label": pa.array(target.numpy())}
        return {"weights": _fixed_lists(target)}
    counts, labels, weights = to_lists(target)
    offsets = pa.array(np.concatenate([[0], np.cumsum(counts)]).astype(np.int32))
    return {
        "labels": pa.ListArray.from_arrays(offsets, pa.array(labels.astype(np.int32))),
        "weights": pa.ListArray.from_arrays(offsets, pa.array(weights)),
    }
