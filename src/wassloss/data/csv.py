"""Data sets as CSV: a header, one column a feature, and columns that say what each row is.

=============  ===============================================================================
``label``      the class, by name or by number
``labels``     instead of ``label``: several, separated by semicolons
``weights``    beside ``labels``: a number for each, separated by semicolons; without it, the
               labels of a row share a mass of 1
``part``       optional: train, validation, test, ...; empty for rows of no part
``group``      optional: an integer, the same for rows that are variants of each other
anything else  a feature, in the order of the file
=============  ===============================================================================
"""

from __future__ import annotations

import csv
import math
import os
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wassloss._files import replacing
from wassloss.data._parts import part_name
from wassloss.data.labels import read_labels
from wassloss.data.record import Dataset
from wassloss.data.tags import as_sparse, from_lists, to_lists
from wassloss.targets import SparseTarget, Target

_SEPARATOR = ";"


class _Table(NamedTuple):
    header: list[str]
    rows: list[list[str]]
    lines: list[int]

    def column(self, name: str) -> list[str] | None:
        if name not in self.header:
            return None
        at = self.header.index(name)
        return [row[at].strip() for row in self.rows]


def read(
    path: str | os.PathLike[str],
    label_names: tuple[str, ...] | None = None,
    label_column: str = "label",
) -> Dataset:
    """Read a data set.

    Args:
        path: the file.
        label_names: the labels' names, in their order; otherwise those of the file, alphabetically.
        label_column: the column of the class.
    """
    table = _read_table(path)
    if label_column not in table.header and "labels" not in table.header:
        raise ValueError(f"it lacks a column {label_column!r} or 'labels'; {_columns(table)}")
    target, names = _targets(table, label_names, label_column)
    features = _feature_columns(table, label_column)
    parts: dict[str, list[int]] = {}
    for i, name in enumerate(table.column("part") or []):
        if name:
            parts.setdefault(part_name(name), []).append(i)
    return Dataset(
        torch.from_numpy(_features(table, features)),
        target,
        label_names=names,
        parts={name: torch.tensor(rows) for name, rows in parts.items()},
        groups=_groups(table),
    )


def read_features(path: str | os.PathLike[str], label_column: str = "label") -> Tensor:
    """The columns of features alone; rows need not say what they are."""
    table = _read_table(path)
    return torch.from_numpy(_features(table, _feature_columns(table, label_column)))


def write(data: Dataset, path: str | os.PathLike[str]) -> None:
    """Write a data set, all or nothing; the metric, the name and the provenance are not held.

    Numbers are written in full, so that they are read back as they were.
    """
    names = data.label_names or tuple(str(i) for i in range(data.label_count))
    taken = next((name for name in names if _SEPARATOR in name or name != name.strip()), None)
    if taken is not None:
        raise ValueError(
            f"label {taken!r} cannot be written to CSV: it has a {_SEPARATOR!r} or outer blanks"
        )
    classes = not isinstance(data.target, SparseTarget) and data.target.dim() == 1
    target = ["label"] if classes else ["labels", "weights"]
    extra = [*(["part"] if data.parts else []), *(["group"] if data.groups is not None else [])]
    part = [""] * len(data)
    for name, rows in data.parts.items():
        for row in rows.tolist():
            part[row] = name
    said = _written_targets(data, names, classes)
    with replacing(path) as temporary, open(temporary, "x", newline="", encoding="utf-8") as file:
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow([*(f"x{i}" for i in range(data.features.shape[1])), *target, *extra])
        for i, row in enumerate(data.features.numpy()):
            end = [part[i]] if data.parts else []
            end += [str(int(data.groups[i]))] if data.groups is not None else []
            writer.writerow([*(str(value) for value in row), *said[i], *end])


def _written_targets(data: Dataset, names: tuple[str, ...], classes: bool) -> list[list[str]]:
    counts, labels, weights = to_lists(as_sparse(data.target, data.label_count))
    ends = np.cumsum(counts)[:-1]
    lists = zip(np.split(labels, ends), np.split(weights, ends), strict=True)
    if classes:
        return [[names[own[0]]] for own, _ in lists]
    return [
        [_SEPARATOR.join(names[i] for i in own), _SEPARATOR.join(str(w) for w in masses)]
        for own, masses in lists
    ]


def _read_table(path: str | os.PathLike[str]) -> _Table:
    rows: list[list[str]] = []
    lines: list[int] = []
    try:
        with open(path, newline="", encoding="utf-8-sig") as file:
            reader = csv.reader(file, strict=True)
            header = [name.strip() for name in next(reader, [])]
            for row in reader:
                if not row:
                    continue
                if len(row) != len(header):
                    raise ValueError(
                        f"line {reader.line_num}: expected {len(header)} columns, as the header "
                        f"has, got {len(row)}"
                    )
                rows.append(row)
                lines.append(reader.line_num)
    except csv.Error as error:
        raise ValueError(f"line {reader.line_num}: {error}") from error
    except UnicodeDecodeError as error:
        raise ValueError(f"it is not UTF-8 text: {error}") from error
    if not header:
        raise ValueError("it is empty")
    twice = next((name for name in header if header.count(name) > 1), None)
    if twice is not None:
        raise ValueError(f"line 1: the column {twice!r} occurs twice")
    if header and all(_number(name) is not None for name in header):
        raise ValueError("line 1 holds numbers, expected a header with the columns' names")
    if not rows:
        raise ValueError("it has a header and no rows")
    return _Table(header, rows, lines)


def _feature_columns(table: _Table, label_column: str) -> list[int]:
    told = {label_column, "labels", "weights", "part", "group"}
    found = [i for i, name in enumerate(table.header) if name not in told]
    if not found:
        raise ValueError(f"it lacks a column of features; {_columns(table)}")
    return found


def _features(table: _Table, columns: list[int]) -> NDArray[np.float32]:
    features = np.empty((len(table.rows), len(columns)), dtype=np.float32)
    for i, row in enumerate(table.rows):
        try:
            with np.errstate(over="ignore"):  # said better below
                features[i] = [float(row[j]) for j in columns]
        except ValueError:
            at = next(j for j in columns if _number(row[j]) is None)
            raise _wrong(table, i, table.header[at], "a number", row[at]) from None
        if not np.isfinite(features[i]).all():
            at = columns[int(np.flatnonzero(~np.isfinite(features[i]))[0])]
            large = math.isfinite(float(row[at]))
            expected = "a number that fits float32" if large else "a finite number"
            raise _wrong(table, i, table.header[at], expected, row[at])
    return features


def _targets(
    table: _Table, label_names: tuple[str, ...] | None, label_column: str
) -> tuple[Target, tuple[str, ...] | None]:
    single = table.column(label_column)
    lists = [[word] for word in single] if single is not None else _lists(table, "labels")
    for i, words in enumerate(lists):
        if not words or not all(words):
            column = "labels" if single is None else label_column
            raise _wrong(table, i, column, "a label", table.rows[i][table.header.index(column)])
    counts = np.array([len(words) for words in lists])
    where = [f"line {table.lines[i]}" for i in np.repeat(np.arange(len(lists)), counts)]
    ids, names = read_labels(_flat(lists), label_names, where)
    bad = np.flatnonzero((ids < 0) | (ids >= (len(names) if names else ids.max() + 1)))
    if len(bad):
        known = f" below {len(names)}" if names else ""
        raise ValueError(f"{where[bad[0]]}: expected a label number{known}, got {ids[bad[0]]}")
    if single is not None:
        return torch.from_numpy(ids), names
    return from_lists(counts, ids, _weights(table, counts)), names


def _weights(table: _Table, counts: NDArray[Any]) -> NDArray[np.float32] | None:
    if "weights" not in table.header:
        return None
    lists = _lists(table, "weights")
    for i, words in enumerate(lists):
        if len(words) != counts[i] or any(_number(word) is None for word in words):
            text = table.rows[i][table.header.index("weights")]
            raise _wrong(table, i, "weights", f"{counts[i]} numbers, as labels has", text)
    return np.array([float(word) for word in _flat(lists)], dtype=np.float32)


def _groups(table: _Table) -> Tensor | None:
    column = table.column("group")
    if column is None:
        return None
    for i, word in enumerate(column):
        if not word.removeprefix("-").isdecimal():
            raise _wrong(table, i, "group", "an integer", word)
    return torch.tensor([int(word) for word in column])


def _lists(table: _Table, column: str) -> list[list[str]]:
    return [[w.strip() for w in t.split(_SEPARATOR)] for t in table.column(column) or []]


def _flat(lists: Iterable[list[str]]) -> list[str]:
    return [word for words in lists for word in words]


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def _wrong(table: _Table, row: int, column: str, expected: str, got: str) -> ValueError:
    return ValueError(
        f"line {table.lines[row]}, column {column!r}: expected {expected}, got {got!r}"
    )


def _columns(table: _Table) -> str:
    shown = ", ".join(table.header[:10]) + (", ..." if len(table.header) > 10 else "")
    return f"it has {shown}"
