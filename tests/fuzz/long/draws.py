"""Random inputs from a seeded generator: every kind of metric, prediction and target.

The Hypothesis tests draw from `tests.fuzz.cases`, which shrinks well; here a whole batch is drawn
at once, which is fast.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor

import wassloss as wl
from tests.oracles import INF, Array

T = TypeVar("T")

DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
INTEGERS = [torch.int64, torch.int32, torch.uint8, torch.int16]
FORMS = ["ids", "dense", "sparse", "coo", "csr"]
DISTANCES = [
    *["discrete", "ordinal", "positions", "tree", "grid", "embedding", "matrix", "graph"],
    "cdist",
]
# Relative to the largest cost: from almost exact to almost free.
EPSILONS = [1e-6, 1e-3, 0.05, 0.3, 1.0, 30.0, 1e6]
GAMMAS = [1e-3, 0.1, 1.0, 30.0, 1e6, INF]
LARGEST_BLOCK = 9000  # entries of a batch's costs: 128 examples of 8 labels, 5 of 40


def pick(rng: Generator, options: Sequence[T], shares: Sequence[float] | None = None) -> T:
    """Choose one of several options; `shares` need not sum to 1."""
    p = None if shares is None else np.array(shares) / sum(shares)
    return options[int(rng.choice(len(options), p=p))]


def chance(rng: Generator, share: float) -> bool:
    return bool(rng.random() < share)


def batch_size(rng: Generator, labels: int) -> int:
    """Mostly as many as can be checked fast; sometimes few, or none."""
    if chance(rng, 0.04):
        return int(rng.integers(0, 4))
    return int(np.clip(LARGEST_BLOCK // labels**2, 4, 192))


@dataclass(frozen=True)
class Drawn:
    """A metric, and its distances computed independently from the definition in NumPy."""

    metric: wl.ground.GroundMetric
    distance: Callable[[], Array]

    @property
    def unit(self) -> float:
        """The largest cost, if it is a sensible unit for others."""
        try:
            return self.metric.max_cost() or 1.0
        except ValueError:  # it overflows its dtype
            return 1.0


def draw_metric(rng: Generator, *, tame: bool = False, symmetric: bool = False) -> Drawn:
    """Any metric, and non-metric costs unless `symmetric`; `tame` has costs of about 1.

    Labels may coincide, sometimes all of them.
    """
    power = pick(rng, [1.0, 2.0, 0.5, 0.0, 13.0], [4, 3, 2, 1, 1])
    scale: Any = pick(
        rng, ["max", "median", None, 0.01, 1e3], [3, 3, 3 * (not tame), *[not tame] * 2]
    )
    labels = int(rng.integers(1, 13)) if chance(rng, 0.95) else int(rng.integers(13, 41))
    spread = 1.0 if tame else pick(rng, [1.0, 0.0, 1e-3, 1e3], [12, 1, 1, 1])
    kinds = DISTANCES if symmetric else [*DISTANCES, "cost"]
    build, distance = _parts(rng, pick(rng, kinds), labels, spread)
    try:
        return Drawn(build(power=power, scale=scale), distance)
    except ValueError as error:  # for example a median of mostly zeros
        if "is 0 over these" not in str(error):
            raise
        return Drawn(build(power=power, scale=None), distance)


Parts = tuple[Callable[..., wl.ground.GroundMetric], Callable[[], Array]]


def _parts(rng: Generator, kind: str, labels: int, spread: float) -> Parts:
    dtype = pick(rng, [np.float32, np.float64])

    def places(*shape: int) -> Array:
        drawn = rng.uniform(-3, 3, shape)
        whole = rng.random() < 0.4  # then some coincide
        return (spread * (np.round(drawn) if whole else drawn)).astype(dtype)

    if kind == "discrete":
        return lambda **k: wl.ground.Discrete(labels, **k), lambda: 1 - np.eye(labels)
    if kind == "ordinal":
        line = np.arange(labels, dtype=float)
        return lambda **k: wl.ground.Ordinal(labels, **k), lambda: abs(line[:, None] - line)
    if kind == "positions":
        at = places(labels)
        apart = at.astype(float)
        return lambda **k: wl.ground.Ordinal(at, **k), lambda: abs(apart[:, None] - apart)
    if kind == "tree":
        return _tree(rng, labels, abs(places(labels + 1)))
    if kind == "grid":
        return _grid(rng, labels)
    if kind == "embedding":
        return _embedding(rng, places(labels, int(rng.integers(1, 4))))
    if kind == "matrix":  # arbitrary costs, not a metric
        given = abs(places(labels, labels))
        given = given + given.T
        np.fill_diagonal(given, 0)
        return lambda **k: wl.ground.Matrix(given, **k), lambda: given.astype(float)
    if kind == "cost":  # of predicting one label for another, not vice versa
        any_cost = abs(places(labels, labels))
        return lambda **k: wl.ground.Cost(any_cost, **k), lambda: any_cost.astype(float)
    if kind == "cdist":  # with rounding of matrix products, also on the diagonal
        vectors = torch.from_numpy(places(labels, 3)).float()
        rounded = torch.cdist(vectors, vectors, compute_mode="use_mm_for_euclid_dist")
        clean = (rounded / 2 + rounded.T / 2).fill_diagonal_(0).double().numpy()
        return lambda **k: wl.ground.Matrix(rounded, **k), lambda: clean
    return _graph(rng, labels, (0.1 + abs(places(labels, labels))) * (spread or 1.0))


def _tree(rng: Generator, labels: int, lengths: Array) -> Parts:
    parents = np.array([-1, *(int(rng.integers(0, i)) for i in range(1, labels + 1))])
    nodes = rng.integers(0, labels + 1, labels)

    def distance() -> Array:
        above = np.eye(labels + 1)  # above[u, e]: the edge over e is on the way from u to the root
        for node in range(1, labels + 1):
            above[node] += above[parents[node]]
        above = above[nodes]
        edges = np.where(np.arange(labels + 1) == 0, 0.0, lengths.astype(float))
        return abs(above[:, None] - above) @ edges

    return lambda **k: wl.ground.Tree(parents, lengths, nodes, **k), distance


def _grid(rng: Generator, labels: int) -> Parts:
    shapes = [(labels,), (1, labels)]
    shapes += [(2, 3), (2, 1, 2), (3, 3), (2, 2, 3)] if labels < 13 else [(5, 8), (4, 5)]
    shape = pick(rng, shapes)
    norm = pick(rng, ["euclidean", "manhattan"])
    spacing = rng.uniform(0.2, 3.0, len(shape)) if chance(rng, 0.3) else np.ones(len(shape))

    def distance() -> Array:
        cells = np.stack(np.unravel_index(np.arange(math.prod(shape)), shape), 1) * spacing
        gaps = abs(cells[:, None] - cells)
        return gaps.sum(2) if norm == "manhattan" else np.sqrt((gaps**2).sum(2))

    return lambda **k: wl.ground.Grid(shape, norm, spacing, **k), distance


def _embedding(rng: Generator, vectors: Array) -> Parts:
    normalize = bool((vectors != 0).any(1).all()) and chance(rng, 0.5)

    def distance() -> Array:
        rows = vectors.astype(float)
        if normalize:
            rows = rows / np.sqrt((rows**2).sum(1, keepdims=True))
        return np.sqrt(((rows[:, None] - rows) ** 2).sum(2))

    return lambda **k: wl.ground.Embedding(vectors, normalize, **k), distance


def _graph(rng: Generator, labels: int, lengths: Array) -> Parts:
    order = rng.permutation(labels)
    edges = rng.random((labels, labels)) < 2 / labels
    edges[order[1:], order[:-1]] = True  # a path through all nodes makes it connected
    adjacency = np.where(np.tril(edges | edges.T, -1), lengths, 0)
    adjacency = adjacency + adjacency.T

    def distance() -> Array:
        found = np.where(adjacency > 0, adjacency, INF).astype(float)
        np.fill_diagonal(found, 0)
        for via in range(labels):
            found = np.minimum(found, found[:, via, None] + found[via])
        return found

    return lambda **k: wl.ground.Graph(adjacency, **k), distance


LAYOUTS = ["contiguous", "transposed", "strided", "offset", "channels last"]


def laid_out(rng: Generator, x: Tensor) -> Tensor:
    """The same numbers, in half of the draws with another memory layout."""
    layout = pick(rng, LAYOUTS, [4, 1, 1, 1, 1])
    if layout == "transposed" and x.dim() == 2:
        return x.T.contiguous().T
    if layout == "strided":
        wide = torch.full([3 * size for size in x.shape], 7, dtype=x.dtype)  # gaps are not empty
        part = wide[(slice(1, None, 3),) * x.dim()]
        return part.copy_(x)
    if layout == "offset":
        longer = x.new_full((3 + x.numel(),), 7)  # torch.cat fails under autocast in float16
        longer[3:] = x.flatten()
        return longer[3:].view(x.shape)
    if layout == "channels last" and x.dim() == 2:  # as pixels of channels-last images
        return x[:, None, :, None].to(memory_format=torch.channels_last)[:, 0, :, 0]
    return x


def one_for_all(rng: Generator, x: Tensor) -> Tensor:
    """Sometimes repeat the first example, expanded without memory of its own."""
    return x[:1].expand_as(x) if len(x) and chance(rng, 0.08) else laid_out(rng, x)


def draw_logits(rng: Generator, batch: int, labels: int) -> Tensor:
    """Logits from flat to certain, with some labels impossible, in any floating dtype."""
    spread = rng.choice(
        [0.0, 1.0, 5.0, 30.0, 1e3, 1e4], (batch, 1), p=[0.05, 0.35, 0.3, 0.2, 0.05, 0.05]
    )
    values = spread * rng.uniform(-1, 1, (batch, labels))
    _rule_out(rng, values)
    return one_for_all(rng, torch.from_numpy(values).to(pick(rng, DTYPES, [4, 4, 1, 1])))


def draw_log_masses(rng: Generator, batch: int, labels: int) -> Tensor:
    """Logs of masses of about 1; in some batches from tiny to huge."""
    middle = rng.choice([0.0, 0.0, -8.0, 8.0, -30.0, 30.0], (batch, 1)) * chance(rng, 0.2)
    values = middle + rng.uniform(-3, 3, (batch, labels))
    _rule_out(rng, values)
    return one_for_all(rng, torch.from_numpy(values).to(pick(rng, DTYPES, [4, 4, 1, 1])))


def draw_totals(rng: Generator, batch: int) -> Array:
    """Masses of targets, `(batch, 1)`, of about 1 in most batches."""
    if chance(rng, 0.2):
        return rng.choice([1.0, 1.0, 1e-3, 1e3, 1e-12, 1e12], (batch, 1))
    return rng.uniform(0.1, 10.0, (batch, 1))


def _rule_out(rng: Generator, values: Array) -> None:
    batch, labels = values.shape
    if not chance(rng, 0.3):
        return
    out = (rng.random((batch, labels)) < 0.3) & (rng.random((batch, 1)) < 0.5)
    out[np.arange(batch), rng.integers(0, labels, batch)] = False
    values[out] = -INF


def draw_weights(rng: Generator, batch: int, labels: int) -> Array:
    """Targets with one, some or all labels, some of tiny weight; each sums to 1."""
    drawn = rng.uniform(0.01, 1.0, (batch, labels))
    drawn[rng.random((batch, labels)) > rng.choice([0.1, 0.4, 1.0], (batch, 1))] = 0.0
    if chance(rng, 0.3):
        little = rng.choice([1e-3, 1e-6, 1e-12, 1e-30, 1e-320], (batch, labels))
        drawn = np.where(rng.random((batch, labels)) < 0.15, little, drawn)
    empty = drawn.sum(1) < 0.01
    drawn[empty, rng.integers(0, labels, batch)[empty]] = 1.0
    return drawn / drawn.sum(1, keepdims=True)


@dataclass(frozen=True)
class Targets:
    """A target in one of its forms, and its rounded weights in double precision."""

    form: str
    target: Any
    weights: Array  # (batch, labels)

    def scaled(self, factor: float) -> Targets:
        """The target with its weights multiplied by a factor."""
        if isinstance(self.target, wl.SparseTarget):
            target: Any = wl.SparseTarget(self.target.indices, self.target.weights * factor)
            weights = self.weights * factor
        else:
            target = self.target * factor
            weights = target.to_dense().double().numpy()
        return Targets(self.form, target, weights)


def draw_targets(
    rng: Generator, y: Array, dtype: torch.dtype, forms: Sequence[str] = FORMS
) -> Targets:
    """The same weights as class ids (of the largest), dense, as a SparseTarget, or torch.sparse."""
    form = pick(rng, forms)
    dense = torch.from_numpy(y).to(dtype)
    if form == "ids":
        ids = dense.argmax(1) if len(dense) else torch.zeros(0, dtype=torch.long)
        kind = pick(rng, INTEGERS, [4, 1, 1, 1])
        given = laid_out(rng, ids.to(kind))
        return Targets(f"ids as {kind}", given, np.eye(y.shape[1])[ids.numpy()])
    return Targets(form, _in_form(rng, dense, form), dense.double().numpy())


def _in_form(rng: Generator, dense: Tensor, form: str) -> Any:
    if form == "dense":
        return laid_out(rng, dense)
    if form == "coo":
        return dense.to_sparse_coo()
    if form == "csr":
        rows, columns = dense.nonzero(as_tuple=True)
        starts = torch.cat([torch.zeros(1, dtype=torch.long), (dense != 0).sum(1).cumsum(0)])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # "in beta state"
            return torch.sparse_csr_tensor(
                starts, columns, dense[rows, columns], dense.shape, check_invariants=True
            )
    width = max(1, int((dense != 0).sum(1).max())) if len(dense) else 1
    width = min(dense.shape[1], width + int(rng.integers(0, 2)))
    weights, indices = dense.topk(width, dim=1)
    if chance(rng, 0.3):  # padding may have any index, even an invalid one
        indices = torch.where(weights == 0, -1, indices)
    shuffle = torch.from_numpy(rng.permutation(width))
    indices, weights = laid_out(rng, indices[:, shuffle]), laid_out(rng, weights[:, shuffle])
    return wl.SparseTarget(indices, weights)


def draw_epsilon(rng: Generator, unit: float) -> float:
    """From almost exact to almost free; mostly typical values."""
    if chance(rng, 0.7):
        return unit * float(10 ** rng.uniform(-3, 1))
    return unit * pick(rng, EPSILONS)
