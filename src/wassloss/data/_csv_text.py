"""The columns of a CSV file as text, and their conversion to numbers and labels.

Every column is read as text and converted explicitly, so that nothing is guessed and errors quote
the file. Arrow parses; Python's own ``csv``, which is stricter and counts lines, finds the place of
an error and checks files with quotes.
"""

from __future__ import annotations

import csv
import dataclasses
import os
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wassloss.data._arrow import import_pyarrow, one_line
from wassloss.data.columns import DataWarning
from wassloss.data.layout import Layout, find_layout

if TYPE_CHECKING:
    import pyarrow as pa

SEPARATOR = ";"


def read_header(path: str | os.PathLike[str]) -> list[str]:
    """The words of the first line."""
    _, words = next(_rows(path), (1, []))
    return [word.strip() for word in words]


def is_data(first: list[str]) -> bool:
    """Whether a first line is data rather than the names of columns."""
    if not first or any(as_number(word) is None for word in first):
        return False
    if first == [str(i) for i in range(len(first))]:
        raise ValueError(
            f"line 1 is {', '.join(first[:4])}{', ...' if len(first) > 4 else ''}: are these names "
            "of columns or data? give the columns names that are not numbers, or remove the line"
        )
    return True


class Text(NamedTuple):
    """A file's columns as text; conversions name the line, the column and the word they refuse."""

    path: str
    words: pa.Table
    named: bool  # whether the file has a header; otherwise columns are called 0, 1, ...

    def label(self, given: str | None, default: str | None) -> str:
        """The name of the label's column; empty for none, in a file without a header."""
        if self.named:
            return given or "label"
        position = default if given is None else given
        if position is None:
            return ""
        width = self.words.num_columns
        if not position.removeprefix("-").isdecimal() or not -width <= int(position) < width:
            raise ValueError(
                f"it has no header: label_column must be a position in 0..{width - 1}, or -1 for "
                f"the last, got {position!r}"
            )
        return str(int(position) % width)

    def warn_of_positions(self, label: str) -> None:
        if self.named:
            return
        last = label == self.words.column_names[-1]
        which = f", and {'the last, ' if last else ''}{label}{',' if last else ''} is the label"
        warnings.warn(
            f"{self.path} has no header: columns go by position{which if label else ''}",
            DataWarning,
            stacklevel=2,
        )

    def layout(
        self,
        label_names: tuple[str, ...] | None,
        label: str,
        wanted: tuple[str, ...] | None,
        labelled: bool,
    ) -> Layout:
        by_name = wanted if self.named else None
        found = find_layout(self.words.schema, label_names, label, by_name, labelled)
        if self.named:
            return found
        if wanted is not None and len(wanted) != len(found.feature_columns):
            raise ValueError(
                f"it must have {len(wanted)} columns of features, got {len(found.feature_columns)}"
            )
        return dataclasses.replace(found, feature_names=None)

    def place(self, row: int) -> str:
        rows = _rows(self.path)
        for _ in range(row + self.named):
            next(rows)
        return f"line {next(rows)[0]}"

    def wrong(self, row: int, column: str, expected: str) -> ValueError:
        got = self.words[column][row].as_py()
        return ValueError(f"{self.place(row)}, column {column!r}: expected {expected}, got {got!r}")

    def floats(self, column: str) -> NDArray[np.float32]:
        values, bad = _as_floats(self.words[column])
        if bad is not None:
            raise self.wrong(bad, column, "a number")
        with np.errstate(over="ignore"):  # checked below
            narrow = values.astype(np.float32)
        if not np.isfinite(narrow).all():
            row = int(np.flatnonzero(~np.isfinite(narrow))[0])
            large = np.isfinite(values[row])
            expected = "a number that fits float32" if large else "a finite number"
            raise self.wrong(row, column, expected)
        return narrow

    def integers(self, column: str) -> NDArray[np.int64]:
        words = self.words[column].to_pylist()
        for row, word in enumerate(words):
            if not word.removeprefix("-").isdecimal():
                raise self.wrong(row, column, "an integer")
        return np.array([int(word) for word in words], dtype=np.int64)

    def labels(self, column: str) -> Any:
        """Labels, or lists of them in the column ``labels``."""
        found = self.lists(column) if column == "labels" else self.words[column].to_pylist()
        for row, labels in enumerate(found):
            if not labels or ("" in labels and column == "labels"):
                raise self.wrong(row, column, "a label")
        return found

    def weights(self, labels: list[list[str]]) -> Any:
        """A number for each label."""
        lists = self.lists("weights")
        for row, (weights, own) in enumerate(zip(lists, labels, strict=True)):
            if len(weights) != len(own) or any(as_number(word) is None for word in weights):
                raise self.wrong(row, "weights", f"{len(own)} numbers, as labels has")
        pa = import_pyarrow()
        return pa.array([list(map(float, words)) for words in lists], pa.list_(pa.float32()))

    def lists(self, column: str) -> list[list[str]]:
        texts = self.words[column].to_pylist()
        return [[word.strip() for word in text.split(SEPARATOR)] for text in texts]


def read_text(path: str | os.PathLike[str]) -> Text:
    """Read all columns as text, without outer blanks."""
    pa = import_pyarrow()
    header = read_header(path)
    if not header:
        raise ValueError("it is empty")
    content = Path(path).read_bytes() + b"\n"  # Arrow needs one after a single line
    if b'"' in content:
        _check_rows(path, len(header))  # Arrow reads on to the end of the file after a lost quote
    try:
        found = pa.csv.read_csv(
            pa.BufferReader(content),
            read_options=pa.csv.ReadOptions(
                autogenerate_column_names=True,
                block_size=min(len(content), 2**30),  # rows may be wide
            ),
            parse_options=pa.csv.ParseOptions(newlines_in_values=True),
            convert_options=pa.csv.ConvertOptions(
                column_types={f"f{i}": pa.string() for i in range(len(header))},
                strings_can_be_null=False,
            ),
        )
    except pa.ArrowInvalid as error:
        _check_rows(path, len(header))  # says where
        raise ValueError(one_line(error)) from error
    named = not is_data(header)
    names = header if named else [str(i) for i in range(len(header))]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"line 1: the column {twice!r} occurs twice")
    words = {
        name: pa.compute.utf8_trim_whitespace(column)
        for name, column in zip(names, found.slice(int(named)).columns, strict=True)
    }
    if not found.num_rows - named:
        raise ValueError("it has a header and no rows")
    return Text(os.fspath(path), pa.table(words), named)


def _rows(path: str | os.PathLike[str]) -> Iterator[tuple[int, list[str]]]:
    """The rows that are not empty, with their line numbers; errors say which line is wrong."""
    with open(path, newline="", encoding="utf-8-sig") as file:
        reader = csv.reader(file, strict=True)
        try:
            for row in reader:
                if row:
                    yield reader.line_num, row
        except csv.Error as error:
            raise ValueError(f"line {reader.line_num}: {error}") from error
        except UnicodeDecodeError as error:
            raise ValueError(f"it is not UTF-8 text: {error}") from error


def _check_rows(path: str | os.PathLike[str], width: int) -> None:
    first = "first line" if is_data(read_header(path)) else "header"
    for line, row in _rows(path):
        if len(row) != width:
            raise ValueError(
                f"line {line}: expected {width} columns, as the {first} has, got {len(row)}"
            )


def _as_floats(words: Any) -> tuple[NDArray[np.float64], int | None]:
    """Words as numbers, and the first word that is not one."""
    pa = import_pyarrow()
    try:
        found: NDArray[np.float64] = words.cast(pa.float64()).to_numpy()
        return found, None
    except pa.ArrowInvalid:  # or a spelling that only Python knows, such as 1_000
        numbers = [as_number(word) for word in words.to_pylist()]
        bad = next((i for i, number in enumerate(numbers) if number is None), None)
        return np.array(numbers, dtype=np.float64), bad


def as_number(text: str) -> float | None:
    """The number that a word spells, or None."""
    try:
        return float(text)
    except ValueError:
        return None
