"""Scores and decisions against brute force, for every form of target, as tensors and arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.random import Generator
from scipy import sparse

import wassloss as wl
from tests.fuzz.long.answers import answer
from tests.fuzz.long.compare import costs_of, judge, metric_rounding, precision_of, problem
from tests.fuzz.long.draws import batch_size, chance, draw_metric, draw_targets, draw_weights, pick
from tests.fuzz.long.notes import note
from tests.fuzz.long.tally import Tally
from tests.fuzz.long.ways import Outcome
from tests.oracles import Array

TOLERANCE = {torch.float32: 1e-5, torch.float64: 1e-10}


def scores(rng: Generator) -> Tally:
    """Scores per example."""
    drawn = draw_metric(rng)
    metric, batch = drawn.metric, max(1, batch_size(rng, drawn.metric.size) // 2)
    dtype = pick(rng, [torch.float32, torch.float64])
    p = torch.from_numpy(draw_weights(rng, batch, metric.size)).to(dtype)
    if chance(rng, 0.3):  # ties
        p = (p * 4).round().add(0.1)
        p = p / p.sum(1, keepdim=True)
    targets = draw_targets(rng, draw_weights(rng, batch, metric.size), dtype)
    target, weights, given = targets.target, targets.weights, p
    form: Any = target
    if targets.form == "dense" and chance(rng, 0.3):
        form = sparse.csr_matrix(target.numpy())
    if chance(rng, 0.3):
        given = p.numpy()  # arrays in, arrays out
    k = int(rng.integers(1, metric.size + 1))
    note(metric=metric, dtype=dtype, target=targets.form, k=k)
    known = metric.with_cost(power=1.0, scale=None)
    cost = costs_of(known)  # (guesses, true labels)
    if not np.isfinite(cost).all():
        return Tally(batch, refused=batch)
    x, truth = p.double().numpy(), weights > 0
    order = np.argsort(-x, axis=1, kind="stable")[:, :k]
    rows = np.arange(batch)[:, None]
    nearest = np.where(truth[:, None, :], cost[order], np.inf).min(2)
    shares = weights / weights.sum(1, keepdims=True)
    largest = cost.max(initial=0.0)
    one = answer(problem(_log(x), shares, costs_of(known), 0.0, precision_of(dtype)))
    calls: dict[str, tuple[Any, Array, float]] = {
        "top-k cost": (
            wl.scores.top_k_cost(given, form, metric, k, reduction="none"),
            nearest.mean(1),
            largest,
        ),
        "expected distance": (
            wl.scores.distance_at_k(given, form, metric, reduction="none"),
            (cost[order[:, 0]] * shares).sum(1),
            largest,
        ),
        "Wasserstein": (
            wl.scores.mean_wasserstein(given, form, metric, reduction="none"),
            (one.low + one.high) / 2,
            10 * largest
            + metric_rounding(one, known, precision_of(dtype)).max() / TOLERANCE[dtype],
        ),
        "accuracy": (
            wl.scores.accuracy(given, form, reduction="none"),
            (weights[rows[:, 0], order[:, 0]] == weights.max(1)).astype(float),
            1.0,
        ),
        "precision": (
            wl.scores.precision_at_k(given, form, k, reduction="none"),
            truth[rows, order].mean(1),
            1.0,
        ),
        "recall": (
            wl.scores.recall_at_k(given, form, k, reduction="none"),
            truth[rows, order].sum(1) / truth.sum(1),
            1.0,
        ),
        "AUC": (wl.scores.ranking_auc(given, form, reduction="none"), _auc(x, truth), 1.0),
    }
    for name, (found, expected, size) in calls.items():
        values = np.asarray(found, dtype=float)
        allowed = TOLERANCE[dtype] * size + _rounding(known) * largest + 1e-30
        wrong = ~((abs(values - expected) <= allowed) | (np.isnan(values) & np.isnan(expected)))
        judge(name, wrong, Outcome(), {"found": values, "expected": expected})
    return Tally(batch * len(calls))


def decisions(rng: Generator) -> Tally:
    """The label of least expected cost, greedy sets of labels, and the top labels in order."""
    drawn = draw_metric(rng)
    metric, batch = drawn.metric, batch_size(rng, drawn.metric.size)
    dtype = pick(rng, [torch.float32, torch.float64])
    p = torch.from_numpy(draw_weights(rng, batch, metric.size)).to(dtype)
    k = int(rng.integers(1, metric.size + 1))
    note(metric=metric, dtype=dtype, k=k)
    cost, x = costs_of(metric), p.double().numpy()
    if not np.isfinite(cost).all():
        return Tally(batch, refused=batch)
    allowed = (10 * TOLERANCE[dtype] + 10 * _rounding(metric)) * cost.max(initial=0.0) + 1e-30
    one = wl.decisions.least_cost_label(p, metric).numpy()
    expected = x @ cost.T  # of each guess
    rows = np.arange(batch)
    wrong = ~(expected[rows, one] <= expected.min(1) + allowed) if batch else np.zeros(0, bool)
    judge("least-cost label", wrong, Outcome(), {"chosen": one, "expected cost": expected})

    several = wl.decisions.least_cost_labels(p, metric, k).numpy()
    distinct = np.array([len(set(row)) == k for row in several.tolist()], dtype=bool)
    judge("set of labels, each named once,", ~distinct, Outcome(), {"chosen": several})
    reached = np.full((batch, metric.size), np.inf)
    for step in range(k if batch else 0):
        # The expected cost if each label were added to those chosen so far.
        each = np.einsum("bi,bij->bj", x, np.minimum(reached[:, :, None], cost.T))
        for earlier in range(step):
            each[rows, several[:, earlier]] = np.inf
        wrong = ~(each[rows, several[:, step]] <= each.min(1) + allowed)
        judge(f"label {step} of a set", wrong, Outcome(), {"chosen": several, "cost": each})
        reached = np.minimum(reached, cost[several[:, step]])

    top = wl.decisions.top_labels(p, k).numpy()
    order = np.argsort(-x, axis=1, kind="stable")[:, :k]
    judge("top labels", (top != order).any(1), Outcome(), {"found": top, "expected": order})
    return Tally(3 * batch)


def _log(x: Array) -> Array:
    with np.errstate(divide="ignore"):
        return np.log(x)


def _rounding(metric: wl.ground.GroundMetric) -> float:
    return 8 * torch.finfo(metric.dtype).eps * (1 + metric.power)


def _auc(x: Array, truth: Array) -> Array:
    """How often a true label has the higher score, pair by pair; ties count half."""
    pairs = truth[:, :, None] & ~truth[:, None, :]
    won = (x[:, :, None] > x[:, None, :]) + 0.5 * (x[:, :, None] == x[:, None, :])
    with np.errstate(invalid="ignore"):
        return (won * pairs).sum((1, 2)) / pairs.sum((1, 2))
