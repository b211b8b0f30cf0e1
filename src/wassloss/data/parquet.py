"""Data sets as Parquet; docs/data.md says which columns there are."""

from __future__ import annotations

import dataclasses
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from wassloss._files import replacing
from wassloss.data._arrow import import_pyarrow, is_number, named_errors, one_line
from wassloss.data._inputs import KNOWN_PARTS, part_name
from wassloss.data.dataset import Dataset
from wassloss.data.ragged import to_lists
from wassloss.data.raw_table import RawTable
from wassloss.data.table import (
    FORMAT,
    METADATA_KEY,
    Layout,
    Table,
    Wanted,
    feature_order,
    find_layout,
)
from wassloss.targets import SparseTarget, Target

if TYPE_CHECKING:
    import pyarrow as pa
    import pyarrow.dataset as ds

_ROW_GROUP_BYTES = 8 << 20  # of features: small enough to shuffle, large enough to read fast


def open_file(
    path: str | os.PathLike[str], wanted: Wanted, part: str | None = None
) -> tuple[ds.ParquetFileFragment, Layout]:
    """A file whose row groups are read when they are asked for, and what its columns mean."""
    pa = import_pyarrow()
    file = pa.dataset.ParquetFileFormat().make_fragment(os.fspath(path), pa.fs.LocalFileSystem())
    file.ensure_complete_metadata()
    layout = find_layout(file.physical_schema, wanted)
    if part is not None and layout.part is None:
        raise ValueError(f"it has no column 'part' to find {part!r} in")
    return file, layout


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


def load(path: str | os.PathLike[str], wanted: Wanted) -> dict[str, Any]:
    """Read the fields of a data set: a file, or those of a folder as one table.

    ``wassloss.data.ParquetStream`` reads them in batches.
    """
    files = expanded(path)
    tables, layouts = [], list[Layout]()
    try:
        for file in files:
            with named_errors(file) if Path(path).is_dir() else nullcontext():
                opened, layout = open_file(file, wanted)
                layouts.append(layout)
                check_alike(files[0], layouts[0], file, layout)
                tables.append(opened.to_table(columns=layouts[0].all_columns))
        rows = import_pyarrow().concat_tables(tables, promote_options="permissive")
    except MemoryError as error:
        raise MemoryError(
            f"{os.fspath(path)} does not fit into memory ({one_line(error)}); "
            "wassloss.data.ParquetStream reads it in batches"
        ) from error
    if rows.num_rows == 0:
        raise ValueError("it has no rows")
    return Table(rows, layouts[0]).fields()


def check_alike(
    first: str | os.PathLike[str], layout: Layout, path: str | os.PathLike[str], other: Layout
) -> None:
    """All files of a folder must keep the same things in the same columns, in any order."""
    same = ("feature_names", "target_column", "weighted", "label_names", "label_count")
    differing = [what for what in same if getattr(layout, what) != getattr(other, what)]
    if set(layout.feature_columns) != set(other.feature_columns):
        differing.insert(0, "feature_columns")
    if differing:
        raise ValueError(
            f"{os.fspath(path)} must have the {differing[0].replace('_', ' ')} of "
            f"{os.fspath(first)}, but they differ"
        )


def columns(source: str | os.PathLike[str], names: Sequence[str]) -> pa.Table:
    """Some columns of a file, or of the files of a folder in the order of their names."""
    files = import_pyarrow().dataset.dataset([os.fspath(path) for path in expanded(source)])
    feature_order(files.schema.names, names)
    return files.to_table(columns=list(names))


def column_names(path: str | os.PathLike[str]) -> list[str]:
    """The names of the columns."""
    return list(import_pyarrow().parquet.read_schema(path).names)


def lists_labels(path: str | os.PathLike[str]) -> str | None:
    """Whether the file, or the first of a folder, lists or counts its labels."""
    _, layout = open_file(expanded(path)[0], Wanted(labelled=False))
    listed = "names" if layout.label_names is not None else "ids"
    return listed if layout.ids else None


def to_stream(layout: Layout, schema: pa.Schema) -> Layout:
    """The layout of a table that is read in pieces, none of which can say what columns become."""
    if layout.lists or layout.raw is not None:
        return layout
    for name in layout.feature_columns:
        if not is_number(kind := schema.field(name).type):
            raise ValueError(
                f"column {name!r} must hold numbers to be streamed, got {kind}: drop it, or read "
                "the file into memory"
            )
    return dataclasses.replace(layout, raw=RawTable.of_numbers(layout.feature_columns, 0))


def feature_batches(
    source: str | os.PathLike[str], rows: int, part: str | None, wanted: Wanted
) -> Iterator[tuple[list[int], Tensor]]:
    """Row numbers and features of one part or all, at most ``rows`` at a time.

    Rows are numbered across the files of a folder, in the order of their names.
    """
    start, found = 0, False
    for path in expanded(source):
        with named_errors(path):
            file, layout = open_file(path, wanted, part)
            used = [*layout.feature_columns, *(["part"] if part is not None else [])]
            for batch in file.to_batches(columns=used, batch_size=rows, batch_readahead=1):
                table = import_pyarrow().Table.from_batches([batch])
                numbers = np.arange(start, start + len(batch))
                start += len(batch)
                if part is not None:
                    inside = in_part(table["part"], part)
                    table, numbers = table.filter(inside), numbers[inside.to_numpy()]
                if len(numbers):
                    found = True
                    place = partial(_place, numbers)
                    read = Table(table, layout, place)
                    yield numbers.tolist(), read.features(read.raw())
    if not found:
        which = "rows" if part is None else f"rows of the part {part!r}"
        raise ValueError(f"{os.fspath(source)} must have {which}, got none")


def _place(numbers: NDArray[Any], row: int) -> str:
    return f"row {numbers[row]}"


def in_part(column: Any, part: str) -> Any:
    """Which rows belong to a part: of an Arrow column, or as an expression to filter by."""
    pa = import_pyarrow()
    wanted = part_name(part)
    found = pa.compute.utf8_trim_whitespace(column.cast(pa.string()))
    return pa.compute.equal(
        pa.compute.utf8_lower(found) if wanted in KNOWN_PARTS else found, wanted
    )


def write(data: Dataset, path: str | os.PathLike[str]) -> None:
    """Write a data set, all or nothing, without its metric: use ``metric.save(path)``."""
    pa = import_pyarrow()
    names = ("label_names", "label_count", "feature_names", "name", "provenance")
    said = {"format": FORMAT, **{name: getattr(data, name) for name in names}}
    columns = {"features": _fixed_lists(data.features), **_target_columns(data.target)}
    if data.parts:
        columns["part"] = pa.array(_part_column(data.parts, len(data)), pa.string())
    if data.groups is not None:
        columns["group"] = pa.array(data.groups.numpy())
    table = pa.table(columns).replace_schema_metadata({METADATA_KEY: json.dumps(said)})
    wide = data.features.shape[1] * data.features.element_size()
    with replacing(path) as temporary:
        # Floats hardly compress; a dictionary of them costs time and saves nothing.
        pa.parquet.write_table(
            table,
            temporary,
            row_group_size=max(1, _ROW_GROUP_BYTES // wide),
            compression="zstd",
            use_dictionary=[name for name in ("label", "part") if name in columns],
        )


def _part_column(parts: Mapping[str, Tensor], n: int) -> NDArray[Any]:
    """The name of each row's part; None for rows of no part."""
    column = np.full(n, None, dtype=object)
    for name, rows in parts.items():
        column[rows.numpy()] = name
    return column


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
