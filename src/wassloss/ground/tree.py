"""Labels in a taxonomy: species, WordNet classes, diagnosis codes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy  # which imports scipy.sparse when it is first used
import torch
from numpy.typing import NDArray
from torch import Tensor

from wassloss._checks import check_choice, default_dtype
from wassloss.ground._cost import MetricKeywords, fill_by_labels
from wassloss.ground._inputs import Numbers, float_tensor, int_array, refuse
from wassloss.ground.base import GroundMetric

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

Array = NDArray[np.int64]


class Tree(GroundMetric):
    r"""Distances between nodes of a tree: path lengths, or heights of lowest common ancestors.

    .. math:: d(u, v) = \text{depth}_u + \text{depth}_v - 2\, \text{depth}_{\text{lca}(u, v)}

    With nodes numbered in preorder, the depth of the lowest common ancestor of u < v is the least
    depth of a parent of the nodes in (u, v], so a table of n log n numbers answers for every pair.

    Args:
        parents: each node's parent, shape (n,), -1 for the one root.
        lengths: the length of the edge from each node to its parent, shape (n,), not negative; the
            root's is ignored. All 1 by default.
        nodes: which nodes are the labels, in which order; by default the leaves in increasing
            order.
        distance: ``"path"``, or ``"lca_height"``: how far the farthest label below the lowest
            common ancestor of u and v is from it, as studies of how severe mistakes are measure.
            Path lengths grow where a branch is finely divided; heights depend on what two labels
            have in common.
        power, scale, labels: see :class:`GroundMetric`.

    >>> Tree([-1, 0, 0, 1, 1]).distance()  # leaves 2, 3, 4; 3 and 4 are children of 1
    tensor([[0., 3., 3.],
            [3., 0., 2.],
            [3., 2., 0.]])
    >>> Tree([-1, 0, 0, 1, 1], distance="lca_height").distance()
    tensor([[0., 2., 2.],
            [2., 0., 1.],
            [2., 1., 0.]])
    """

    _FIELDS = ("parents", "lengths", "nodes")
    label_position: Tensor
    """The preorder position of each label's node, shape (K,)."""
    parents: Tensor
    """The preorder position of the parent of the node at each one, -1 at the root, shape (n,)."""
    subtree_end: Tensor
    """Where the subtree of the node at preorder position x ends, exclusive, shape (n,)."""
    edge_length: Tensor
    """The length of the edge above the node at preorder position x, 0 at the root, shape (n,)."""
    node_names: tuple[str, ...] | None = None
    """The name of the node at preorder position x, if the tree was made of paths."""

    def __init__(
        self,
        parents: Numbers,
        lengths: Numbers | None = None,
        nodes: Numbers | None = None,
        *,
        distance: Literal["path", "lca_height"] = "path",
        **keywords: Unpack[MetricKeywords],
    ) -> None:
        check_choice("distance", distance, ("path", "lca_height"))
        up = int_array("parents", parents)
        position, parent, end = preorder(up)
        edge = _edge_lengths(lengths, position)
        chosen = (
            np.setdiff1d(np.arange(len(up)), up) if nodes is None else int_array("nodes", nodes)
        )
        refuse("nodes", f"be in 0..{len(up) - 1}", chosen, (chosen < 0) | (chosen >= len(up)))
        if distance == "lca_height":
            up, edge, chosen = _with_heights(parent, edge, position[chosen])
            position, parent, end = preorder(up)
            edge = _edge_lengths(edge, position)

        depth = [0.0]  # in double precision: roundings add up on a deep tree
        for above, length in zip(parent.tolist()[1:], edge.tolist()[1:], strict=True):
            depth.append(depth[above] + length)
        self._depth = torch.tensor(depth, dtype=torch.float64).to(edge)  # (n,)
        self.parents = torch.tensor(parent, device=edge.device)
        self.subtree_end = torch.tensor(end, device=edge.device)
        self.label_position = torch.tensor(position[chosen], device=edge.device)
        self.edge_length = edge
        # (levels, n); the root has no parent, and no interval (u, v] holds it
        self._table = minimum_table(self._depth[self.parents.clamp(min=0)])
        super().__init__(len(chosen), like=edge, **keywords)

    @classmethod
    def from_paths(
        cls,
        paths: Sequence[Sequence[str]],
        *,
        distance: Literal["path", "lca_height"] = "path",
        **keywords: Unpack[MetricKeywords],
    ) -> Self:
        """A tree of names, each label given by its path from the top.

        Unless ``labels`` are given, they are named by the last name of their path, or by the whole
        path joined with ``/`` where that name occurs more than once. Every edge has length 1.

        >>> taxonomy = Tree.from_paths([("animal", "dog"), ("animal", "cat"), ("plant", "rose")])
        >>> taxonomy.nearest("dog", 2)
        [('cat', 2.0), ('rose', 4.0)]
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
        names = [path[-1] if uses[path[-1]] == 1 else "/".join(path) for path in paths]
        if keywords.get("labels") is None:
            keywords["labels"] = names
        tree = cls(parents, nodes=list(labelled), distance=distance, **keywords)
        tree.node_names = _names_of_nodes(tree, paths)
        return tree

    def _distance_columns(self, indices: Tensor) -> Tensor:
        own = self.label_position[indices][:, None]
        found = self._depth.new_empty(len(indices), self.size)
        # The index arithmetic takes several int64 for each distance.
        width = 4 * max(1, len(indices))
        return fill_by_labels(
            found, self.label_position, width, lambda v: self._path_lengths(own, v)
        )

    def _distances_between(self, first: Tensor, second: Tensor) -> Tensor:
        return self._path_lengths(self.label_position[first], self.label_position[second])

    def _path_lengths(self, u: Tensor, v: Tensor) -> Tensor:
        """Lengths of the paths between nodes at preorder positions that broadcast."""
        first, last = torch.minimum(u, v), torch.maximum(u, v)
        # For u = v the interval (u, v] is empty: use any other, because the result is discarded.
        above = range_minimum(self._table, torch.minimum(first + 1, last), last + 1)
        # Two differences, neither of which can become negative by rounding.
        path = (self._depth[u] - above) + (self._depth[v] - above)
        return torch.where(u == v, 0.0, path)

    def _max_distance(self) -> Tensor:
        # The farthest label from any label is one end of a diameter.
        end = self._distance_columns(torch.zeros(1, dtype=torch.long, device=self.device)).argmax()
        return self._distance_columns(end[None]).max()

    def _fields(self) -> Mapping[str, Any]:
        # In preorder numbering, which preorder() maps to itself.
        lengths, nodes = self.edge_length, self.label_position
        return {"parents": self.parents, "lengths": lengths, "nodes": nodes}

    def _summary(self) -> str:
        return f"{self.size} of {len(self.parents)} nodes"


def _names_of_nodes(tree: Tree, paths: Sequence[Sequence[str]]) -> tuple[str, ...]:
    """The last name on the path to each node, or the whole path where that name occurs twice."""
    parents = tree.parents.tolist()
    path_to: dict[int, Sequence[str]] = {0: ()}
    for label, path in zip(tree.label_position.tolist(), paths, strict=True):
        way = [label]
        while parents[way[-1]] > 0:
            way.append(parents[way[-1]])
        # With heights, a label that is no leaf has a leaf of its own below its node.
        for depth, node in enumerate(reversed(way), start=1):
            path_to[node] = path[:depth]
    uses = Counter(path[-1:] for path in set(map(tuple, path_to.values())))
    listed = (tuple(path_to[node]) for node in range(len(parents)))
    return tuple("/".join(path[-1:] if uses[path[-1:]] == 1 else path) for path in listed)


def preorder(parents: Array) -> tuple[Array, Array, Array]:
    """Number the nodes of a tree: parents before children, children in increasing order.

    Args:
        parents: of each node, (n,), -1 for the root.

    Returns:
        The position of each node; the position of the parent of each position, -1 for the root at
        0; and where the subtree of each position ends, exclusive. All (n,).

    >>> preorder(np.array([-1, 2, 0, 0]))[0].tolist()  # 0 has children 2 and 3, 2 has child 1
    [0, 2, 1, 3]
    """
    n = len(parents)
    expected = f"be -1 for the root or in 0..{n - 1}"
    refuse("parents", expected, parents, (parents < -1) | (parents >= n))
    roots = np.flatnonzero(parents == -1)
    if len(roots) != 1:
        got = "none" if len(roots) == 0 else f"parents[{roots[0]}] = parents[{roots[1]}] = -1"
        raise ValueError(f"parents must have exactly one root, marked -1, got {got}")
    others = np.flatnonzero(parents >= 0)
    edges = (np.ones(len(others)), (parents[others], others))
    tree = scipy.sparse.csr_matrix(edges, shape=(n, n))
    order = scipy.sparse.csgraph.depth_first_order(tree, roots[0], return_predecessors=False)
    position = np.full(n, -1)
    position[order] = np.arange(len(order))
    if len(order) < n:
        node = int(position.argmin())
        for _ in range(n):  # from a node that the root does not reach, up and onto the cycle
            node = int(parents[node])
        raise ValueError(f"parents must form a tree, got a cycle through node {node}")
    parent = np.where(parents[order] < 0, -1, position[parents[order]])

    end = list(range(1, n + 1))
    for x, above in zip(range(n - 1, 0, -1), parent[:0:-1].tolist(), strict=True):
        end[above] = max(end[above], end[x])
    return position, parent, np.array(end)


def minimum_table(values: Tensor) -> Tensor:
    """The sparse table of ``values``, shape (n,): row r holds the minima of windows of 2**r.

    The shape is (1 + floor(log2(n)), n). The last 2**r - 1 entries of row r stand for windows that
    would run over the end, and mean nothing.
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


def _edge_lengths(lengths: Numbers | None, position: Array) -> Tensor:
    """Edge lengths in preorder, 0 at the root."""
    n = len(position)
    given = (
        torch.ones(n, dtype=default_dtype())
        if lengths is None
        else float_tensor("lengths", lengths, shape="(nodes)")
    )
    if len(given) != n:
        raise ValueError(f"lengths must hold one number for each of {n} nodes, got {len(given)}")
    below_root = torch.from_numpy(position > 0).to(given.device)
    refuse("lengths", "not be negative", given, (given < 0) & below_root)
    edge = torch.empty_like(given)
    edge[torch.tensor(position, device=given.device)] = given
    edge[0] = 0
    return edge


def _with_heights(parent: Array, edge: Tensor, labels: Array) -> tuple[Array, Tensor, Array]:
    """Parents, edge lengths and labels of a tree whose path lengths are heights in this one.

    All in preorder. With edges half as long as the difference of heights, a path up from a leaf to
    its ancestor and down again is as long as the ancestor is high. A label that is no leaf gets a
    leaf of its own.
    """
    n = len(parent)
    height = np.full(n, -np.inf)
    height[labels] = 0.0
    for x, length in zip(range(n - 1, 0, -1), reversed(edge.tolist()[1:]), strict=True):
        height[parent[x]] = max(height[parent[x]], height[x] + length)
    height = np.maximum(height, 0)  # nothing to measure below a node without labels
    inner = labels[np.isin(labels, parent)]
    up = np.concatenate([parent, inner])
    half = np.concatenate([height[parent] - height, height[inner]]) / 2
    half[0] = 0
    own = dict(zip(inner.tolist(), range(n, len(up)), strict=True))
    leaves = np.array([own.get(label, label) for label in labels.tolist()])
    return up, torch.from_numpy(half).to(edge), leaves
