"""Random inputs: degenerate metrics, masses at both ends of a dtype's range, all target forms."""

import warnings
from typing import Any

import hypothesis.extra.numpy as hnp
import hypothesis.strategies as st
import numpy as np
import torch
from hypothesis import assume
from torch import Tensor

import wassloss as wl
from tests.oracles import Array

POWERS = [0.0, 0.5, 1.0, 2.0, 13.0]
SCALES: list[Any] = [None, "max", "median", 0.01, 1e3]
DTYPES = [torch.float32, torch.float64, torch.float16, torch.bfloat16]
FORMS = ["ids", "dense", "sparse", "coo", "csr"]


@st.composite
def metrics(draw: st.DrawFn, tame: bool = False) -> wl.ground.GroundMetric:
    """Any kind of metric, with labels that coincide, sometimes all of them."""
    try:
        return draw(_metrics(tame))
    except ValueError as error:  # a median of mostly zeros
        assume("is 0 over these" not in str(error))
        raise


@st.composite
def _metrics(draw: st.DrawFn, tame: bool) -> wl.ground.GroundMetric:
    kind = draw(st.sampled_from(["discrete", "line", "matrix", "tree", "grid", "points"]))
    keywords: dict[str, Any] = {
        "power": draw(st.sampled_from(POWERS)),
        "scale": draw(st.sampled_from(SCALES[:3] if tame else SCALES)),
    }
    labels = draw(st.integers(1, 7))
    dtype = draw(st.sampled_from([np.float64, np.float32]))
    spread = draw(st.sampled_from([1.0] if tame else [1.0, 0.0, 1e-3, 1e3]))
    place = st.one_of(st.integers(-3, 3).map(float), st.floats(-3, 3, width=32))

    def places(*shape: int) -> Array:
        return spread * draw(hnp.arrays(dtype, shape, elements=place))

    if kind == "discrete":
        return wl.ground.Discrete(labels, **keywords)
    if kind == "line":
        return wl.ground.Ordinal(places(labels), **keywords)
    if kind == "matrix":  # arbitrary costs, not a metric
        cost = abs(places(labels, labels))
        cost = cost + cost.T
        np.fill_diagonal(cost, 0)
        return wl.ground.Matrix(cost, **keywords)
    if kind == "tree":
        parents = [-1] + [draw(st.integers(0, i - 1)) for i in range(1, labels + 1)]
        lengths = abs(places(labels + 1))
        nodes = draw(st.lists(st.integers(0, labels), min_size=labels, max_size=labels))
        return wl.ground.Tree(parents, lengths, nodes, **keywords)
    if kind == "grid":
        return wl.ground.Grid(draw(st.sampled_from([(1,), (2, 3), (2, 1, 2)])), **keywords)
    return wl.ground.Embedding(places(labels, 2), normalize=False, **keywords)


def unit_of(metric: wl.ground.GroundMetric) -> float:
    """The largest cost, if it is a sensible unit for others."""
    try:
        return metric.max_cost() or 1.0
    except ValueError:  # it overflows its dtype
        return 1.0


@st.composite
def logits(draw: st.DrawFn, labels: int, batch: int) -> Tensor:
    """Logits from flat to certain, with some labels impossible: (batch, labels), any dtype."""
    spread = draw(st.sampled_from([0.0, 1.0, 30.0, 1e3, 1e4]))
    values = spread * draw(hnp.arrays(np.float64, (batch, labels), elements=st.floats(-1, 1)))
    out = draw(hnp.arrays(np.bool_, (batch, labels)))
    if draw(st.booleans()):
        out[:, draw(st.integers(0, labels - 1))] = False
        values[out] = -np.inf
    return torch.from_numpy(values).to(draw(st.sampled_from(DTYPES)))


@st.composite
def log_masses(draw: st.DrawFn, labels: int, batch: int) -> Tensor:
    """Logs of masses from tiny to huge: (batch, labels)."""
    middle = draw(st.sampled_from([0.0, -8.0, 8.0, -30.0, 30.0]))
    x = draw(hnp.arrays(np.float64, (batch, labels), elements=st.floats(-3, 3)))
    out = draw(hnp.arrays(np.bool_, (batch, labels)))
    if draw(st.booleans()):
        out[:, draw(st.integers(0, labels - 1))] = False
        x[out] = -np.inf
    return torch.from_numpy(x + middle).to(draw(st.sampled_from(DTYPES)))


@st.composite
def weights(draw: st.DrawFn, labels: int, batch: int) -> Array:
    """Targets with one, some or all labels, some of tiny weight: (batch, labels)."""
    weight = st.one_of(st.just(0.0), st.floats(0.01, 1.0), st.sampled_from([1e-30, 1e-320, 1e-6]))
    drawn = draw(hnp.arrays(np.float64, (batch, labels), elements=weight))
    drawn[drawn.sum(1) < 0.01, draw(st.integers(0, labels - 1))] = 1.0
    return drawn / drawn.sum(1, keepdims=True)


def in_form(y: Array, form: str, dtype: torch.dtype) -> Any:
    """The same weights as class ids (of the largest), dense, as a SparseTarget, or torch.sparse."""
    dense = torch.from_numpy(y).to(dtype)
    if form == "ids":
        return dense.argmax(1)
    if form == "dense":
        return dense
    if form == "coo":
        return dense.to_sparse_coo()
    if form == "csr":
        rows, columns = dense.nonzero(as_tuple=True)
        starts = torch.cat([torch.zeros(1, dtype=torch.long), (dense != 0).sum(1).cumsum(0)])
        values = dense[rows, columns]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # "in beta state"
            return torch.sparse_csr_tensor(
                starts, columns, values, dense.shape, check_invariants=True
            )
    width = max(1, int((dense != 0).sum(1).max())) if len(dense) else 1
    values, indices = dense.topk(min(width, dense.shape[1]), dim=1)
    return wl.SparseTarget(indices, values)
