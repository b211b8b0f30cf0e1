"""Data sets as CSV: a header, one column a feature, and columns that say what each row is.

=============  ===============================================================================
``label``      the class: a name or a number
``labels``     instead of ``label``: several, separated by semicolons
``weights``    beside ``labels``: a number for each, separated by semicolons; without it, the
               labels of a row share a mass of 1
``part``       optional: train, validation, test, ...; empty for rows of no part
``group``      optional: an integer, the same for rows that are variants of each other
anything else  a feature, in the order of the file
=============  ===============================================================================

A file whose first line is all numbers has no header: its columns go by position, which a
`DataWarning` says, and the last one is the label unless ``label_column`` is another position.
"""

from __future__ import annotations

import csv
import math
import os
import warnings
from collections.abc import Iterable
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wassloss._files import replacing
from wassloss.data._parts import part_name
from wassloss.data._table import Table, as_number, is_data, read_header, read_table
from wassloss.data.columns import DataWarning, feature_order, not_features
from wassloss.data.dataset import Dataset
from wassloss.data.labels import read_labels
from wassloss.data.ragged import as_sparse, from_lists, to_lists
from wassloss.targets import SparseTarget, Target

_SEPARATOR = ";"


def read(
    path: str | os.PathLike[str],
    label_names: tuple[str, ...] | None = None,
    label_column: str | None = None,
    feature_names: tuple[str, ...] | None = None,
) -> Dataset:
    """Read a data set.

    Args:
        path: the file.
        label_names: the labels, in their order; otherwise the values that occur, sorted as numbers
            or else as text.
        label_column: the column of the class, by default ``label``; its position from 0, or from
            -1 backwards, where the file has no header, by default the last.
        feature_names: the columns to read as features; other columns need not be numbers.
    """
    table = read_table(path)
    label = _label_column(table, label_column, "-1")
    if label not in table.header and "labels" not in table.header:
        hint = "say which one has the label with label_column (--label-column)"
        if any(as_number(name) is not None for name in table.header):
            hint = "if line 1 is data, put a line with the columns' names before it"
        raise ValueError(f"it lacks a column {label!r} or 'labels'; {_columns(table)}; {hint}")
    target, names = _targets(table, label_names, label)
    _say_positions(path, table, label)
    columns = _feature_columns(table, label, feature_names)
    parts: dict[str, list[int]] = {}
    for i, name in enumerate(table.column("part") or []):
        if name:
            parts.setdefault(part_name(name), []).append(i)
    return Dataset(
        torch.from_numpy(_features(table, columns)),
        target,
        label_names=names,
        parts={name: torch.tensor(rows) for name, rows in parts.items()},
        groups=_groups(table),
        feature_names=tuple(table.header[i] for i in columns) if table.named else None,
    )


def read_features(
    path: str | os.PathLike[str],
    label_column: str | None = None,
    feature_names: tuple[str, ...] | None = None,
) -> Tensor:
    """The columns of features alone; rows need not say what they are.

    Without a header all columns are features, unless ``label_column`` is the position of one that
    is not.
    """
    table = read_table(path)
    label = _label_column(table, label_column, None)
    _say_positions(path, table, label)
    columns = _feature_columns(table, label, feature_names)
    return torch.from_numpy(_features(table, columns))


def column_names(
    path: str | os.PathLike[str], label_column: str | None = None
) -> tuple[str, ...] | None:
    """The names of the columns of features, or None where the file has no header."""
    header = read_header(path)
    if is_data(header):
        return None
    told = not_features(label_column or "label")
    return tuple(name for name in header if name not in told)


def declared_labels(path: str | os.PathLike[str]) -> None:
    """What the file says of its labels besides using them: nothing, in this format."""


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
    features = data.feature_names or tuple(f"x{i}" for i in range(data.features.shape[1]))
    taken = next((n for n in features if n in not_features("label") or n != n.strip()), None)
    if taken is not None:
        raise ValueError(
            f"feature {taken!r} cannot be written to CSV: it has outer blanks, or the name of a "
            "column that is no feature"
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
        writer.writerow([*features, *target, *extra])
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


def _label_column(table: Table, given: str | None, otherwise: str | None) -> str:
    """The name of the label's column; empty for none, in a file without a header."""
    if table.named:
        return given or "label"
    said = otherwise if given is None else given
    if said is None:
        return ""
    width = len(table.header)
    if not said.removeprefix("-").isdecimal() or not -width <= int(said) < width:
        raise ValueError(
            f"it has no header: label_column must be a position in 0..{width - 1}, or -1 for the "
            f"last, got {said!r}"
        )
    return str(int(said) % width)


def _say_positions(path: str | os.PathLike[str], table: Table, label: str) -> None:
    if table.named:
        return
    last = "the last, " if label == table.header[-1] else ""
    which = f", and {last}{label}, is the label" if last else f", and {label} is the label"
    warnings.warn(
        f"{os.fspath(path)} has no header: columns go by position{which if label else ''}",
        DataWarning,
        stacklevel=2,
    )


def _feature_columns(table: Table, label: str, feature_names: tuple[str, ...] | None) -> list[int]:
    told = not_features(label) if table.named else {label}
    found = [i for i, name in enumerate(table.header) if name not in told]
    if not found:
        raise ValueError(f"it lacks a column of features; {_columns(table)}")
    if feature_names is None:
        return found
    if not table.named:
        if len(found) != len(feature_names):
            raise ValueError(
                f"it must have {len(feature_names)} columns of features, got {len(found)}"
            )
        return found
    return [found[i] for i in feature_order([table.header[i] for i in found], feature_names)]


def _features(table: Table, columns: list[int]) -> NDArray[np.float32]:
    features = np.empty((len(table.rows), len(columns)), dtype=np.float32)
    for i, row in enumerate(table.rows):
        try:
            with np.errstate(over="ignore"):  # said better below
                features[i] = [float(row[j]) for j in columns]
        except ValueError:
            at = next(j for j in columns if as_number(row[j]) is None)
            raise _wrong(table, i, table.header[at], "a number", row[at]) from None
        if not np.isfinite(features[i]).all():
            at = columns[int(np.flatnonzero(~np.isfinite(features[i]))[0])]
            large = math.isfinite(float(row[at]))
            expected = "a number that fits float32" if large else "a finite number"
            raise _wrong(table, i, table.header[at], expected, row[at])
    return features


def _targets(
    table: Table, label_names: tuple[str, ...] | None, label: str
) -> tuple[Target, tuple[str, ...]]:
    single = table.column(label)
    lists = [[word] for word in single] if single is not None else _lists(table, "labels")
    for i, words in enumerate(lists):
        if not words or not all(words):
            column = "labels" if single is None else label
            raise _wrong(table, i, column, "a label", table.rows[i][table.header.index(column)])
    counts = np.array([len(words) for words in lists])
    row_of = np.repeat(np.arange(len(lists)), counts)
    ids, names = read_labels(_flat(lists), label_names, lambda i: f"line {table.lines[row_of[i]]}")
    if single is not None:
        return torch.from_numpy(ids), names
    return from_lists(counts, ids, _weights(table, counts)), names


def _weights(table: Table, counts: NDArray[Any]) -> NDArray[np.float32] | None:
    if "weights" not in table.header:
        return None
    lists = _lists(table, "weights")
    for i, words in enumerate(lists):
        if len(words) != counts[i] or any(as_number(word) is None for word in words):
            text = table.rows[i][table.header.index("weights")]
            raise _wrong(table, i, "weights", f"{counts[i]} numbers, as labels has", text)
    return np.array([float(word) for word in _flat(lists)], dtype=np.float32)


def _groups(table: Table) -> Tensor | None:
    column = table.column("group")
    if column is None:
        return None
    for i, word in enumerate(column):
        if not word.removeprefix("-").isdecimal():
            raise _wrong(table, i, "group", "an integer", word)
    return torch.tensor([int(word) for word in column])


def _lists(table: Table, column: str) -> list[list[str]]:
    return [[w.strip() for w in t.split(_SEPARATOR)] for t in table.column(column) or []]


def _flat(lists: Iterable[list[str]]) -> list[str]:
    return [word for words in lists for word in words]


def _wrong(table: Table, row: int, column: str, expected: str, got: str) -> ValueError:
    return ValueError(
        f"line {table.lines[row]}, column {column!r}: expected {expected}, got {got!r}"
    )


def _columns(table: Table) -> str:
    shown = ", ".join(table.header[:10]) + (", ..." if len(table.header) > 10 else "")
    return f"it has {shown}"
