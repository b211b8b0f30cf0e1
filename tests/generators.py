"""Transport problems drawn by Hypothesis, each constructed with a known answer."""

from dataclasses import dataclass
from functools import cache
from typing import Any

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import torch
from torch import Tensor

from tests.oracles import INF, Array, objective
from wassloss.ground import Embedding, GroundMetric, Matrix, Ordinal, Tree

GAMMAS = {
    "balanced": (INF, INF),
    "relaxed": (0.5, 2.0),
    "semi-relaxed prediction": (0.5, INF),
    "semi-relaxed target": (INF, 0.5),
}
REGULARIZERS = ("plan", "product")
OBJECTIVES = [(gamma, regularizer) for gamma in GAMMAS.values() for regularizer in REGULARIZERS]
OBJECTIVE_NAMES = [f"{name}, {regularizer}" for name in GAMMAS for regularizer in REGULARIZERS]


@dataclass(frozen=True)
class Case:
    """A batch of one problem, and what is known about its optimum."""

    h: Tensor  # (1, labels)
    y: Tensor  # (1, labels)
    metric: GroundMetric
    value: float
    plan: Array | None = None  # (labels, labels)
    f: Array | None = None  # (sources,), for labels with mass
    g: Array | None = None  # (sinks,)
    keywords: dict[str, Any] | None = None  # epsilon, gamma, regularizer


def bipartite(cost: Array) -> Matrix:
    """A metric whose first labels are sources and last ones sinks, with arbitrary costs between."""
    n, m = cost.shape
    full = np.zeros((n + m, n + m))
    full[:n, n:], full[n:, :n] = cost, cost.T
    return Matrix(torch.from_numpy(full))


def _embed(T: Array, h: Array, y: Array) -> tuple[Array, Tensor, Tensor]:
    n, m = T.shape
    plan = np.zeros((n + m, n + m))
    plan[:n, n:] = T
    source, sink = np.zeros((1, n + m)), np.zeros((1, n + m))
    source[0, :n], sink[0, n:] = h, y
    return plan, torch.from_numpy(source), torch.from_numpy(sink)


def reals(low: float, high: float, shape: Any) -> st.SearchStrategy[Array]:
    return hnp.arrays(np.float64, shape, elements=st.floats(low, high))


@st.composite
def masses(draw: st.DrawFn, labels: int, batch: int = 1) -> Tensor:
    """Points of the simplex, `(batch, labels)`, with some zero entries."""
    entry = st.one_of(st.just(0.0), st.floats(0.01, 1.0))
    drawn = draw(hnp.arrays(np.float64, (batch, labels), elements=entry))
    drawn[drawn.sum(1) == 0] = 1.0
    return torch.from_numpy(drawn / drawn.sum(1, keepdims=True))


@st.composite
def entropic_cases(draw: st.DrawFn, gamma: tuple[float, float], regularizer: str) -> Case:
    """A cost for which a given plan and potentials satisfy the optimality conditions."""
    shape = draw(st.tuples(st.integers(1, 4), st.integers(2, 4)))
    T = draw(reals(0.01, 1.0, shape))
    f, g = draw(reals(-1.0, 1.0, shape[0])), draw(reals(-1.0, 1.0, shape[1]))
    epsilon = draw(st.sampled_from([0.02, 0.3, 2.0]))

    def masses_and_cost(f: Array) -> tuple[Array, Array, Array]:
        h = T.sum(1) * np.exp(f / gamma[0])
        y = T.sum(0) * np.exp(g / gamma[1])
        reference = np.exp(-1.0) if regularizer == "plan" else np.outer(h, y)
        return h, y, f[:, None] + g - epsilon * np.log(T / reference)

    low = masses_and_cost(f)[2].min()
    # Costs must not be negative: raise f, and with it a product reference, until they are not.
    stiffness = 1.0 if regularizer == "plan" else 1.0 + epsilon / gamma[0]
    f = f + max(0.0, -low) / stiffness
    h, y, M = masses_and_cost(f)
    M = M.clip(min=0.0)
    value = objective(T, h, y, M, epsilon, gamma, regularizer)
    plan, source, sink = _embed(T, h, y)
    keywords = {"epsilon": epsilon, "gamma": gamma, "regularizer": regularizer}
    return Case(source, sink, bipartite(M), value, plan, f, g, keywords)


@st.composite
def exact_cases(draw: st.DrawFn) -> Case:
    """A cost that equals the sum of given potentials wherever a given plan has mass."""
    n, m = draw(st.tuples(st.integers(1, 5), st.integers(2, 5)))
    entry = st.one_of(st.just(0.0), st.floats(0.1, 1.0))
    T = draw(hnp.arrays(np.float64, (n, m), elements=entry))
    T[np.arange(max(n, m)) % n, np.arange(max(n, m)) % m] += 0.5  # every label has mass
    f, g = draw(reals(-1.0, 1.0, n)), draw(reals(-1.0, 1.0, m))
    slack = np.where(T > 0, 0.0, draw(reals(0.0, 1.0, (n, m))))
    M = f[:, None] + g + slack
    M = M - min(0.0, M.min())
    plan, source, sink = _embed(T, T.sum(1), T.sum(0))
    return Case(source, sink, bipartite(M), float((T * M).sum()), plan)


@st.composite
def assignments(draw: st.DrawFn) -> Case:
    """As many sinks as sources, each with unit mass, and one matching of cost zero."""
    n = draw(st.integers(2, 6))
    order = draw(st.permutations(range(n)))
    M = draw(reals(0.5, 2.0, (n, n)))
    M[np.arange(n), order] = 0.0
    T = np.zeros((n, n))
    T[np.arange(n), order] = 1.0
    plan, source, sink = _embed(T, np.ones(n), np.ones(n))
    return Case(source, sink, bipartite(M), 0.0, plan)


@st.composite
def translations(draw: st.DrawFn, power: float) -> Case:
    """A measure on a line and its translation, which is the optimal plan for a convex cost."""
    n = draw(st.integers(1, 6))
    places = draw(reals(-2.0, 2.0, n))
    by, scale = draw(st.floats(-3.0, 3.0)), draw(st.sampled_from([1.0, 2.5]))
    mass = draw(reals(0.05, 1.0, n))
    plan, source, sink = _embed(np.diag(mass), mass, mass)
    positions = torch.from_numpy(np.concatenate([places, places + by]))
    metric = Ordinal(positions, power=power, scale=scale)
    return Case(source, sink, metric, float(mass.sum() * (abs(by) / scale) ** power), plan)


@st.composite
def lines(draw: st.DrawFn, power: float, labels: int | None = None) -> Ordinal:
    """Labels on a line in any order, some at the same position."""
    n = labels or draw(st.integers(1, 7))
    place = st.one_of(st.integers(-3, 3).map(float), st.floats(-3.0, 3.0))
    positions = draw(hnp.arrays(np.float64, n, elements=place))
    scale = draw(st.sampled_from([1.0, 0.5, 4.0]))
    return Ordinal(torch.from_numpy(positions), power=power, scale=scale)


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    """Trees that may have edges of length 0; labels are any nodes, possibly repeated."""
    n = draw(st.integers(2, 9))
    parents = [-1] + [draw(st.integers(0, i - 1)) for i in range(1, n)]
    edge = st.one_of(st.just(0.0), st.floats(0.1, 3.0))
    lengths = torch.tensor([draw(edge) for _ in range(n)], dtype=torch.float64)
    nodes = draw(st.lists(st.integers(0, n - 1), min_size=1, max_size=7))
    return Tree(parents, lengths, nodes, scale=draw(st.sampled_from([1.0, 2.0])))


def random_masses(batch: int, labels: int, support: int | None = None, seed: int = 0) -> Tensor:
    """Points of the simplex with `support` positive entries each (default: all)."""
    rng = np.random.default_rng(seed)
    masses = np.zeros((batch, labels))
    for row in masses:
        at = rng.choice(labels, support or labels, replace=False)
        row[at] = rng.dirichlet(np.ones(len(at)))
    return torch.from_numpy(masses)


@cache
def random_metric(labels: int, seed: int = 0, dimension: int = 3) -> Embedding:
    """Normally distributed points, with costs scaled to a median of 1."""
    points = np.random.default_rng(seed).normal(size=(labels, dimension))
    return Embedding(torch.from_numpy(points), normalize=False, scale="median")


def is_finite(*tensors: Tensor) -> bool:
    return all(bool(t.isfinite().all()) for t in tensors)
