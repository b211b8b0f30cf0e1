"""Data sets as CSV, with or without a header; docs/data.md says which columns there are.

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
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wassloss._files import replacing
from wassloss.data._arrow import import_pyarrow, one_line
from wassloss.data._inputs import part_column
from wassloss.data.dataset import Dataset
from wassloss.data.labels import shown
from wassloss.data.ragged import as_sparse, to_lists
from wassloss.data.table import (
    DataWarning,
    Description,
    Table,
    Wanted,
    find_layout,
    not_features,
    whole,
)
from wassloss.targets import is_class_ids

if TYPE_CHECKING:
    import pyarrow as pa

_SEPARATOR = ";"


def load(path: str | os.PathLike[str], wanted: Wanted) -> dict[str, Any]:
    """Read the fields of a data set; features become float32."""
    words, named = _read_text(path)
    names, asked = words.column_names, wanted.feature_names
    label = (wanted.label_column or "label") if named else _label_position(wanted, len(names))
    if wanted.labelled and label not in names and "labels" not in names:
        hint = "say which one has the label with label_column (--label-column)"
        if any(_number(name) is not None for name in names):
            hint = "if line 1 is data, put a line with the columns' names before it"
        raise ValueError(
            f"it lacks a column {label!r} or 'labels'; it has {shown(names, 10)}; {hint}"
        )
    known = wanted._replace(label_column=label, feature_names=asked if named else None)
    layout = find_layout(words.schema, known)
    if not named:
        last = label == names[-1]
        which = f", and {'the last, ' if last else ''}{label}{',' if last else ''} is the label"
        warnings.warn(
            f"{os.fspath(path)} has no header: columns go by position{which if label else ''}",
            DataWarning,
            stacklevel=2,
        )
        width = len(layout.feature_columns)
        if asked is not None and len(asked) != width:
            raise ValueError(f"it must have {len(asked)} columns of features, got {width}")
        layout = dataclasses.replace(layout, feature_names=None)
    used = [*layout.columns, *layout.about_rows]
    typed = {name: _typed(words[name], name, name == layout.target_column) for name in used}

    def place(row: int) -> str:
        return f"line {next(islice(_rows(path), row + named, None))[0]}"

    return Table(import_pyarrow().table(typed), layout, place, words).fields()


def describe(path: str | os.PathLike[str], label_column: str | None) -> Description:
    """The names of the features, if there is a header; labels are the values that occur."""
    header = _read_header(path)
    if _is_data(header):
        return Description(None, unnamed=len(header))
    others = not_features(label_column or "label")
    return Description(tuple(name for name in header if name not in others))


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
    if is_class_ids(data.target):
        columns["label"] = words
    else:
        columns["labels"] = _joined(words, counts)
        columns["weights"] = _joined([str(weight) for weight in weights], counts)
    if data.parts:
        columns["part"] = part_column(data.parts, len(data), "")
    if data.groups is not None:
        columns["group"] = data.groups.numpy()
    with replacing(path) as temporary:
        pa.csv.write_csv(pa.table(columns), temporary, pa.csv.WriteOptions(quoting_style="needed"))


def _label_position(wanted: Wanted, width: int) -> str:
    """The label's column in a file without a header; empty if there is none."""
    if wanted.label_column is None and not wanted.labelled:
        return ""
    position = wanted.label_column or "-1"
    if not position.removeprefix("-").isdecimal() or not -width <= int(position) < width:
        raise ValueError(
            f"it has no header: label_column must be a position in 0..{width - 1}, or -1 for "
            f"the last, got {position!r}"
        )
    return str(int(position) % width)


def _typed(words: pa.ChunkedArray, name: str, is_label: bool) -> Any:
    """A column of numbers, labels, or lists of them; words that are neither become null."""
    pa, column = import_pyarrow(), whole(words)
    if name == "part":
        return column
    if name == "group":
        return _numbers(column, pa.int64(), int)
    if name not in ("labels", "weights"):
        return _labels(column) if is_label else _floats(column)
    lists = pa.compute.split_pattern(column, _SEPARATOR)
    inside = pa.compute.utf8_trim_whitespace(lists.values)
    return pa.ListArray.from_arrays(lists.offsets, (_labels if is_label else _floats)(inside))


def _labels(words: pa.Array) -> Any:
    pa = import_pyarrow()
    return pa.compute.if_else(pa.compute.equal(words, ""), pa.scalar(None, pa.string()), words)


def _floats(words: pa.Array) -> Any:
    pa = import_pyarrow()
    return _numbers(words, pa.float64(), float).cast(pa.float32(), safe=False)


def _numbers(words: pa.Array, kind: pa.DataType, parse: Any) -> Any:
    pa = import_pyarrow()
    try:
        return words.cast(kind)
    except pa.ArrowInvalid:  # Python knows more spellings, such as 1_000
        return pa.array([_number(word, parse) for word in words.to_pylist()], kind)


def _number(word: str, parse: Any = float) -> Any:
    """The number that a word spells, or None."""
    try:
        return parse(word)
    except ValueError:
        return None


def _read_text(path: str | os.PathLike[str]) -> tuple[pa.Table, bool]:
    """All columns as text without outer blanks, and whether they have names."""
    pa = import_pyarrow()
    header = _read_header(path)
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
    named = not _is_data(header)
    names = header if named else [str(i) for i in range(len(header))]
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"line 1: the column {twice!r} occurs twice")
    if not found.num_rows - named:
        raise ValueError("it has a header and no rows")
    trimmed = map(pa.compute.utf8_trim_whitespace, found.slice(int(named)).columns)
    return pa.table(dict(zip(names, trimmed, strict=True))), named


def _read_header(path: str | os.PathLike[str]) -> list[str]:
    """The words of the first line."""
    _, words = next(_rows(path), (1, []))
    return [word.strip() for word in words]


def _is_data(first: list[str]) -> bool:
    """Whether a first line is data rather than the names of columns."""
    if not first or any(_number(word) is None for word in first):
        return False
    if first == [str(i) for i in range(len(first))]:
        raise ValueError(
            f"line 1 is {', '.join(first[:4])}{', ...' if len(first) > 4 else ''}: are these names "
            "of columns or data? give the columns names that are not numbers, or remove the line"
        )
    return True


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
    first = "first line" if _is_data(_read_header(path)) else "header"
    for line, row in _rows(path):
        if len(row) != width:
            raise ValueError(
                f"line {line}: expected {width} columns, as the {first} has, got {len(row)}"
            )


def _joined(words: list[str], counts: NDArray[Any]) -> list[str]:
    ends = np.cumsum(counts).tolist()
    return [_SEPARATOR.join(words[end - n : end]) for n, end in zip(counts, ends, strict=True)]
