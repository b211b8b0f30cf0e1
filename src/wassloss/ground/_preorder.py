"""Numbering the nodes of a tree in preorder, where every subtree is an interval."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray


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
