"""Tables in CSV files; docs/data.md says which columns there are.

Every column is read as text, so that labels and categories stay as they are written, and converted
if all of it are numbers. Arrow parses; Python's own ``csv``, which is stricter and counts lines,
finds the place of an error and checks files with quotes.
"""

from __future__ import annotations

import csv
import os
from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wassloss.data._arrow import Values, import_pyarrow
from wassloss.data.labels import number
from wassloss.data.raw_table import RawTable
from wassloss.data.table import Layout

if TYPE_CHECKING:
    import pyarrow as pa

_SEPARATOR = ";"


def converted(words: pa.Table, layout: Layout, raw: RawTable | None) -> pa.Table:
    """The columns that are read, with their types; `raw` knows which are categories."""
    pa = import_pyarrow()
    rows = {name: words[name] for name in layout.columns}
    pairs = zip(raw.columns, layout.features, strict=True) if raw is not None else ()
    categories = {name for column, name in pairs if column.kind == "category"}
    for name in layout.features:
        rows[name] = Values.of(words, name).array
        if name not in categories:
            rows[name] = _typed(rows[name])
    for listed in (layout.weights, "labels" if layout.target == "labels" else None):
        if listed is not None:
            rows[listed] = pa.compute.split_pattern(rows[listed], _SEPARATOR)
    return pa.table(rows)


def line_of(path: str | os.PathLike[str], row: int) -> str:
    """Where a row is in its file."""
    return f"line {next(islice(rows_of(path), row + 1, None))[0]}"


def _typed(words: pa.Array) -> Any:
    """Text as numbers, booleans or times if all of it is; the text itself otherwise."""
    pa = import_pyarrow()
    if words.null_count == len(words):
        return pa.nulls(len(words))
    for kind in ("float64", "bool", "timestamp[s]", "timestamp[ns]"):
        with suppress(pa.ArrowInvalid):
            return words.cast(kind)
    return words


def read_text(path: str | os.PathLike[str]) -> pa.Table:
    """All columns as text."""
    pa, header = import_pyarrow(), _read_header(path)
    content = Path(path).read_bytes()
    if b'"' in content:
        deque(rows_of(path), 0)  # Arrow reads on to the end of the file after a lost quote
    try:
        # By its path: Arrow's threads may free what they read while the interpreter exits, and a
        # thread that then waits for Python, as it must to free bytes, aborts the process.
        found = pa.csv.read_csv(
            os.fspath(path),
            read_options=pa.csv.ReadOptions(
                autogenerate_column_names=True,
                block_size=min(len(content) + 1, 2**30),  # rows may be wide
            ),
            parse_options=pa.csv.ParseOptions(newlines_in_values=True),
            convert_options=pa.csv.ConvertOptions(
                column_types={f"f{i}": pa.string() for i in range(len(header))},
                strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid:
        deque(rows_of(path), 0)  # its error says where
        raise
    return found.slice(1).rename_columns(header)


def _read_header(path: str | os.PathLike[str]) -> list[str]:
    """The names of the columns, in the first line."""
    rows = rows_of(path)
    _, words = next(rows, (1, []))
    names = [word.strip() for word in words]
    if not names:
        raise ValueError("it is empty")
    if None not in [number(name) for name in names]:
        raise ValueError("line 1 holds only numbers: put a line with the columns' names before it")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"line 1: the column {twice!r} occurs twice")
    if next(rows, None) is None:
        raise ValueError("it has a header and no rows")
    return names


def rows_of(path: str | os.PathLike[str]) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not empty, with their line numbers; errors say which line is wrong.

    Every row must have as many words as the first, the header.
    """
    width = 0
    with open(path, newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file, strict=True)
        try:
            for row in filter(None, reader):
                width = width or len(row)
                if len(row) != width:
                    raise ValueError(
                        f"line {reader.line_num}: expected {width} columns, as the header has, got "
                        f"{len(row)}"
                    )
                yield reader.line_num, row
        except csv.Error as error:
            raise ValueError(f"line {reader.line_num}: {error}") from error
        except UnicodeDecodeError as error:
            raise ValueError(f"it is not UTF-8 text: {error}") from error
