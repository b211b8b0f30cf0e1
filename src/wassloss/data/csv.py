"""Data sets as CSV, with the columns that :mod:`wassloss.data.table` describes.

Lists of ``labels`` and ``weights`` are separated by semicolons. A file whose first line is all
numbers has no header: its columns are known by position, which a `DataWarning` says, and the last
one is the label unless ``label_column`` is another position.

Every column is read as text and converted explicitly, so that nothing is guessed, and errors quote
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
from torch import Tensor

from wassloss._files import replacing
from wassloss.data.columns import DataWarning, Description, not_features
from wassloss.data.dataset import Dataset
from wassloss.data.labels import shown
from wassloss.data.ragged import as_sparse, to_lists
from wassloss.data.table import Layout, Loaded, find_layout, import_pyarrow, one_line

if TYPE_CHECKING:
    import pyarrow as pa

_SEPARATOR = ";"


def load(
    path: str | os.PathLike[str],
    label_names: tuple[str, ...] | None = None,
    label_column: str | None = None,
    feature_names: tuple[str, ...] | None = None,
    labelled: bool = True,
) -> Loaded:
    """Read a file; features become float32.

    Without a header and labels, all columns are features except for ``label_column``.
    """
    text = _read_text(path)
    names = text.words.column_names
    label = text.label(label_column, "-1" if labelled else None)
    if labelled and label not in names and "labels" not in names:
        hint = "say which one has the label with label_column (--label-column)"
        if any(_as_number(name) is not None for name in names):
            hint = "if line 1 is data, put a line with the columns' names before it"
        raise ValueError(
            f"it lacks a column {label!r} or 'labels'; it has {shown(names, 10)}; {hint}"
        )
    text.warn_of_positions(label)
    layout = text.layout(label_names, label, feature_names, labelled)
    columns: dict[str, Any] = {name: text.floats(name) for name in layout.feature_columns}
    if layout.target_column is not None:
        columns[layout.target_column] = text.labels(layout.target_column)
    if layout.weighted:
        columns["weights"] = text.weights(columns["labels"])
    for name in layout.about_rows:
        columns[name] = text.integers(name) if name == "group" else text.words[name]
    return Loaded(import_pyarrow().table(columns), layout, text.place)


def describe(path: str | os.PathLike[str], label_column: str | None = None) -> Description:
    """The names of the features, if there is a header; labels are the values that occur."""
    header = read_header(path)
    if is_data(header):
        return Description(None, None)
    reserved = not_features(label_column or "label")
    return Description(tuple(name for name in header if name not in reserved), None)


def read_header(path: str | os.PathLike[str]) -> list[str]:
    """The words of the first line."""
    _, words = next(_rows(path), (1, []))
    return [word.strip() for word in words]


def is_data(first: list[str]) -> bool:
    """Whether a first line is data rather than the names of columns."""
    if not first or any(_as_number(word) is None for word in first):
        return False
    if first == [str(i) for i in range(len(first))]:
        raise ValueError(
            f"line 1 is {', '.join(first[:4])}{', ...' if len(first) > 4 else ''}: are these names "
            "of columns or data? give the columns names that are not numbers, or remove the line"
        )
    return True


class _Text(NamedTuple):
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
        """Labels, or lists of them."""
        lists = self.lists(column)
        for row, labels in enumerate(lists):
            if not all(labels):
                raise self.wrong(row, column, "a label")
        return lists if column == "labels" else self.words[column]

    def weights(self, labels: list[list[str]]) -> Any:
        """A number for each label."""
        lists = self.lists("weights")
        for row, (weights, own) in enumerate(zip(lists, labels, strict=True)):
            if len(weights) != len(own) or any(_as_number(word) is None for word in weights):
                raise self.wrong(row, "weights", f"{len(own)} numbers, as labels has")
        pa = import_pyarrow()
        return pa.array([list(map(float, words)) for words in lists], pa.list_(pa.float32()))

    def lists(self, column: str) -> list[list[str]]:
        texts = self.words[column].to_pylist()
        return [[word.strip() for word in text.split(_SEPARATOR)] for text in texts]


def _read_text(path: str | os.PathLike[str]) -> _Text:
    """All columns as text without outer blanks."""
    pa = import_pyarrow()
    header = read_header(path)
    if not header:
        raise ValueError("it is empty")
    content = Path(path).read_bytes()
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
    return _Text(os.fspath(path), pa.table(words), named)


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
        numbers = [_as_number(word) for word in words.to_pylist()]
        bad = next((i for i, number in enumerate(numbers) if number is None), None)
        return np.array(numbers, dtype=np.float64), bad


def _as_number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def write(data: Dataset, path: str | os.PathLike[str]) -> None:
    """Write a data set, all or nothing, without its metric, name and provenance.

    Numbers are written in full, so that they are read back unchanged.
    """
    pa = import_pyarrow()
    names = data.label_names or tuple(str(i) for i in range(data.label_count))
    bad = next((name for name in names if _SEPARATOR in name or name != name.strip()), None)
    if bad is not None:
        raise ValueError(
            f"label {bad!r} cannot be written to CSV: it has a {_SEPARATOR!r} or outer blanks"
        )
    features = data.feature_names or tuple(f"x{i}" for i in range(data.features.shape[1]))
    bad = next((n for n in features if n in not_features("label") or n != n.strip()), None)
    if bad is not None:
        raise ValueError(
            f"feature {bad!r} cannot be written to CSV: it has outer blanks, or the name of a "
            "column that is not a feature"
        )
    wide = data.features.float() if data.features.element_size() == 2 else data.features
    columns: dict[str, Any] = dict(zip(features, wide.numpy().T, strict=True))
    counts, labels, weights = to_lists(as_sparse(data.target, data.label_count))
    words = [names[i] for i in labels]
    if isinstance(data.target, Tensor) and data.target.dim() == 1:
        columns["label"] = words
    else:
        columns["labels"] = _joined(words, counts)
        columns["weights"] = _joined([str(weight) for weight in weights], counts)
    if data.parts:
        part = np.full(len(data), "", dtype=object)
        for name, rows in data.parts.items():
            part[rows.numpy()] = name
        columns["part"] = part
    if data.groups is not None:
        columns["group"] = data.groups.numpy()
    with replacing(path) as temporary:
        pa.csv.write_csv(pa.table(columns), temporary, pa.csv.WriteOptions(quoting_style="needed"))


def _joined(words: list[str], counts: NDArray[Any]) -> list[str]:
    ends = np.cumsum(counts).tolist()
    return [_SEPARATOR.join(words[end - n : end]) for n, end in zip(counts, ends, strict=True)]
