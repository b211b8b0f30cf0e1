"""Data sets read from CSV, with or without a header; docs/data.md says which columns there are.

Every column is read as text, so that labels and categories stay as they are written, and converted
if all of it are numbers. Arrow parses; Python's own ``csv``, which is stricter and counts lines,
finds the place of an error and checks files with quotes.
"""

from __future__ import annotations

import csv
import os
from collections.abc import Iterator, Sequence
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

from wassloss.data._arrow import cleaned, import_pyarrow, one_line, warn, whole
from wassloss.data.table import Table, Wanted, feature_order, find_layout

if TYPE_CHECKING:
    import pyarrow as pa

_SEPARATOR = ";"


def load(path: str | os.PathLike[str], wanted: Wanted) -> dict[str, Any]:
    """Read the fields of a data set; features become float64."""
    words, named = _read_text(path)
    if not named:
        words, wanted = _by_position(path, words, wanted)
    layout = find_layout(words.schema, wanted)
    categories = set()
    if layout.raw is not None:
        pairs = zip(layout.raw.columns, layout.feature_columns, strict=True)
        categories = {name for column, name in pairs if column.kind == "category"}
    rows = {name: whole(words[name]) for name in layout.all_columns}
    for name in layout.feature_columns:
        rows[name] = _typed(rows[name], keep=name in categories)
    if layout.target_column == "labels":
        rows["labels"] = _lists(rows["labels"])
    if layout.weighted:
        rows["weights"] = _lists(rows["weights"], numbers=True)
    if layout.group is not None:
        rows[layout.group] = _typed(rows[layout.group], keep=False, kind="int64")

    def place(row: int) -> str:
        return f"line {next(islice(_rows(path), row + named, None))[0]}"

    return Table(import_pyarrow().table(rows), layout, place).fields()


def _by_position(
    path: str | os.PathLike[str], words: pa.Table, wanted: Wanted
) -> tuple[pa.Table, Wanted]:
    """A table without a header, as one whose columns are named 0, 1, …, and ``label``.

    If a model takes columns of other names, these go by position, too.
    """
    width = words.num_columns
    trained = [] if wanted.raw is None else [column.name for column in wanted.raw.columns]
    label = _label_position(width, len(trained), wanted)
    names = [str(i) for i in range(width - (label is not None))]
    if not set(trained) <= set(names):
        if len(trained) != len(names):
            raise ValueError(
                f"it must have {len(trained)} columns of features, as the model was trained on, "
                f"got {len(names)}"
            )
        names = trained
    said = ""
    if label is not None:
        names = [*names[:label], "label", *names[label:]]
        said = f", and {f'the last, {label},' if label == width - 1 else label} is the label"
    warn(f"{os.fspath(path)} has no header: columns go by position{said}")
    return words.rename_columns(names), wanted._replace(label_column=None, usual_label=None)


def _label_position(width: int, trained: int, wanted: Wanted) -> int | None:
    """Where the label is in a table without a header; None if it has features only."""
    if wanted.label_column is None and not wanted.labelled and trained in (0, width):
        return None
    usual = wanted.usual_label or ""
    given = wanted.label_column or (usual if usual.removeprefix("-").isdecimal() else "-1")
    if not given.removeprefix("-").isdecimal() or not -width <= int(given) < width:
        raise ValueError(
            f"it has no header: label_column must be a position in 0..{width - 1}, or -1 for "
            f"the last, got {given!r}"
        )
    return int(given) % width


def _typed(words: pa.Array, keep: bool, kind: str = "float64") -> Any:
    """Text without gaps, or as numbers, booleans or times if all of it is."""
    pa = import_pyarrow()
    words = cleaned(words)
    if keep:
        return words
    if words.null_count == len(words):
        return pa.nulls(len(words))
    found = (_cast(words, each) for each in (kind, "bool", "timestamp[s]", "timestamp[ns]"))
    return next((typed for typed in found if typed is not None), words)


def _cast(words: pa.Array, kind: str) -> Any:
    """Words as another type; None if some are not."""
    try:
        return words.cast(kind)
    except import_pyarrow().ArrowInvalid:
        return None


def _lists(words: pa.Array, numbers: bool = False) -> Any:
    """Labels or weights, separated."""
    pa = import_pyarrow()
    lists = pa.compute.split_pattern(words, _SEPARATOR)
    inside = cleaned(lists.values, ("",))
    if numbers:
        typed = _typed(inside, keep=False)
        inside = typed.cast(pa.float32()) if typed.type == pa.float64() else inside
    return pa.ListArray.from_arrays(lists.offsets, inside)


def _read_text(path: str | os.PathLike[str]) -> tuple[pa.Table, bool]:
    """All columns as text, and whether they have names."""
    pa = import_pyarrow()
    header = _read_header(path)
    if not header:
        raise ValueError("it is empty")
    content = Path(path).read_bytes() + b"\n"  # Arrow needs one after a single line
    if b'"' in content:
        _check_rows(path, len(header))  # Arrow reads on to the end of the file after a lost quote
    # A copy that Arrow owns: its threads may free what they read while the interpreter exits, and
    # a thread that then waits for Python, as it must to free bytes, aborts the process.
    copy = pa.BufferOutputStream()
    copy.write(content)
    try:
        found = pa.csv.read_csv(
            pa.BufferReader(copy.getvalue()),
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
    return found.slice(int(named)).rename_columns(names), named


def columns(path: str | os.PathLike[str], names: Sequence[str]) -> pa.Table:
    """Some columns as they are written."""
    words, _ = _read_text(path)
    feature_order(words.column_names, names)
    return words.select(names)


def column_names(path: str | os.PathLike[str]) -> list[str]:
    """The names in the first line; none if it is data."""
    header = _read_header(path)
    return [] if _is_data(header) else header


def _read_header(path: str | os.PathLike[str]) -> list[str]:
    """The words of the first line."""
    _, words = next(_rows(path), (1, []))
    return [word.strip() for word in words]


def _is_data(first: list[str]) -> bool:
    """Whether a first line is data rather than the names of columns."""
    try:
        _ = [float(word) for word in first]
    except ValueError:
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
