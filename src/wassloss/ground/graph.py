"""Labels in a network: roads, neighbourhoods, taxonomies whose notions may have several parents."""

from __future__ import annotations

import graphlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy  # loads scipy.sparse on first use
import torch
from torch import Tensor

from wassloss._checks import default_dtype
from wassloss.ground._cost import MetricKeywords, Scale
from wassloss.ground._inputs import Numbers, check_labels, float_tensor
from wassloss.ground.base import GroundMetric
from wassloss.ground.matrix import Matrix
from wassloss.ground.notions import Hierarchy, Notions

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack


class Graph(GroundMetric):
    r"""Lengths of shortest paths in an undirected graph.

    .. math:: d(i, j) = \min_{i = v_0, v_1, \ldots, v_m = j} \; \sum_t A_{v_{t-1} v_t}

    Dijkstra's algorithm runs on the CPU, only from the requested labels.

    Args:
        adjacency: edge lengths, shape (K, K), symmetric and non-negative, 0 for no edge; an array,
            a tensor, or any ``scipy.sparse`` matrix. The graph must be connected.
        power, scale, labels: see :class:`GroundMetric`. ``scale="max"`` searches from all labels.

    >>> triangle_with_a_long_side = Graph([[0, 1, 9], [1, 0, 2], [9, 2, 0]])
    >>> triangle_with_a_long_side.distance_columns(0)
    tensor([0., 1., 3.])
    """

    _FIELDS = ("indptr", "neighbours", "lengths")

    def __init__(self, adjacency: Numbers | Any, **keywords: Unpack[MetricKeywords]) -> None:
        if scipy.sparse.issparse(adjacency):
            edges = scipy.sparse.csr_matrix(adjacency)
            like = float_tensor("adjacency", np.zeros(1, edges.dtype), shape="(entries)")
        else:
            like = float_tensor("adjacency", adjacency, shape="(labels, labels)")
            edges = scipy.sparse.csr_matrix(like.double().cpu().numpy())
        self._edges = _checked_edges(edges)
        size = self._edges.shape[0]
        names = check_labels(keywords.get("labels"), size) or range(size)
        _, component = scipy.sparse.csgraph.connected_components(self._edges, directed=False)
        if (apart := np.flatnonzero(component != component[0])).size:
            ends = f"{names[0]!r} and {names[apart[0]]!r}"
            raise ValueError(f"adjacency must be connected, got no path between labels {ends}")
        super().__init__(size, like=like, **keywords)

    def _distance_columns(self, indices: Tensor) -> Tensor:
        sources, place = np.unique(indices.cpu().numpy(), return_inverse=True)
        search = scipy.sparse.csgraph.dijkstra
        found = search(self._edges, directed=False, indices=sources)  # (sources, K)
        return torch.from_numpy(found).to(self._anchor)[torch.from_numpy(place).to(self.device)]

    def _fields(self) -> Mapping[str, Any]:
        edges = self._edges
        return {"indptr": edges.indptr, "neighbours": edges.indices, "lengths": edges.data}

    @classmethod
    def _from_fields(cls, fields: Mapping[str, Any], **common: Any) -> Self:
        size = len(fields["indptr"]) - 1
        parts = (fields["lengths"], fields["neighbours"], fields["indptr"])
        edges = scipy.sparse.csr_matrix(parts, shape=(size, size))
        edges.check_format()
        return cls(edges, **common)

    def _summary(self) -> str:
        return f"{self.size} labels, {self._edges.nnz // 2} edges"


def _checked_edges(adjacency: Any) -> Any:
    """Check the edges, and return them as a float64 CSR matrix without zeros or loops."""
    if adjacency.shape[0] != adjacency.shape[1]:
        raise ValueError(f"adjacency must be square, got shape {adjacency.shape}")
    summed = adjacency.astype(np.float64)
    summed.sum_duplicates()
    entries = summed.tocoo()
    wrong = ~(np.isfinite(entries.data) & (entries.data >= 0))
    if wrong.any():
        at = int(wrong.argmax())
        got = f"adjacency[{entries.row[at]}, {entries.col[at]}] = {entries.data[at]:g}"
        raise ValueError(f"adjacency must be finite and not negative, got {got}")
    keep = (entries.data > 0) & (entries.row != entries.col)  # no shortest path takes a loop
    kept = (entries.data[keep], (entries.row[keep], entries.col[keep]))
    edges = scipy.sparse.csr_matrix(kept, shape=entries.shape)
    gap = (edges - edges.T).tocoo()
    # Tolerate rounding errors of float32: paths use the shorter of the two directions.
    uneven = np.flatnonzero(abs(gap.data) > 1e-5 * edges.data.max(initial=0.0))
    if len(uneven) > 0:
        i, j = int(gap.row[uneven[0]]), int(gap.col[uneven[0]])
        got = f"adjacency[{i}, {j}] = {edges[i, j]:g} and adjacency[{j}, {i}] = {edges[j, i]:g}"
        raise ValueError(f"adjacency must be symmetric, got {got}")
    return edges


class Taxonomy(Hierarchy, Matrix):
    """The metric of :func:`taxonomy`: a matrix of distances, and the named notions above labels.

    Args:
        distance: as in :class:`Matrix`.
        names: the names of all notions.
        edges: pairs of a notion and one of its parents, as indices into ``names``.
        notions: the index of each label in ``names``.
        power, scale, labels: see :class:`GroundMetric`.
    """

    _FIELDS = ("distance",)
    _OPTIONAL = ("names", "edges", "notions")

    def __init__(
        self,
        distance: Numbers,
        names: Sequence[str],
        edges: Numbers,
        notions: Numbers,
        **keywords: Unpack[MetricKeywords],
    ) -> None:
        super().__init__(distance, **keywords)
        above: list[list[int]] = [[] for _ in names]
        for child, parent in np.asarray(edges).tolist():
            above[child].append(parent)
        self._notions = Notions(
            tuple(str(name) for name in names),
            tuple(map(tuple, above)),
            tuple(np.asarray(notions).tolist()),
            self.labels,
        )

    def _ranges_of_word(self, word: str) -> list[tuple[int, int]]:
        below = self._known().labels_below(self._node(word))
        if not below:
            raise ValueError(f"{word!r} must have a label below it, got none")
        return [(label, label) for label in below]

    def _with_labels(self, labels: Sequence[str]) -> Self:
        other = super()._with_labels(labels)
        other._notions = replace(self._known(), label_names=other.labels)
        return other

    def _fields(self) -> Mapping[str, Any]:
        known = self._known()
        edges = [(x, parent) for x, above in enumerate(known.parents) for parent in above]
        return {
            **super()._fields(),
            "names": np.array(known.names, dtype=np.str_),
            "edges": np.array(edges, dtype=np.int64).reshape(-1, 2),
            "notions": np.array(known.labels),
        }


def taxonomy(
    parents: Mapping[str, Sequence[str]],
    labels: Sequence[str] | None = None,
    *,
    power: float = 1.0,
    scale: Scale = None,
) -> Matrix:
    """Lengths of shortest paths, up and down, in a directed acyclic graph of notions.

    WordNet and the Gene Ontology are such graphs. Use :class:`Tree` if each notion has one parent.
    As in a tree, ``target``, ``nodes``, ``parents`` and ``lowest_common`` take notions by name.

    Args:
        parents: the parents of each notion; notions without parents need not be listed.
        labels: the notions that are labels; by default those that are not a parent, in the order of
            ``parents``.
        power: exponent of the cost, see :class:`GroundMetric`.
        scale: divisor of lengths, see :class:`GroundMetric`.

    >>> parents = {"dog": ["pet", "canine"], "wolf": ["canine"], "cat": ["pet"]}
    >>> taxonomy(parents | {"pet": ["animal"], "canine": ["animal"]}).distance_columns(0)
    tensor([0., 2., 2.])
    """
    for name, above in parents.items():
        if isinstance(above, str):
            raise TypeError(f"parents[{name!r}] must be a sequence of names, got {above!r}")
    try:
        place = {
            name: i for i, name in enumerate(graphlib.TopologicalSorter(parents).static_order())
        }
    except graphlib.CycleError as error:
        raise ValueError(f"parents must be acyclic, got {' → '.join(error.args[1])}") from None
    edges = [(place[name], place[parent]) for name in parents for parent in parents[name]]
    if labels is None:
        inner = {parent for above in parents.values() for parent in above}
        labels = [name for name in parents if name not in inner]
    unknown = [name for name in labels if name not in place]
    if unknown or not labels:
        raise ValueError(
            f"labels must be notions of the taxonomy, got {unknown[0] if unknown else 'none'}"
        )
    chosen = [place[name] for name in labels]
    ends = np.array(edges, dtype=np.int64).reshape(-1, 2).T
    graph = scipy.sparse.csr_matrix((np.ones(len(edges)), tuple(ends)), shape=2 * (len(place),))
    search = scipy.sparse.csgraph.dijkstra
    table = search(graph, directed=False, unweighted=True, indices=chosen)[:, chosen]
    apart = np.argwhere(~np.isfinite(table))
    if len(apart):
        one, other = (labels[i] for i in apart[0])
        raise ValueError(f"parents must connect all labels, got {one!r} and {other!r} apart")
    dense = torch.from_numpy(table).to(default_dtype())
    return Taxonomy(
        dense, list(place), np.array(edges), chosen, power=power, scale=scale, labels=labels
    )
