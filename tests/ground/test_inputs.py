"""Bad input: the message names the argument, what was expected and what was passed."""

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse

from wassloss.ground import Discrete, Embedding, Graph, Grid, Matrix, Ordinal, Tree

INF, NAN = float("inf"), float("nan")
WITH_GRAD = torch.ones(2, requires_grad=True)

VALUES: list[tuple[Callable[[], Any], str]] = [
    (lambda: Discrete(0), "size must be at least 1, got 0"),
    (lambda: Ordinal(-2), "positions, as a number of labels, must be at least 1, got -2"),
    (lambda: Ordinal([]), "positions must not be empty, got shape (0,)"),
    (lambda: Ordinal([0.0, NAN]), "positions must be finite, got positions[1] = nan"),
    (lambda: Ordinal(np.array(3.0)), "positions must have shape (labels), got ()"),
    (lambda: Ordinal(np.zeros((2, 2))), "positions must have shape (labels), got (2, 2)"),
    (lambda: Ordinal(3, power=-0.5), "power must be a finite number, at least 0, got -0.5"),
    (lambda: Ordinal(3, power=NAN), "power must be a finite number, at least 0, got nan"),
    (lambda: Ordinal(3, power=INF), "power must be a finite number, at least 0, got inf"),
    (
        lambda: Ordinal(3, scale=0),
        "scale must be None, a positive number, 'max' or 'median', got 0",
    ),
    (lambda: Ordinal(3, scale=INF), "'max' or 'median', got inf"),
    (lambda: Ordinal(3, scale="mean"), "'max' or 'median', got 'mean'"),  # type: ignore[arg-type]
    (lambda: Ordinal(3, labels=["a", "b"]), "labels must hold 3 names, got 2"),
    (lambda: Ordinal(3, labels=["a", "b", "a"]), "labels must differ, got 'a' at 0 and at 2"),
    (lambda: Grid(()), "shape must have at least one axis, got ()"),
    (lambda: Grid((3, 0)), "shape[1] must be at least 1, got 0"),
    (lambda: Grid((3,), norm="l1"), "norm must be 'euclidean' or 'manhattan', got 'l1'"),  # type: ignore[arg-type]
    (lambda: Grid((3, 3), spacing=0.0), "spacing must be positive, got [0.0]"),
    (lambda: Grid((3, 3), spacing=[1, 2, 3]), "spacing must be one number or 2, got 3"),
    (lambda: Grid((3, 3), spacing=INF), "spacing must be finite, got spacing[0] = inf"),
    (lambda: Grid((3, 3), spacing=WITH_GRAD), "spacing must not require grad"),
    (lambda: Embedding([1.0, 2.0]), "vectors must have shape (labels, features), got (2,)"),
    (lambda: Embedding([[1.0], [INF]]), "vectors must be finite, got vectors[1, 0] = inf"),
    (
        lambda: Embedding([[1.0], [0.0]]),
        "must not hold a zero row to be normalized, got vectors[1]",
    ),
    (lambda: Embedding([[1.0], [2.0, 3.0]]), "vectors must be rectangular"),
    (lambda: Embedding(np.zeros((3, 0))), "vectors must not be empty, got shape (3, 0)"),
    (lambda: Tree([]), "parents must be one-dimensional and not empty, got shape (0,)"),
    (lambda: Tree([-1, -1]), "exactly one root, marked -1, got parents[0] = parents[1] = -1"),
    (lambda: Tree([1, 0]), "exactly one root, marked -1, got none"),
    (lambda: Tree([-1, 2, 3, 2]), "parents must form a tree, got a cycle through node 3"),
    (lambda: Tree([-1, 1]), "parents must form a tree, got a cycle through node 1"),
    (lambda: Tree([-1, 2]), "parents must be -1 for the root or in 0..1, got parents[1] = 2"),
    (
        lambda: Tree([-1, 0], lengths=[0.0]),
        "lengths must hold one number for each of 2 nodes, got 1",
    ),
    (lambda: Tree([1, -1, 1], lengths=[1, -5, -2]), "not be negative, got lengths[2] = -2"),
    (lambda: Tree([-1, 0], lengths=[0, NAN]), "lengths must be finite, got lengths[1] = nan"),
    (lambda: Tree([-1, 0], lengths=WITH_GRAD), "lengths must not require grad"),
    (lambda: Tree([-1, 0], nodes=[1, 2]), "nodes must be in 0..1, got nodes[1] = 2"),
    (lambda: Tree.from_paths([]), "paths must hold at least one path, got none"),
    (lambda: Tree.from_paths([("a",), ()]), "paths[1] must hold at least one name, got ()"),
    (lambda: Tree.from_paths([("a",), ("b",), ("a",)]), "distinct, got ('a',) at 0 and at 2"),
    (lambda: Graph(np.zeros((2, 3))), "adjacency must be square, got shape (2, 3)"),
    (lambda: Graph([[0, -1], [-1, 0]]), "be finite and not negative, got adjacency[0, 1] = -1"),
    (lambda: Graph([[0, 1], [2, 0]]), "symmetric, got adjacency[0, 1] = 1 and adjacency[1, 0] = 2"),
    (lambda: Graph([[0, 1], [0, 0]]), "symmetric, got adjacency[0, 1] = 1 and adjacency[1, 0] = 0"),
    (lambda: Graph([[0, INF], [INF, 0]]), "adjacency must be finite, got adjacency[0, 1] = inf"),
    (
        lambda: Graph(sparse.csr_array(np.array([[0, NAN], [NAN, 0]]))),
        "adjacency must be finite and not negative, got adjacency[0, 1] = nan",
    ),
    (lambda: Matrix([[0.0, 1.0]]), "distance must be square, got shape (1, 2)"),
    (lambda: Matrix([[0, 1], [NAN, 0]]), "distance must be finite, got distance[1, 0] = nan"),
    (lambda: Matrix([[0, 1], [-1, 0]]), "distance must not be negative, got distance[1, 0] = -1"),
    (
        lambda: Matrix([[0, 1], [1, 3]]),
        "distance must be 0 on the diagonal, got distance[1, 1] = 3",
    ),
    (
        lambda: Matrix([[0, 1, 2], [1, 0, 4], [2, 5, 0]]),
        "distance must be symmetric, got distance[1, 2] = 4 and distance[2, 1] = 5",
    ),
]

TYPES: list[tuple[Callable[[], Any], str]] = [
    (lambda: Discrete(2.5), "size must be an integer, got 2.5"),  # type: ignore[arg-type]
    (lambda: Discrete(True), "size must be an integer, got True"),
    (lambda: Ordinal(True), "positions, as a number of labels, must be an integer, got True"),
    (lambda: Ordinal(["a", "b"]), "positions must hold real numbers, got list of dtype <U1"),
    (lambda: Ordinal(None), "positions or labels must be given, got neither"),
    (lambda: Ordinal(3, power="2"), "power must be a number, got '2'"),  # type: ignore[arg-type]
    (lambda: Ordinal(3, scale=[1]), "'max' or 'median', got [1]"),  # type: ignore[arg-type]
    (lambda: Ordinal(3, labels="abc"), "sequence of names, got the single string 'abc'"),
    (lambda: Ordinal(2, labels=[1, 2]), "labels must hold strings, got labels[0] = 1"),  # type: ignore[list-item]
    (lambda: Grid(5), "shape must be a sequence of integers such as (5,), got 5"),  # type: ignore[arg-type]
    (lambda: Grid((2, 1.5)), "shape[1] must be an integer, got 1.5"),  # type: ignore[arg-type]
    (lambda: Embedding(torch.ones(2, 2) * 1j), "must be a dense real tensor, got torch.strided"),
    (lambda: Embedding(torch.eye(2).to_sparse()), "vectors must be a dense real tensor"),
    (lambda: Tree([-1.0, 0.0]), "parents must hold integers, got dtype float64"),
    (lambda: Tree.from_paths(["dog"]), "paths[0] must be a sequence of names, got 'dog'"),
    (lambda: Matrix([["0"]]), "distance must hold real numbers"),
]


@pytest.mark.parametrize(("build", "message"), VALUES, ids=[m for _, m in VALUES])
def test_wrong_values(build: Callable[[], Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        build()


@pytest.mark.parametrize(("build", "message"), TYPES, ids=[m for _, m in TYPES])
def test_wrong_types(build: Callable[[], Any], message: str) -> None:
    with pytest.raises(TypeError, match=re.escape(message)):
        build()


def test_reversed_and_read_only_arrays_are_indices_too() -> None:
    indices = np.arange(3)[::-1]
    indices.flags.writeable = False
    assert Ordinal(3).distance_columns(indices)[:, 0].tolist() == [2, 1, 0]


@pytest.mark.parametrize(
    "positions",
    [
        [0, 1, 3],
        (0.0, 1.0, 3.0),
        np.array([0, 1, 3], dtype=np.uint16),
        np.array([3.0, 1.0, 0.0])[::-1],
        np.array([0.0, 1.0, 3.0], dtype=">f8"),
        np.array([0.0, 1.0, 3.0], dtype=np.longdouble),
        torch.tensor([0, 1, 3]),
        torch.tensor([0.0, 1.0, 3.0], dtype=torch.float64),
    ],
)
def test_numbers_in_any_form(positions: Any) -> None:
    metric = Ordinal(positions)
    assert metric.positions.tolist() == [0, 1, 3]
    floating = isinstance(positions, np.ndarray) and positions.dtype.kind == "f"
    wide = floating or getattr(positions, "dtype", None) == torch.float64
    assert metric.dtype == (torch.float64 if wide else torch.float32)
