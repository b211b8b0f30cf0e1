"""Ground metrics from a word, a saved file or a CSV file.

The header of a CSV file decides how it is read:

=========================  =======================================================================
``name,parent[,length]``   a taxonomy with one line per node; the parent of a root is empty
``path``                   a taxonomy with one line per label, such as ``animal/dog/husky``
names of labels            distances with one line per label, which may begin with its name
=========================  =======================================================================
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from wassloss.app._messages import named_errors, shown
from wassloss.app.csv_files import rows_of
from wassloss.ground import GroundMetric, Matrix, Tree

Metric = GroundMetric | Literal["ordinal", "discrete"] | None
_Rows = list[tuple[int, list[str]]]


def read_metric(
    given: str | os.PathLike[str] | GroundMetric, order: Sequence[str] | None = None
) -> GroundMetric | Literal["ordinal", "discrete"]:
    r"""Read a ground metric.

    Args:
        given: ``"ordinal"`` or ``"discrete"``, returned unchanged; a CSV file as above; a file
            written by :meth:`GroundMetric.save`; or a ground metric.
        order: the labels to take from a CSV file, in their order; by default all labels, or the
            leaves of a taxonomy.

    Raises:
        ValueError: the file cannot be read as a ground metric.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "animals.csv")
    ...     _ = path.write_text("path\nanimal/dog/husky\nanimal/dog/poodle\nanimal/cat\n")
    ...     metric = read_metric(path)
    >>> metric.labels, metric.nearest("husky", 1)
    (('husky', 'poodle', 'cat'), [('poodle', 2.0)])
    """
    if isinstance(given, GroundMetric):
        return given
    if given in ("ordinal", "discrete"):
        return given  # type: ignore[return-value]
    path = Path(given)
    if path.suffix.lower() != ".csv":
        if not path.exists() and not path.suffix:
            raise ValueError(
                f"metric must be ordinal, discrete, or a file (.npz, .csv), got {str(given)!r}"
            )
        return GroundMetric.load(path)
    with named_errors(path, "a ground metric"):
        header, rows = _read(path)
        if {"name", "parent"} <= set(header):
            return _tree(header, rows, order)
        if "path" in header and len(header) == 1:
            return _paths(rows, order)
        return _distances(header, rows, order)


def _tree(header: list[str], rows: _Rows, labels: Sequence[str] | None) -> Tree:
    """A taxonomy of nodes and parents; several roots get a common parent.

    A parent without a line of its own is a root.
    """
    parent_of: dict[str, str] = {}
    length_of: dict[str, float] = {}
    for line, row in rows:
        entry = dict(zip(header, row, strict=True))
        node = entry["name"]
        if not node or node in parent_of:
            raise ValueError(f"line {line}: expected a new name, got {node!r}")
        parent_of[node] = entry["parent"]
        if entry.get("length"):
            length_of[node] = _float(entry["length"], line)
    for parent in filter(None, list(parent_of.values())):
        parent_of.setdefault(parent, "")
    nodes = list(parent_of)
    number_of = {node: i for i, node in enumerate(nodes, 1)}  # 0 is above the roots
    parents = [-1, *(number_of.get(parent, 0) for parent in parent_of.values())]
    lengths = [0.0, *(length_of.get(node, 1.0) for node in nodes)]
    inner = set(parent_of.values())
    chosen = [node for node in nodes if node not in inner] if labels is None else list(labels)
    return Tree(parents, lengths, [i + 1 for i in _places(nodes, chosen)], labels=chosen)


def _paths(rows: _Rows, labels: Sequence[str] | None) -> Tree:
    """A taxonomy of paths, each of which ends in the name of its label."""
    paths = {}
    for line, (word,) in rows:
        path = tuple(name.strip() for name in word.split("/"))
        if not all(path) or path[-1] in paths:
            raise ValueError(f"line {line}: expected a path to a new label, got {word!r}")
        paths[path[-1]] = path
    if labels is not None:
        _places(list(paths), labels)  # an error if one is missing
        paths = {label: paths[label] for label in labels}
    return Tree.from_paths(list(paths.values()))


def _distances(names: list[str], rows: _Rows, labels: Sequence[str] | None) -> Matrix:
    if names[0] == "":  # each line begins with the name of its label
        names = names[1:]
        if [row[0] for _, row in rows] != names[: len(rows)]:
            raise ValueError("its lines must be in the order of the columns")
        rows = [(line, row[1:]) for line, row in rows]
    if len(rows) != len(names):
        raise ValueError(f"it must have one line per label ({len(names)}), got {len(rows)}")
    table = np.array([[_float(word, line) for word in row] for line, row in rows])
    chosen = names if labels is None else list(labels)
    places = _places(names, chosen)
    return Matrix(table[np.ix_(places, places)], labels=chosen)


def _read(path: Path) -> tuple[list[str], _Rows]:
    """The header, and the other rows with their line numbers."""
    read = [(line, [word.strip() for word in row]) for line, row in rows_of(path)]
    if len(read) < 2:
        raise ValueError(f"it must have a header and other lines, got {len(read)} lines in all")
    (_, header), *rows = read
    return header, rows


def _float(word: str, line: int) -> float:
    try:
        return float(word)
    except ValueError:
        raise ValueError(f"line {line}: expected a number, got {word!r}") from None


def _places(names: Sequence[str], labels: Sequence[str]) -> list[int]:
    place = {name: i for i, name in enumerate(names)}
    missing = [label for label in labels if label not in place]
    if missing:
        raise ValueError(f"it must have every label, but lacks {len(missing)}: {shown(missing, 5)}")
    return [place[label] for label in labels]
