"""Data sets as Parquet, with the columns that :mod:`wassloss.data.layout` describes.

Files are read by row group, so that those that do not fit into memory can be streamed.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from wassloss._files import replacing
from wassloss.data._arrow import import_pyarrow, is_list, named_errors, one_line
from wassloss.data._parts import KNOWN_PARTS, part_name
from wassloss.data.columns import Description
from wassloss.data.dataset import Dataset
from wassloss.data.layout import FORMAT, METADATA_KEY, Loaded, find_layout, said_by
from wassloss.data.ragged import to_lists
from wassloss.data.table import features_of, labels_of
from wassloss.targets import SparseTarget, Target

if TYPE_CHECKING:
    import pyarrow.dataset as ds

_ROW_GROUP_BYTES = 8 << 20  # of features: small enough to shuffle, large enough to read fast


def open_file(path: str | os.PathLike[str]) -> ds.ParquetFileFragment:
    """A file whose footer is read, and its row groups when they are asked for."""
    pa = import_pyarrow()
    fragment = pa.dataset.ParquetFileFormat().make_fragment(
        os.fspath(path), pa.fs.LocalFileSystem()
    )
    fragment.ensure_complete_metadata()
    return fragment


def expanded(
    paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
) -> list[str | os.PathLike[str]]:
    """The files that ``paths`` names, with folders replaced by the files in them."""
    given = [paths] if isinstance(paths, str | os.PathLike) else list(paths)
    files: list[str | os.PathLike[str]] = []
    for path in given:
        inside = sorted(Path(path).glob("*.parquet")) if Path(path).is_dir() else [path]
        if not inside:
            raise ValueError(f"paths must name Parquet files, but {os.fspath(path)} has none")
        files += inside
    if not files:
        raise ValueError("paths must name at least one file, got none")
    return files


def load(
    path: str | os.PathLike[str],
    label_names: tuple[str, ...] | None = None,
    label_column: str | None = None,
    feature_names: tuple[str, ...] | None = None,
    labelled: bool = True,
) -> Loaded:
    """Read a whole file into memory; ``wassloss.data.ParquetStream`` reads it in batches."""
    file = open_file(path)
    layout = find_layout(file.physical_schema, label_names, label_column, feature_names, labelled)
    about_rows = layout.about_rows if labelled else ()
    try:
        table = file.to_table(columns=[*layout.columns, *about_rows])
    except MemoryError as error:
        raise MemoryError(
            f"{os.fspath(path)} does not fit into memory ({one_line(error)}); "
            "wassloss.data.ParquetStream reads it in batches"
        ) from error
    if table.num_rows == 0:
        raise ValueError("it has no rows")
    return Loaded(table, layout, lambda row: f"row {row}")


def feature_batches(
    path: str | os.PathLike[str],
    rows: int,
    part: str | None = None,
    label_column: str | None = None,
    feature_names: tuple[str, ...] | None = None,
) -> Iterator[tuple[list[int], Tensor]]:
    """The features in pieces of at most ``rows``, of one part or all, with the rows' numbers."""
    with named_errors(path):
        file = open_file(path)
        layout = find_layout(file.physical_schema, None, label_column, feature_names, False)
        if part is not None and "part" not in layout.about_rows:
            raise ValueError(f"it has no column 'part' to find {part!r} in")
        wanted = [*layout.columns, *(["part"] if part is not None else [])]
        start = 0
        for batch in file.to_batches(columns=wanted, batch_size=rows, batch_readahead=1):
            table = import_pyarrow().Table.from_batches([batch])
            numbers = np.arange(start, start + len(batch))
            start += len(batch)
            if part is not None:
                own = in_part(table["part"], part)
                table, numbers = table.filter(own), numbers[own.to_numpy()]
            if len(numbers):
                yield numbers.tolist(), features_of(table, layout)


def in_part(column: Any, part: str) -> Any:
    """Which rows belong to a part: of an Arrow column, or as an expression to filter by."""
    pa = import_pyarrow()
    wanted = part_name(part)
    found = pa.compute.utf8_trim_whitespace(column.cast(pa.string()))
    return pa.compute.equal(
        pa.compute.utf8_lower(found) if wanted in KNOWN_PARTS else found, wanted
    )


def describe(path: str | os.PathLike[str], label_column: str | None = None) -> Description:
    """The names of the features, and whether the file lists or counts its labels."""
    schema = open_file(path).physical_schema
    said = said_by(schema)
    names = find_layout(schema, None, label_column, labelled=False).feature_names
    if said.get("label_names") is not None:
        return Description(names, "names")
    return Description(names, "ids" if said.get("label_count") else None)


def label_values(path: str | os.PathLike[str], label_column: str | None = None) -> tuple[str, ...]:
    """The values that occur as labels, read from their column alone, a piece at a time."""
    found: dict[str, None] = {}
    with named_errors(path):
        file = open_file(path)
        column = find_layout(file.physical_schema, None, label_column).target_column or "label"
        for batch in file.to_batches(columns=[column], batch_readahead=1):
            values = batch[column].flatten() if is_list(batch[column].type) else batch[column]
            found |= dict.fromkeys(labels_of(values.unique(), column, None).names)
    return tuple(found)


def part_names(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """The names of the parts in a file, in the order of their first rows."""
    file = open_file(path)
    if "part" not in file.physical_schema.names:
        return ()
    found: dict[str, None] = {}
    for batch in file.to_batches(columns=["part"], batch_readahead=1):
        found |= dict.fromkeys(part_name(v) for v in batch["part"].unique().to_pylist() if v)
    return tuple(found)


def row_count(path: str | os.PathLike[str]) -> int:
    """The number of rows, from the file's footer."""
    return int(open_file(path).metadata.num_rows)


def write(data: Dataset, path: str | os.PathLike[str], row_group_rows: int | None = None) -> None:
    """Write a data set, all or nothing, without its metric: use ``metric.save(path)``.

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
        part: NDArray[Any] = np.full(len(data), None, dtype=object)
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
