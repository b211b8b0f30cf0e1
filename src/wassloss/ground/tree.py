"""Labels in a taxonomy: species, WordNet classes, diagnosis codes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import scipy  # loads scipy.sparse on first use
import torch
from numpy.typing import NDArray
from torch import Tensor

from wassloss._checks import can_read_values, check_choice, default_dtype
from wassloss.ground._cost import MetricKeywords, cost_of, fill_by_labels
from wassloss.ground._inputs import Numbers, float_tensor, int_array, refuse
from wassloss.ground.base import GroundMetric
from wassloss.ground.notions import Hierarchy, Notions
from wassloss.ground.subtrees import distances_to_nearest, levels, subtrees

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack

Array = NDArray[np.int64]


class Tree(Hierarchy, GroundMetric):
    r"""Distances between nodes of a tree: path lengths, or heights of lowest common ancestors.

    .. math:: d(u, v) = \text{depth}_u + \text{depth}_v - 2\, \text{depth}_{\text{lca}(u, v)}

    With nodes numbered in preorder, the depth of the lowest common ancestor of u < v is the least
    depth of a parent of the nodes in (u, v]. A sparse table of n log n numbers therefore gives the
    distance of any pair.

    Args:
        parents: each node's parent, shape (n,), -1 for the single root.
        lengths: the length of the edge from each node to its parent, shape (n,), non-negative; the
            root's is ignored. All 1 by default.
        nodes: the nodes of the labels, in order; by default the leaves in increasing order.
        distance: ``"path"``, or ``"lca_height"``: the height of the lowest common ancestor of u and
            v, which is its distance to the farthest label below it. Studies of mistake severity use
            heights. Path lengths grow where a branch is finely divided; heights depend only on what
            two labels have in common.
        names: a name for each node, shape (n,), for use in `target`; they also name the labels
            unless ``labels`` are given.
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
    _OPTIONAL = ("names",)
    label_position: Tensor
    """The preorder position of each label's node, shape (K,)."""
    parent_position: Tensor
    """The preorder position of the parent of the node at each position, -1 at the root, (n,)."""
    subtree_end: Tensor
    """One past the last preorder position in the subtree of the node at each position, (n,)."""
    edge_length: Tensor
    """The length of the edge above the node at each preorder position, 0 at the root, (n,)."""

    def __init__(
        self,
        parents: Numbers,
        lengths: Numbers | None = None,
        nodes: Numbers | None = None,
        *,
        distance: Literal["path", "lca_height"] = "path",
        names: Sequence[str] | None = None,
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
        named = _checked_names(names, len(up))
        if named is not None and keywords.get("labels") is None:
            keywords["labels"] = _label_names(named, up, chosen)
        if distance == "lca_height":
            named = None if named is None else [named[x] for x in position.argsort().tolist()]
            up, edge, chosen = _with_heights(parent, edge, position[chosen])
            named = None if named is None else named + [""] * (len(up) - len(named))
            position, parent, end = preorder(up)
            edge = _edge_lengths(edge, position)

        depth = [0.0]  # in double precision: rounding errors accumulate in deep trees
        for above, length in zip(parent.tolist()[1:], edge.tolist()[1:], strict=True):
            depth.append(depth[above] + length)
        self._depth = torch.tensor(depth, dtype=torch.float64).to(edge)  # (n,)
        self.parent_position = torch.tensor(parent, device=edge.device)
        self.subtree_end = torch.tensor(end, device=edge.device)
        self.label_position = torch.tensor(position[chosen], device=edge.device)
        self.edge_length = edge
        # (levels, n); the root has no parent, but no interval (u, v] contains it
        self._table = minimum_table(self._depth[self.parent_position.clamp(min=0)])
        by_level, self._level_ends = levels(parent)
        order, codes, nearest = subtrees(parent, end, position[chosen], depth)
        self._by_level, self._subtree_codes, self._subtree_nearest = (
            torch.from_numpy(array).to(edge.device) for array in (by_level, codes, nearest)
        )
        if not (order[:-1] < order[1:]).all():
            self.label_order = torch.from_numpy(order).to(edge.device)
        super().__init__(len(chosen), like=edge, **keywords)
        self._notions = None
        if named is not None:
            # In preorder, like everything else.
            self._notions = Notions(
                tuple(named[x] for x in position.argsort().tolist()),
                tuple((x,) if x >= 0 else () for x in parent.tolist()),
                tuple(position[chosen].tolist()),
                self.labels,
            )

    @classmethod
    def from_paths(
        cls,
        paths: Sequence[Sequence[str]],
        *,
        distance: Literal["path", "lca_height"] = "path",
        **keywords: Unpack[MetricKeywords],
    ) -> Self:
        """Build a tree from the paths of its labels, each a sequence of names from the top.

        Unless ``labels`` are given, a label is named by the last name of its path, or by the whole
        path joined with ``/`` if that name is not unique. Every edge has length 1.

        >>> taxonomy = Tree.from_paths([("animal", "dog"), ("animal", "cat"), ("plant", "rose")])
        >>> taxonomy.nearest("dog", 2)
        [('cat', 2.0), ('rose', 4.0)]
        """
        parents, names = [-1], [""]
        children: dict[tuple[int, str], int] = {}  # (parent, name) -> node
        labelled: dict[int, int] = {}  # node -> index of the path that ends there
        for i, path in enumerate(paths):
            if isinstance(path, str) or not all(isinstance(name, str) for name in path):
                raise TypeError(f"paths[{i}] must be a sequence of names, got {path!r}")
            node = 0
            for name in path:
                child = children.setdefault((node, name), len(parents))
                if child == len(parents):
                    parents.append(node)
                    names.append(name)
                node = child
            if node == 0:
                raise ValueError(f"paths[{i}] must hold at least one name, got {path!r}")
            if node in labelled:
                raise ValueError(
                    f"paths must be distinct, got {path!r} at {labelled[node]} and at {i}"
                )
            labelled[node] = i
        if not labelled:
            raise ValueError("paths must hold at least one path, got none")
        return cls(parents, nodes=list(labelled), distance=distance, names=names, **keywords)

    def _distance_columns(self, indices: Tensor) -> Tensor:
        own = self.label_position[indices][:, None]
        found = self._depth.new_empty(len(indices), self.size)
        # Index arithmetic needs several int64 per distance.
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

    def nearest_ends(self, first: Tensor, last: Tensor) -> tuple[Tensor, Tensor] | None:
        # Ranges need not be subtrees, which cannot be checked while tracing.
        if not can_read_values():
            return None
        code = torch.add(last, first, alpha=self.size)
        found = torch.searchsorted(self._subtree_codes, code)
        found = found.clamp(max=len(self._subtree_codes) - 1)
        if not torch.equal(self._subtree_codes[found], code):
            return None
        nearest = self._subtree_nearest[found]
        return nearest, nearest

    def costs_to_sets(self, allowed: Tensor) -> Tensor:
        distances = distances_to_nearest(
            allowed,
            self.label_position,
            self.parent_position,
            self.edge_length,
            self._by_level,
            self._level_ends,
        )
        return cost_of(distances, self.power, self.scale)

    def _ranges_of_word(self, word: str) -> list[tuple[int, int]]:
        if self._notions is None:
            return super()._ranges_of_word(word)
        top = self._notions.find(word)
        ends = torch.stack([torch.tensor(top).to(self.subtree_end), self.subtree_end[top]])
        first, stop = torch.searchsorted(self.label_position.sort().values, ends).tolist()
        if first == stop:
            raise ValueError(f"{word!r} must have a label below it, got none")
        return [(first, stop - 1)]

    def _with_labels(self, labels: Sequence[str]) -> Self:
        other = super()._with_labels(labels)
        if other._notions is not None:
            other._notions = replace(other._notions, label_names=other.labels)
        return other

    def _max_distance(self) -> Tensor:
        # The farthest label from any label is one end of a diameter.
        end = self._distance_columns(torch.zeros(1, dtype=torch.long, device=self.device)).argmax()
        return self._distance_columns(end[None]).max()

    def _fields(self) -> Mapping[str, Any]:
        # Numbered in preorder, which preorder() leaves unchanged.
        fields: dict[str, Any] = {
            "parents": self.parent_position,
            "lengths": self.edge_length,
            "nodes": self.label_position,
        }
        if self._notions is not None:
            fields["names"] = np.array(self._notions.names, dtype=np.str_)
        return fields

    @classmethod
    def _from_fields(cls, fields: Mapping[str, Any], **common: Any) -> Self:
        names = fields.get("names")
        return super()._from_fields(
            {**fields, "names": None if names is None else names.tolist()}, **common
        )

    def _summary(self) -> str:
        return f"{self.size} of {len(self.parent_position)} nodes"


def _checked_names(names: Sequence[str] | None, nodes: int) -> list[str] | None:
    if names is None:
        return None
    if isinstance(names, str) or not all(isinstance(name, str) for name in names):
        raise TypeError(f"names must be a list of strings, got {names!r}")
    if len(names) != nodes:
        raise ValueError(f"names must hold one name for each of {nodes} nodes, got {len(names)}")
    return [str(name) for name in names]  # numpy.str_ becomes str


def _label_names(names: list[str], parents: Array, labels: Array) -> list[str]:
    """Name each label by its node, or by the whole path if several labels share the name."""
    uses = Counter(names[node] for node in labels)
    found = []
    for label in labels.tolist():
        path, node = [names[label]], int(parents[label])
        while uses[names[label]] > 1 and node >= 0:
            path.append(names[node])
            node = int(parents[node])
        found.append("/".join(name for name in reversed(path) if name))
    return found


def preorder(parents: Array) -> tuple[Array, Array, Array]:
    """Number the nodes of a tree: parents before children, children in increasing order.

    Args:
        parents: the parent of each node, (n,), -1 for the root.

    Returns:
        The position of each node; the parent's position for each position, -1 for the root at 0;
        and one past the last position in the subtree of each position. All (n,).

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
        for _ in range(n):  # climb from an unreachable node until on the cycle
            node = int(parents[node])
        raise ValueError(f"parents must form a tree, got a cycle through node {node}")
    parent = np.where(parents[order] < 0, -1, position[parents[order]])

    end = list(range(1, n + 1))
    for x, above in zip(range(n - 1, 0, -1), parent[:0:-1].tolist(), strict=True):
        end[above] = max(end[above], end[x])
    return position, parent, np.array(end)


def minimum_table(values: Tensor) -> Tensor:
    """The sparse table of ``values``, shape (n,): row r holds the minima of windows of 2**r.

    The shape is (1 + floor(log2(n)), n). The last 2**r - 1 entries of row r are undefined, because
    their windows would exceed the end.
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

    An interval is covered by two windows, one at each end, of the largest power of two that fits.

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

    All are in preorder. If edges are half the difference of heights, the path between two leaves is
    as long as the height of their lowest common ancestor. A label at an inner node gets an extra
    leaf.
    """
    n = len(parent)
    height = np.full(n, -np.inf)
    height[labels] = 0.0
    for x, length in zip(range(n - 1, 0, -1), reversed(edge.tolist()[1:]), strict=True):
        height[parent[x]] = max(height[parent[x]], height[x] + length)
    height = np.maximum(height, 0)  # nodes without labels below them
    inner = labels[np.isin(labels, parent)]
    up = np.concatenate([parent, inner])
    half = np.concatenate([height[parent] - height, height[inner]]) / 2
    half[0] = 0
    own = dict(zip(inner.tolist(), range(n, len(up)), strict=True))
    leaves = np.array([own.get(label, label) for label in labels.tolist()])
    return up, torch.from_numpy(half).to(edge), leaves
