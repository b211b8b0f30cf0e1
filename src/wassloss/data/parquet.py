"""Tables in Parquet files, or in a folder of them; docs/data.md says which columns there are."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wassloss.data._arrow import import_pyarrow, named_errors
from wassloss.data.table import Wanted, feature_order, fields, find_layout

if TYPE_CHECKING:
    import pyarrow as pa


def load(path: str | os.PathLike[str], wanted: Wanted) -> dict[str, Any]:
    """Read the fields of a data set: a file, or those of a folder as one table."""
    first = _files(path)[0]
    with named_errors(first):
        names = import_pyarrow().parquet.read_schema(first).names
    layout = find_layout(names, wanted)
    rows = columns(path, layout.columns)
    if rows.num_rows == 0:
        raise ValueError("it has no rows")
    return fields(rows, wanted, layout)


def columns(path: str | os.PathLike[str], names: Sequence[str]) -> pa.Table:
    """Some columns of all rows; files of a folder follow each other in the order of their names."""
    pa, tables = import_pyarrow(), []
    for file in _files(path):
        with named_errors(file):
            feature_order(pa.parquet.read_schema(file).names, names)
            tables.append(pa.parquet.read_table(file, columns=list(names)).select(names))
    return pa.concat_tables(tables, promote_options="permissive")


def _files(path: str | os.PathLike[str]) -> list[Path]:
    place = Path(path)
    files = sorted(place.glob("*.parquet")) if place.is_dir() else [place]
    if not files:
        raise ValueError("it is a folder without Parquet files")
    return files
