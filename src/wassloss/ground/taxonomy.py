"""Taxonomies in which a notion may have several parents, such as WordNet or the Gene Ontology."""

from __future__ import annotations

import graphlib
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal

import numpy as np
import scipy  # which imports scipy.sparse when it is first used
import torch
from numpy.typing import NDArray

from wassloss._checks import check_choice
from wassloss.ground._cost import CostKeywords
from wassloss.ground.matrix import Matrix

if TYPE_CHECKING:
    from typing_extensions import Unpack


def taxonomy(
    parents: Mapping[str, Sequence[str]],
    labels: Sequence[str] | None = None,
    *,
    distance: Literal["path", "lca_height"] = "path",
    **cost: Unpack[CostKeywords],
) -> Matrix:
    """Distances of labels in a directed acyclic graph of notions; :class:`Tree` is for trees.

    Args:
        parents: the parents of each notion; those without need not be listed.
        labels: the notions that are labels; by default those that are no parent, in the order in
            which they are listed.
        distance: ``"path"``, the length of the shortest path along edges in either direction, or
            ``"lca_height"``, the least height of a common ancestor: as many steps as lead from it
            to the farthest label below it. Heights need not satisfy the triangle inequality.
        **cost: ``power`` and ``scale``; see :class:`GroundMetric`.

    >>> parents = {"dog": ["pet", "canine"], "wolf": ["canine"], "cat": ["pet"]}
    >>> taxonomy(parents | {"pet": ["animal"], "canine": ["animal"]}).distance_columns(0)
    tensor([0., 2., 2.])
    """
    check_choice("distance", distance, ("path", "lca_height"))
    for name, above in parents.items():
        if isinstance(above, str):
            raise TypeError(f"parents[{name!r}] must be a sequence of names, got {above!r}")
    try:
        order = list(graphlib.TopologicalSorter(parents).static_order())  # parents first
    except graphlib.CycleError as error:
        raise ValueError(f"parents must have no cycle, got {' → '.join(error.args[1])}") from None
    if labels is None:
        inner = {parent for above in parents.values() for parent in above}
        labels = [name for name in parents if name not in inner]
    place = {name: i for i, name in enumerate(order)}
    unknown = [name for name in labels if name not in place]
    if unknown or not labels:
        raise ValueError(
            f"labels must be notions of the taxonomy, got {unknown[0] if unknown else 'none'}"
        )
    chosen = [place[name] for name in labels]
    up = [[place[parent] for parent in parents.get(name, ())] for name in order]
    table = _paths(up, chosen) if distance == "path" else _heights(up, chosen)
    apart = np.argwhere(~np.isfinite(table))
    if len(apart):
        one, other = (labels[i] for i in apart[0])
        raise ValueError(f"parents must connect all labels, got {one!r} and {other!r} apart")
    dense = torch.from_numpy(table).to(torch.get_default_dtype())
    return Matrix(dense, labels=labels, **cost)


def _paths(up: list[list[int]], chosen: list[int]) -> NDArray[np.float64]:
    edges = [(node, parent) for node, above in enumerate(up) for parent in above]
    ends = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    graph = scipy.sparse.csr_matrix((np.ones(len(edges)), tuple(ends)), shape=(len(up), len(up)))
    search = scipy.sparse.csgraph.dijkstra
    found: NDArray[np.float64] = search(graph, directed=False, unweighted=True, indices=chosen)
    return found[:, chosen]


def _heights(up: list[list[int]], chosen: list[int]) -> NDArray[np.float64]:
    below: list[set[int]] = [set() for _ in up]  # labels in the subtree of each node
    height = np.zeros(len(up))
    for label, node in enumerate(chosen):
        below[node].add(label)
    for node in reversed(range(len(up))):
        for parent in up[node]:
            below[parent] |= below[node]
            if below[node]:
                height[parent] = max(height[parent], height[node] + 1)
    found = np.full((len(chosen), len(chosen)), np.inf)
    for node in np.argsort(-height, kind="stable"):  # lower ones overwrite what is above them
        own = sorted(below[node])
        found[np.ix_(own, own)] = height[node]
    np.fill_diagonal(found, 0)
    return found
