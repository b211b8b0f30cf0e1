"""Ground metrics from the files people have: taxonomies, tables of distances or costs."""

from __future__ import annotations

import csv
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wassloss._files import read_npz
from wassloss.ground._cost import Scale
from wassloss.ground.cost import Cost
from wassloss.ground.matrix import Matrix
from wassloss.ground.tree import Tree


def read_names(path: str | os.PathLike[str]) -> tuple[str, ...]:
    """Names in a text file, one a line; blank lines are left out."""
    names = tuple(line.strip() for line in _text(path).splitlines() if line.strip())
    if not names:
        raise ValueError(f"{os.fspath(path)} must hold names, one a line, got none")
    return names


def tree_from_file(
    path: str | os.PathLike[str],
    labels: Sequence[str] | None = None,
    *,
    power: float = 1.0,
    scale: Scale = None,
) -> Tree:
    """A taxonomy from a CSV file with columns ``name``, ``parent`` and perhaps ``length``.

    A node whose parent is empty is a root; where there are several, they share one above them.
    Parents need no line of their own.

    Args:
        path: the file.
        labels: which nodes are labels, in which order; by default the leaves, in the file's order.
        power: of the cost.
        scale: of the cost.
    """
    name = os.fspath(path)
    header, *lines = _csv(path)
    if "name" not in header or "parent" not in header:
        raise ValueError(f"{name} must have columns 'name' and 'parent', got {', '.join(header)}")
    columns = {column: header.index(column) for column in header}
    parent_of: dict[str, str] = {}
    length_of: dict[str, float] = {}
    for number, row in enumerate(lines, 2):
        if len(row) != len(header):
            raise ValueError(
                f"{name}, line {number}: expected {len(header)} columns, got {len(row)}"
            )
        node, parent = row[columns["name"]], row[columns["parent"]]
        if not node or node in parent_of:
            raise ValueError(f"{name}, line {number}: expected a new name, got {node!r}")
        parent_of[node] = parent
        if "length" in columns and row[columns["length"]]:
            length_of[node] = _float(row[columns["length"]], f"{name}, line {number}")
    for parent in list(parent_of.values()):
        if parent and parent not in parent_of:
            parent_of[parent] = ""
    nodes = list(parent_of)
    number_of = {node: i + 1 for i, node in enumerate(nodes)}  # 0 is above the roots
    parents = [-1, *(number_of[up] if (up := parent_of[node]) else 0 for node in nodes)]
    lengths = [0.0, *(length_of.get(node, 1.0) for node in nodes)]
    inner = set(parent_of.values())
    chosen = [node for node in nodes if node not in inner] if labels is None else list(labels)
    place = [number_of[nodes[i]] for i in _places(nodes, chosen, name)]
    return Tree(parents, lengths, place, power=power, scale=scale, labels=chosen)


def matrix_from_file(
    path: str | os.PathLike[str],
    labels: Sequence[str] | None = None,
    *,
    power: float = 1.0,
    scale: Scale = None,
) -> Matrix:
    """A table of distances: ``.npy``; ``.npz`` with ``distance`` and perhaps ``labels``; or CSV.

    A CSV file has the labels in its first line, then one line of numbers for each label, which may
    begin with the label's name.
    """
    distance, names = _table(Path(path), labels, "distance")
    return Matrix(distance, power=power, scale=scale, labels=names)


def cost_from_file(
    path: str | os.PathLike[str],
    labels: Sequence[str] | None = None,
    *,
    power: float = 1.0,
    scale: Scale = None,
) -> Cost:
    """A table of costs, as ``matrix_from_file``, whose .npz holds ``cost``.

    A line is for what was predicted, a column for the truth.
    """
    cost, names = _table(Path(path), labels, "cost")
    return Cost(cost, power=power, scale=scale, labels=names)


def _table(
    path: Path, labels: Sequence[str] | None, member: str
) -> tuple[NDArray[Any], Sequence[str] | None]:
    """The table of a file, of the labels asked for if it names its own, and their names."""
    own: tuple[str, ...] | None = None
    if path.suffix == ".npy":
        table = _array(path)
    elif path.suffix == ".npz":
        arrays = read_npz(path)
        table = _member(arrays, (member, "matrix"), path)
        own = _strings(arrays, ("labels", "words"))
    else:
        own, table = _matrix_csv(path)
    if labels is not None and own is not None:
        place = _places(own, labels, str(path))
        table = table[np.ix_(place, place)]
    return table, labels or own


def _matrix_csv(path: Path) -> tuple[tuple[str, ...], NDArray[np.float64]]:
    header, *lines = _csv(path)
    named = bool(lines) and len(lines[0]) == len(header) and header[0] == ""
    names = tuple(header[1:] if named else header)
    rows = []
    for number, row in enumerate(lines, 2):
        own = row[1:] if named else row
        if len(own) != len(names):
            raise ValueError(
                f"{path}, line {number}: expected {len(names)} numbers, got {len(own)}"
            )
        if named and (number - 2 >= len(names) or row[0] != names[number - 2]):
            raise ValueError(f"{path}, line {number}: lines must follow the order of the columns")
        rows.append([_float(word, f"{path}, line {number}") for word in own])
    return names, np.array(rows, dtype=np.float64).reshape(len(rows), len(names))


def _places(names: Sequence[str], labels: Sequence[str], where: str) -> list[int]:
    place: dict[str, int] = {}
    for i, name in enumerate(names):
        place.setdefault(name, i)
    missing = [label for label in labels if label not in place]
    if missing:
        shown = ", ".join(map(repr, missing[:5])) + (", ..." if len(missing) > 5 else "")
        raise ValueError(f"{where} must have every label, but it lacks {len(missing)}: {shown}")
    return [place[label] for label in labels]


def _array(path: Path) -> NDArray[Any]:
    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} cannot be read as an array: {error}") from error
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{path} must hold one array, got an archive")
    return array


def _member(arrays: dict[str, NDArray[Any]], names: tuple[str, ...], path: Path) -> NDArray[Any]:
    for name in names:
        if name in arrays:
            return arrays[name]
    raise ValueError(f"{path} must hold an array {names[0]!r}, got {', '.join(sorted(arrays))}")


def _strings(arrays: dict[str, NDArray[Any]], names: tuple[str, ...]) -> tuple[str, ...] | None:
    found = next((arrays[name] for name in names if name in arrays), None)
    return None if found is None else tuple(str(word) for word in found.reshape(-1))


def _csv(path: str | os.PathLike[str]) -> list[list[str]]:
    try:
        rows = [
            [word.strip() for word in row]
            for row in csv.reader(_text(path).splitlines(), strict=True)
            if row
        ]
    except csv.Error as error:
        raise ValueError(f"{os.fspath(path)} cannot be read as CSV: {error}") from error
    if len(rows) < 2:
        raise ValueError(f"{os.fspath(path)} must have a header and lines, got {len(rows)} lines")
    return rows


def _float(word: str, where: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise ValueError(f"{where}: expected a number, got {word!r}") from None


def _text(path: str | os.PathLike[str]) -> str:
    try:
        return Path(path).read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{os.fspath(path)} is not UTF-8 text: {error}") from error
