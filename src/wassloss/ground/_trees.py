"""Trees: their nodes in preorder, trees of names, and the minima that give common ancestors."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


class Preorder(NamedTuple):
    """The preorder of a tree of n nodes: a parent comes before its children, subtree by subtree."""

    position: NDArray[np.int64]
    """(n,) the position of each node."""
    parent: NDArray[np.int64]
    """(n,) for each position, the position of the parent; -1 for the root, which is at 0."""
    end: NDArray[np.int64]
    """(n,) for each position x, where its subtree ends: it fills the positions x..end[x]-1."""


def preorder(parents: NDArray[np.int64]) -> Preorder:
    """Number the nodes of a tree given by parents, -1 for the root; children in increasing order.

    >>> preorder(np.array([-1, 2, 0, 0])).position.tolist()  # 0 has children 2 and 3, 2 has child 1
    [0, 2, 1, 3]
    """
    root = _root(parents)
    up: list[int] = parents.tolist()
    children: list[list[int]] = [[] for _ in up]
    for node in range(len(up) - 1, -1, -1):  # backwards, so that the smallest is popped first
        if node != root:
            children[up[node]].append(node)

    # A stack of our own: recursion would give out on a deep tree.
    position = [-1] * len(up)
    parent: list[int] = []
    stack = [root]
    while stack:
        node = stack.pop()
        position[node] = len(parent)
        parent.append(-1 if node == root else position[up[node]])
        stack.extend(children[node])
    if len(parent) < len(up):
        node = _on_cycle(up, position.index(-1))
        raise ValueError(f"parents must form a tree, got a cycle through node {node}")

    end = list(range(1, len(up) + 1))
    for x in range(len(up) - 1, 0, -1):
        end[parent[x]] = max(end[parent[x]], end[x])
    return Preorder(*(np.array(column, dtype=np.int64) for column in (position, parent, end)))


def _root(parents: NDArray[np.int64]) -> int:
    outside = np.flatnonzero((parents < -1) | (parents >= len(parents)))
    if len(outside) > 0:
        node = int(outside[0])
        raise ValueError(
            f"parents must be -1 for the root or in 0..{len(parents) - 1}, "
            f"got parents[{node}] = {parents[node]}"
        )
    roots = np.flatnonzero(parents == -1)
    if len(roots) != 1:
        got = "none" if len(roots) == 0 else f"parents[{roots[0]}] = parents[{roots[1]}] = -1"
        raise ValueError(f"parents must have exactly one root, marked -1, got {got}")
    return int(roots[0])


def _on_cycle(up: list[int], node: int) -> int:
    """A node that a walk up from ``node``, which never reaches the root, comes back to."""
    seen: set[int] = set()
    while node not in seen:
        seen.add(node)
        node = up[node]
    return node


class NamedTree(NamedTuple):
    """Parents of all nodes, with an unnamed root 0; the labels' nodes; the labels' names."""

    parents: list[int]
    nodes: list[int]
    labels: list[str]


def tree_of_paths(paths: Sequence[Sequence[str]]) -> NamedTree:
    """The tree whose nodes are the paths and their prefixes.

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


def minimum_table(values: Tensor) -> Tensor:
    """The sparse table of ``values``, shape (n,): row r holds the minima of windows of 2**r.

    Returns:
        Tensor of shape (1 + floor(log2(n)), n). The last 2**r - 1 entries of row r stand for
        windows that would run over the end, and mean nothing.
    """
    rows = [values]
    width = 1
    while 2 * width <= len(values):
        row = rows[-1].clone()
        row[:-width] = torch.minimum(rows[-1][:-width], rows[-1][width:])
        rows.append(row)
        width *= 2
    return torch.stack(rows)


def range_minimum(table: Tensor, start: Tensor, stop: Tensor) -> Tensor:
    """The minima over start..stop-1, for non-empty intervals of any shape.

    Two windows of the largest power of two that fits cover an interval, one from each end.

    >>> table = minimum_table(torch.tensor([3, 1, 4, 1, 5, 9]))
    >>> range_minimum(table, start=torch.tensor([0, 4, 2]), stop=torch.tensor([6, 6, 3]))
    tensor([1, 5, 4])
    """
    levels, n = table.shape
    widths = 2 ** torch.arange(levels, device=table.device)
    level = torch.bucketize(stop - start, widths, right=True) - 1
    offset = level * n
    entries = table.reshape(-1)
    return torch.minimum(entries[offset + start], entries[offset + stop - widths[level]])
