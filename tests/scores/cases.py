"""Predictions and targets for scores, and the definitions as plain loops."""

import warnings
from typing import Any

import hypothesis.strategies as st
import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

import wassloss as wl
from tests.generators import reals
from wassloss.ground import Embedding, GroundMetric

Array = NDArray[Any]
K = 6
METRIC = Embedding(
    torch.randn(K, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64), power=2.0
)


@st.composite
def scores(draw: st.DrawFn, ties: bool = True) -> Array:
    """`(batch, K)`, with many ties or with none."""
    batch = draw(st.integers(1, 5))
    if ties:
        return draw(reals(-1, 1, (batch, K))).round(1)
    orders = [draw(st.permutations(range(K))) for _ in range(batch)]
    return np.array(orders) / 7.0


@st.composite
def tags(draw: st.DrawFn, batch: int, empty: bool = False) -> Array:
    """An indicator `(batch, K)`, each row with a tag unless it may be empty."""
    rows = st.sets(st.integers(0, K - 1), min_size=0 if empty else 1, max_size=K)
    drawn = np.zeros((batch, K))
    for row in drawn:
        row[list(draw(rows))] = 1.0
    return drawn


def forms(indicator: Array) -> dict[str, Any]:
    """The same true labels in every form."""
    dense = torch.from_numpy(indicator)
    padded = torch.where(dense > 0, torch.arange(K), -1)
    return {
        "float array": indicator,
        "integer array": indicator.astype(np.int32),
        "boolean array": indicator.astype(bool),
        "list": indicator.astype(int).tolist(),
        "reversed view": indicator[:, ::-1][:, ::-1],
        "tensor": dense,
        "single precision": dense.float(),
        "integer tensor": dense.long(),
        "boolean tensor": dense.bool(),
        "SparseTarget": wl.SparseTarget(padded, dense),
        "COO": dense.to_sparse(),
        "CSR": sparse_csr(dense),
        "integer COO": dense.long().to_sparse(),
        "scipy CSR": sparse.csr_array(indicator),
        "scipy boolean": sparse.csr_matrix(indicator.astype(bool)),
        "scipy COO": sparse.coo_matrix(indicator.astype(np.int8)),
        "scipy LIL": sparse.lil_matrix(indicator),
    }


def sparse_csr(dense: torch.Tensor) -> torch.Tensor:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # torch calls its CSR a beta
        return dense.to_sparse_csr()


def ranked(row: Array) -> list[int]:
    """Labels by decreasing score; ties in order."""
    return sorted(range(len(row)), key=lambda label: (-row[label], label))


def top_k_cost(x: Array, indicator: Array, metric: GroundMetric, k: int) -> Array:
    """The paper's definition, per example."""
    M = metric.distance().numpy()
    return np.array(
        [
            sum(min(M[guess, j] for j in np.flatnonzero(y)) for guess in ranked(row)[:k]) / k
            for row, y in zip(x, indicator, strict=True)
        ]
    )
