"""CSV files as data frames of text, whose errors name the line.

Rows must be as long as the header. Python's ``csv`` parses in strict mode: faster parsers silently
pad or truncate rows of other lengths, and swallow the rest of the file after an unclosed quote.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from itertools import islice
from typing import TYPE_CHECKING

from wassloss.app.labels import number

if TYPE_CHECKING:
    import pandas as pd

_ROWS = 50_000  # rows held as Python strings at once


def read_csv(path: str | os.PathLike[str]) -> pd.DataFrame:
    """Read all columns as text, without leading and trailing whitespace."""
    import pandas as pd

    rows = rows_of(path)
    names = _header(rows)
    pieces = []
    while some := [row for _, row in islice(rows, _ROWS)]:
        words = zip(*some, strict=True)
        columns = {
            name: pd.Series(column, dtype="string").str.strip()
            for name, column in zip(names, words, strict=True)
        }
        pieces.append(pd.DataFrame(columns))
    if not pieces:
        raise ValueError("it has a header and no rows")
    return pd.concat(pieces, ignore_index=True)


def line_of(path: str | os.PathLike[str], row: int) -> str:
    """The line of a row in its file."""
    return f"line {next(islice(rows_of(path), row + 1, None))[0]}"


def rows_of(path: str | os.PathLike[str]) -> Iterator[tuple[int, list[str]]]:
    """Yield the line number and the cells of each row that is not empty."""
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


def _header(rows: Iterator[tuple[int, list[str]]]) -> list[str]:
    """The column names in the first row."""
    _, words = next(rows, (1, []))
    names = [word.strip() for word in words]
    if not names:
        raise ValueError("it is empty")
    for mark, called in ((";", "semicolons"), ("\t", "tabs")):
        if len(names) == 1 and mark in names[0]:
            raise ValueError(f"its columns are separated by {called}: separate them by commas")
    if None not in [number(name) for name in names]:
        raise ValueError("line 1 holds only numbers: put a line of column names before it")
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"line 1: the column {twice!r} occurs twice")
    return names
