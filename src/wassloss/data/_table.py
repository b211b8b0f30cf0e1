"""Rows and columns of text from a CSV file, and whether its first line names the columns."""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple


class Table(NamedTuple):
    """A file's rows, each as wide as its header, and the lines that they stand in."""

    header: list[str]  # positions, where the file has no header
    named: bool
    rows: list[list[str]]
    lines: list[int]

    def column(self, name: str) -> list[str] | None:
        """The words of a column, or None where there is none of the name."""
        if name not in self.header:
            return None
        at = self.header.index(name)
        return [row[at].strip() for row in self.rows]


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[Any]:
    """A reader of lines, whose errors say which line."""
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, strict=True)
            yield reader
    except csv.Error as error:
        raise ValueError(f"line {reader.line_num}: {error}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 text: {error}") from error


def _words(reader: Any) -> list[str]:
    return [word.strip() for word in next(reader, [])]


def is_data(first: list[str]) -> bool:
    """Whether a first line is data rather than the columns' names."""
    if not first or any(as_number(word) is None for word in first):
        return False
    if first == [str(i) for i in range(len(first))]:
        raise ValueError(
            f"line 1 is {', '.join(first[:4])}{', ...' if len(first) > 4 else ''}: are these names "
            "of columns or data? give the columns names that are not numbers, or remove the line"
        )
    return True


def read_header(path: str | os.PathLike[str]) -> list[str]:
    """The words of the first line."""
    with _opened(path) as reader:
        return _words(reader)


def read_table(path: str | os.PathLike[str]) -> Table:
    """All of a file."""
    rows: list[list[str]] = []
    lines: list[int] = []
    with _opened(path) as reader:
        header = _words(reader)
        named = not is_data(header)
        if not named:
            rows.append(header)
            lines.append(reader.line_num)
        for row in reader:
            if not row:
                continue
            if len(row) != len(header):
                raise ValueError(
                    f"line {reader.line_num}: expected {len(header)} columns, as the "
                    f"{'header' if named else 'first line'} has, got {len(row)}"
                )
            rows.append(row)
            lines.append(reader.line_num)
    if not header:
        raise ValueError("it is empty")
    if not named:
        header = [str(i) for i in range(len(header))]
    if len(set(header)) < len(header):
        twice = next(name for name in header if header.count(name) > 1)
        raise ValueError(f"line 1: the column {twice!r} occurs twice")
    if not rows:
        raise ValueError("it has a header and no rows")
    return Table(header, named, rows, lines)


def as_number(text: str) -> float | None:
    """The number that a word is, or None."""
    try:
        return float(text)
    except ValueError:
        return None
