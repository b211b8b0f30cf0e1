"""A tree of names from the paths that lead to its labels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple


class NamedTree(NamedTuple):
    """Parents of all nodes, with an unnamed root 0; the labels' nodes; the labels' names."""

    parents: list[int]
    nodes: list[int]
    labels: list[str]


def tree_of_paths(paths: Sequence[Sequence[str]]) -> NamedTree:
    """The tree whose nodes are the paths and their beginnings.

    >>> tree_of_paths([("animal", "dog"), ("animal", "cat")])
    NamedTree(parents=[-1, 0, 1, 1], nodes=[2, 3], labels=['dog', 'cat'])
    """
    parents = [-1]
    children: dict[tuple[int, str], int] = {}  # (parent, name) -> node
    labelled: dict[int, int] = {}  # node -> which path ends there
    for i, path in enumerate(paths):
        if isinstance(path, str) or not all(isinstance(name, str) for name in path):
            raise TypeError(f"paths[{i}] must be a sequence of names, got {path!r}")
        node = 0
        for name in path:
            child = children.setdefault((node, name), len(parents))
            if child == len(parents):
                parents.append(node)
            node = child
        if node == 0:
            raise ValueError(f"paths[{i}] must hold at least one name, got {path!r}")
        if node in labelled:
            raise ValueError(f"paths must differ, got {path!r} at {labelled[node]} and at {i}")
        labelled[node] = i
    if not labelled:
        raise ValueError("paths must hold at least one path, got none")
    uses = Counter(path[-1] for path in paths)
    labels = [path[-1] if uses[path[-1]] == 1 else "/".join(path) for path in paths]
    return NamedTree(parents, list(labelled), labels)
