"""Ground metrics from the files people have: taxonomies, tables of distances or costs."""

from __future__ import annotations

import csv
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wassloss._files import read_npz
from wassloss.ground import Cost, Matrix, Tree


def read_names(path: Path) -> tuple[str, ...]:
    """Names in a text file, one per line; blank lines are left out."""
    names = tuple(line.strip() for line in _text(path).splitlines() if line.strip())
    if not names:
        raise ValueError(f"{path} must hold names, one a line, got none")
    return names


def tree_from_file(path: Path, labels: Sequence[str] | None, power: float) -> Tree:
    """A taxonomy from a CSV file with columns ``name``, ``parent`` and perhaps ``length``.

    A node whose parent is empty is a root; if there are several, they share one above them. Parents
    need no line of their own. ``labels`` says which nodes are labels, in which order; by default
    the leaves, in the file's order.
    """
    header, rows = _csv(path)
    if "name" not in header or "parent" not in header:
        raise ValueError(f"{path} must have columns 'name' and 'parent', got {', '.join(header)}")
    parent_of: dict[str, str] = {}
    length_of: dict[str, float] = {}
    for line, row in enumerate(rows, 2):
        entry = dict(zip(header, row, strict=True))
        node = entry["name"]
        if not node or node in parent_of:
            raise ValueError(f"{path}, line {line}: expected a new name, got {node!r}")
        parent_of[node] = entry["parent"]
        if entry.get("length"):
            length_of[node] = _float(entry["length"], f"{path}, line {line}")
    for parent in list(parent_of.values()):
        if parent:
            parent_of.setdefault(parent, "")
    nodes = list(parent_of)
    number_of = {node: i for i, node in enumerate(nodes, 1)}  # 0 is above the roots
    parents = [-1, *(number_of.get(parent, 0) for parent in parent_of.values())]
    lengths = [0.0, *(length_of.get(node, 1.0) for node in nodes)]
    inner = set(parent_of.values())
    chosen = [node for node in nodes if node not in inner] if labels is None else list(labels)
    place = [i + 1 for i in _places(nodes, chosen, path)]
    return Tree(parents, lengths, place, labels=chosen, power=power)


def table_from_file(
    kind: type[Matrix] | type[Cost], path: Path, labels: Sequence[str] | None, power: float
) -> Matrix | Cost:
    """A table of distances or costs: ``.npy``, ``.npz`` or CSV.

    A .npz file holds ``distance`` or ``cost``, and perhaps ``labels``. A CSV file has the labels in
    its first line, then a line of numbers for each label, which may begin with the label's name. Of
    costs, a line is for what was predicted, a column for the truth. ``labels`` says which labels,
    in which order, if the file names its own, and else what they are called.
    """
    own = None
    if path.suffix == ".npy":
        table = _array(path)
    elif path.suffix == ".npz":
        arrays, (member,) = read_npz(path), kind._FIELDS
        if member not in arrays:
            raise ValueError(f"{path} must hold an array {member!r}, got {', '.join(arrays)}")
        table = arrays[member]
        if "labels" in arrays:
            own = [str(name) for name in arrays["labels"].reshape(-1)]
    else:
        own, table = _table_csv(path)
    if labels is not None and own is not None:
        place = _places(own, labels, path)
        table = table[np.ix_(place, place)]
    return kind(table, labels=labels or own, power=power)


def _array(path: Path) -> NDArray[Any]:
    try:
        array = np.load(path, allow_pickle=False)
    except (ValueError, EOFError) as error:
        raise ValueError(f"{path} cannot be read as an array: {error}") from error
    if not isinstance(array, np.ndarray):
        raise ValueError(f"{path} must hold one array, got an archive")
    return array


def _table_csv(path: Path) -> tuple[list[str], NDArray[np.float64]]:
    names, rows = _csv(path)
    if names[0] == "":  # lines begin with a name
        names = names[1:]
        if [row[0] for row in rows] != names[: len(rows)]:
            raise ValueError(f"{path}: lines must follow the order of the columns")
        rows = [row[1:] for row in rows]
    numbers = [
        [_float(word, f"{path}, line {line}") for word in row] for line, row in enumerate(rows, 2)
    ]
    return names, np.array(numbers)


def _places(names: Sequence[str], labels: Sequence[str], where: Path) -> list[int]:
    place = {name: i for i, name in reversed(list(enumerate(names)))}  # the first of equals
    missing = [label for label in labels if label not in place]
    if missing:
        shown = ", ".join(map(repr, missing[:5])) + (", ..." if len(missing) > 5 else "")
        raise ValueError(f"{where} must have every label, but it lacks {len(missing)}: {shown}")
    return [place[label] for label in labels]


def _csv(path: Path) -> tuple[list[str], list[list[str]]]:
    """The header, and the lines below it, of as many words each."""
    try:
        read = csv.reader(_text(path).splitlines(), strict=True)
        rows = [[word.strip() for word in row] for row in read if row]
    except csv.Error as error:
        raise ValueError(f"{path} cannot be read as CSV: {error}") from error
    if len(rows) < 2:
        raise ValueError(f"{path} must have a header and lines, got {len(rows)} lines")
    header, *lines = rows
    for number, row in enumerate(lines, 2):
        if len(row) != len(header):
            raise ValueError(
                f"{path}, line {number}: expected {len(header)} columns, got {len(row)}"
            )
    return header, lines


def _float(word: str, where: str) -> float:
    try:
        return float(word)
    except ValueError:
        raise ValueError(f"{where}: expected a number, got {word!r}") from None


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8-sig")
    except UnicodeDecodeError as error:
        raise ValueError(f"{path} is not UTF-8 text: {error}") from error
