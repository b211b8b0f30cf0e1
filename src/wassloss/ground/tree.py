"""Labels in a taxonomy: species, WordNet classes, diagnosis codes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wassloss.ground._arrays import Numbers, float_tensor, int_array
from wassloss.ground._cost import Scale
from wassloss.ground._summaries import blocks
from wassloss.ground._trees import (
    Preorder,
    minimum_table,
    preorder,
    range_minimum,
    tree_of_paths,
)
from wassloss.ground.base import GroundMetric

if TYPE_CHECKING:
    from typing_extensions import Self


class Tree(GroundMetric):
    r"""Path lengths between nodes of a tree.

    .. math:: d(u, v) = \text{depth}_u + \text{depth}_v - 2\, \text{depth}_{\text{lca}(u, v)}

    With nodes numbered in preorder, the depth of the lowest common ancestor of u < v is the least
    depth of a parent of the nodes in (u, v], so a table of n log n numbers answers for every pair.

    Args:
        parents: each node's parent, shape (n,), -1 for the one root.
        lengths: the length of the edge from each node to its parent, shape (n,), not negative; the
            root's is ignored. All 1 by default.
        nodes: which nodes are the labels, in which order; by default the leaves in increasing
            order.
        power, scale, labels: see :class:`GroundMetric`.

    >>> Tree([-1, 0, 0, 1, 1]).distance()  # leaves 2, 3, 4; 3 and 4 are children of 1
    tensor([[0., 3., 3.],
            [3., 0., 2.],
            [3., 2., 0.]])
    """

    _FIELDS = ("parents", "lengths", "nodes")

    def __init__(
        self,
        parents: Numbers,
        lengths: Numbers | None = None,
        nodes: Numbers | None = None,
        *,
        power: float = 1.0,
        scale: Scale = None,
        labels: Sequence[str] | None = None,
    ) -> None:
        up = int_array("parents", parents)
        order = preorder(up)
        edge = _edge_lengths(lengths, order)
        chosen = _label_nodes(nodes, up)

        depth = [0.0]  # in double precision, for on a deep tree roundings add up
        for parent, length in zip(order.parent.tolist()[1:], edge.tolist()[1:], strict=True):
            depth.append(depth[parent] + length)
        self._depth = torch.tensor(depth, dtype=torch.float64).to(edge)  # (n,)
        self._parent = torch.tensor(order.parent, device=edge.device)
        self._subtree_end = torch.tensor(order.end, device=edge.device)
        self._label_position = torch.tensor(order.position[chosen], device=edge.device)
        self._edge_length = edge
        # (levels, n); the root has no parent, and no interval (u, v] holds it
        self._table = minimum_table(self._depth[self._parent.clamp(min=0)])
        super().__init__(len(chosen), like=edge, power=power, scale=scale, labels=labels)

    @classmethod
    def from_paths(
        cls, paths: Sequence[Sequence[str]], *, power: float = 1.0, scale: Scale = None
    ) -> Self:
        """A tree of names, each label given by its path from the top.

        Labels are named by the last name of their path, or by the whole path joined with ``/``
        where that name occurs more than once. Every edge has length 1.

        >>> taxonomy = Tree.from_paths([("animal", "dog"), ("animal", "cat"), ("plant", "rose")])
        >>> taxonomy.nearest("dog", 2)
        [('cat', 2.0), ('rose', 4.0)]
        """
        parents, nodes, labels = tree_of_paths(paths)
        return cls(parents, nodes=nodes, power=power, scale=scale, labels=labels)

    @property
    def label_position(self) -> Tensor:
        """The preorder position of each label's node, shape (K,)."""
        return self._label_position

    @property
    def subtree_end(self) -> Tensor:
        """Where the subtree of the node at preorder position x ends, exclusive, shape (n,)."""
        return self._subtree_end

    @property
    def edge_length(self) -> Tensor:
        """The length of the edge above the node at preorder position x, 0 at the root; (n,)."""
        return self._edge_length

    def _distance_columns(self, indices: Tensor) -> Tensor:
        columns = self._depth.new_empty(len(indices), self.size)
        done = 0
        # In blocks, for the index arithmetic takes several int64 for each distance.
        for block in blocks(indices, self.size):
            u, v = self._label_position[block][:, None], self._label_position  # (n, 1), (K,)
            columns[done : done + len(block)] = self._path_lengths(u, v)
            done += len(block)
        return columns

    def _distances_between(self, first: Tensor, second: Tensor) -> Tensor:
        return self._path_lengths(self._label_position[first], self._label_position[second])

    def _path_lengths(self, u: Tensor, v: Tensor) -> Tensor:
        """Lengths of the paths between nodes at preorder positions that broadcast."""
        first, last = torch.minimum(u, v), torch.maximum(u, v)
        # Where u = v the interval (u, v] is empty: any other will do, the answer is not used.
        above = range_minimum(self._table, torch.minimum(first + 1, last), last + 1)
        # Two differences, each at least 0 however depths were rounded.
        path = (self._depth[u] - above) + (self._depth[v] - above)
        return torch.where(u == v, 0.0, path)

    def _max_distance(self) -> Tensor:
        # The farthest label from any label is one end of a diameter.
        end = self._distance_columns(torch.zeros(1, dtype=torch.long, device=self.device)).argmax()
        return self._distance_columns(end[None]).max()

    def _fields(self) -> Mapping[str, Tensor | NDArray[Any]]:
        # In preorder numbering, which preorder() maps to itself.
        return {
            "parents": self._parent,
            "lengths": self._edge_length,
            "nodes": self._label_position,
        }

    def _summary(self) -> str:
        return f"{self.size} of {len(self._parent)} nodes"


def _edge_lengths(lengths: Numbers | None, order: Preorder) -> Tensor:
    """Edge lengths in preorder, 0 at the root."""
    n = len(order.parent)
    given = torch.ones(n) if lengths is None else float_tensor("lengths", lengths, shape="(nodes)")
    if len(given) != n:
        raise ValueError(f"lengths must hold one number for each of {n} nodes, got {len(given)}")
    edge = torch.empty_like(given)
    edge[torch.tensor(order.position, device=given.device)] = given
    edge[0] = 0
    if (edge < 0).any():
        node = int(np.flatnonzero(order.position == int((edge < 0).nonzero()[0]))[0])
        raise ValueError(f"lengths must not be negative, got lengths[{node}] = {given[node]:g}")
    return edge


def _label_nodes(nodes: Numbers | None, parents: NDArray[np.int64]) -> NDArray[np.int64]:
    n = len(parents)
    if nodes is None:
        return np.setdiff1d(np.arange(n), parents)
    chosen = int_array("nodes", nodes)
    outside = np.flatnonzero((chosen < 0) | (chosen >= n))
    if len(outside) > 0:
        i = int(outside[0])
        raise ValueError(f"nodes must be in 0..{n - 1}, got nodes[{i}] = {chosen[i]}")
    return chosen
