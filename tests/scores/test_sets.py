"""Scores of guesses where the truth is a set of labels."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch

import wassloss as wl
from wassloss import scores
from wassloss.ground import Ordinal, Tree

TREE = Tree.from_paths(
    [
        ("animal", "dog", "husky"),
        ("plant", "rose"),
        ("animal", "cat"),
        ("animal", "dog", "poodle"),
        ("stone",),
    ]
)
K = TREE.size
ALL_SETS = [list(s) for n in range(1, K + 1) for s in itertools.combinations(range(K), n)]
P = torch.rand(len(ALL_SETS), K, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
GUESS = P.argmax(1).tolist()


def test_every_set() -> None:
    target, d = wl.SetTarget(ALL_SETS), TREE.distance().numpy()
    pairs = list(zip(GUESS, ALL_SETS, strict=True))
    for found, expected in (
        (scores.accuracy(P, target, reduction="none"), [g in s for g, s in pairs]),
        (scores.top_k_cost(P, target, TREE, reduction="none"), [d[g, s].min() for g, s in pairs]),
        (
            scores.negative_log_likelihood(P, target, reduction="none"),
            [-math.log(p[s].sum() / p.sum()) for p, s in zip(P, ALL_SETS, strict=True)],
        ),
    ):
        np.testing.assert_allclose(found, np.array(expected, dtype=float), rtol=1e-12)


def test_one_label_is_a_class_id() -> None:
    ids = torch.arange(len(P)) % K
    for function, more in (
        (scores.accuracy, ()),
        (scores.negative_log_likelihood, ()),
        (scores.top_k_cost, (TREE, [1, 2])),
        (scores.hierarchical_fbeta, (TREE,)),
    ):
        found = function(P, wl.SetTarget.from_ranges(ids, ids), *more)
        np.testing.assert_allclose(found, function(P, ids, *more))


def ancestors(path: str) -> list[str]:
    parts = path.split("/")
    return ["/".join(parts[: n + 1]) for n in range(len(parts))]


PATHS = ["animal/dog/husky", "plant/rose", "animal/cat", "animal/dog/poodle", "stone"]


@pytest.mark.parametrize("beta", [0.0, 1.0, 2.0, math.inf])
def test_hierarchical_scores_by_their_definition(beta: float) -> None:
    truths = ["animal/dog/husky", "animal/dog", "animal", "plant", "stone", "animal/cat"]
    target = TREE.target(truths)
    for guess in range(K):
        given = torch.eye(K)[[guess] * len(truths)]
        found = scores.hierarchical_fbeta(given, target, TREE, beta=beta, reduction="none")
        for value, truth in zip(found.tolist(), truths, strict=True):
            # A node with a single label below it is not told from that label.
            true = ancestors("plant/rose" if truth == "plant" else truth)
            answer = ancestors(PATHS[guess])[: len(true)]
            common = len(set(true) & set(answer))
            precision, recall = common / len(answer), common / len(true)
            if beta == math.inf:
                expected = recall
            elif not common:
                expected = 0.0
            else:
                expected = (1 + beta**2) * precision * recall / (beta**2 * precision + recall)
            assert value == pytest.approx(expected), (guess, truth)


def test_any_guess_is_right_where_nothing_is_known() -> None:
    target = wl.SetTarget([range(K)] * len(P))
    assert scores.hierarchical_fbeta(P, target, TREE) == 1
    assert scores.accuracy(P, target) == 1
    assert scores.top_k_cost(P, target, TREE) == 0
    assert scores.negative_log_likelihood(P, target) == pytest.approx(0, abs=1e-12)


def test_arrays_weights_and_accumulators() -> None:
    target, weight = wl.SetTarget(ALL_SETS), np.arange(len(P), dtype=float)
    of_each = scores.top_k_cost(P.numpy(), target, TREE, reduction="none")
    assert isinstance(of_each, np.ndarray)
    mean = scores.top_k_cost(P.numpy(), target, TREE, sample_weight=weight)
    assert mean == pytest.approx(np.average(of_each, weights=weight))
    pytest.importorskip("torchmetrics")
    from wassloss.scores.accumulators import Accumulator

    for function, more in ((scores.top_k_cost, (TREE,)), (scores.hierarchical_fbeta, (TREE,))):
        accumulator = Accumulator(function, *more)
        for rows in (slice(0, 7), slice(7, None)):
            accumulator.update(P[rows], target[rows])
        np.testing.assert_allclose(accumulator.compute(), function(P, target, *more))


@pytest.mark.parametrize(
    "call",
    [
        lambda t: scores.brier_score(P, t),
        lambda t: scores.recall_at_k(P, t),
        lambda t: scores.distance_at_k(P, t, TREE),
        lambda t: scores.mistake_severity(P, t, TREE),
        lambda t: scores.mean_wasserstein(P, t, TREE),
        lambda t: scores.expected_calibration_error(P, t),
        lambda t: scores.quadratic_weighted_kappa(P, t),
    ],
)
def test_other_scores_take_no_sets(call: Any) -> None:
    with pytest.raises(TypeError, match="got a SetTarget: only accuracy"):
        call(wl.SetTarget(ALL_SETS))


def test_bad_input() -> None:
    with pytest.raises(
        ValueError, match="allow at least one label per example, got none in example"
    ):
        scores.accuracy(P[:2], wl.SetTarget([[0], []]))
    with pytest.raises(TypeError, match="metric must be a Tree, got Ordinal"):
        scores.hierarchical_fbeta(P, wl.SetTarget(ALL_SETS), Ordinal(K))
    with pytest.raises(ValueError, match="beta must be at least 0, got -1"):
        scores.hierarchical_fbeta(P, wl.SetTarget(ALL_SETS), TREE, beta=-1)
