"""Factories of one ground metric of every class, small enough for its K × K matrix."""

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from wassloss.ground import (
    Discrete,
    Embedding,
    Graph,
    Grid,
    GroundMetric,
    Matrix,
    Ordinal,
    Subset,
    Tree,
)

Factory = Callable[..., GroundMetric]


def _vectors() -> torch.Tensor:
    return torch.randn(7, 3, generator=torch.Generator().manual_seed(1), dtype=torch.float64)


def _ring(size: int) -> np.ndarray[Any, np.dtype[np.float64]]:
    lengths = np.zeros((size, size))
    for i in range(size):
        j = (i + 1) % size
        lengths[i, j] = lengths[j, i] = 0.5 + i
    return lengths


def _points_on_a_circle() -> torch.Tensor:
    angle = torch.arange(6, dtype=torch.float64)
    points = torch.stack([angle.cos(), angle.sin()], dim=1)
    return (points[:, None] - points).norm(dim=2)


FACTORIES: dict[str, Factory] = {
    "discrete": lambda **common: Discrete(5, **common),
    "ordinal": lambda **common: Ordinal(6, **common),
    "positions": lambda **common: Ordinal([2.5, -1.0, 7.0, 0.25], **common),
    "grid": lambda **common: Grid((2, 3, 2), spacing=[1.0, 0.5, 2.0], **common),
    "manhattan": lambda **common: Grid((3, 4), norm="manhattan", **common),
    "embedding": lambda **common: Embedding(_vectors(), **common),
    "raw embedding": lambda **common: Embedding(_vectors(), normalize=False, **common),
    "subset": lambda **common: Subset(Ordinal([0.0, 1.0, 4.0]), [5, 0, 2], 7, 2.5, **common),
    "tree": lambda **common: Tree(
        [1, -1, 1, 0, 0, 2, 3], lengths=[1.0, 9.0, 0.5, 2.0, 0.25, 1.0, 3.0], **common
    ),
    "tree heights": lambda **common: Tree(
        [1, -1, 1, 0, 0, 2, 3], nodes=[6, 4, 0, 5], distance="lca_height", **common
    ),
    "tree nodes": lambda **common: Tree([-1, 0, 0, 1, 1], nodes=[4, 0, 2], **common),
    "graph": lambda **common: Graph(_ring(6), **common),
    "matrix": lambda **common: Matrix(_points_on_a_circle(), **common),
}


def every() -> list[Any]:
    """Parameters for a test of a law that holds for every class."""
    return [pytest.param(factory, id=name) for name, factory in FACTORIES.items()]
