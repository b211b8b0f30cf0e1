"""Reductions: class and sample weights, ignored examples, pixels, integer types."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor

import wassloss as wl
from tests.fuzz.long.answers import answer
from tests.fuzz.long.compare import (
    as_array,
    costs_of,
    judge,
    metric_rounding,
    precision_of,
    problem,
    slack_of,
    tangent,
)
from tests.fuzz.long.draws import INTEGERS, chance, draw_metric, draw_weights, pick
from tests.fuzz.long.loss_check import working
from tests.fuzz.long.notes import note
from tests.fuzz.long.tally import Tally
from tests.fuzz.long.ways import both_ways
from tests.oracles import INF, Array

IGNORE = 99  # fits in uint8, and is no label here


def reductions(rng: Generator) -> Tally:
    drawn = draw_metric(rng, tame=True)
    metric, labels = drawn.metric, drawn.metric.size
    shape = pick(rng, [(64,), (16, 4), (4, 4, 4), ()], [3, 2, 2, 1])
    if labels > 12 and shape:
        shape = (3,)
    x = torch.from_numpy(rng.uniform(-4, 4, (*shape[:1], labels, *shape[1:])))
    x = x.to(pick(rng, [torch.float32, torch.float64, torch.bfloat16], [3, 3, 1]))
    batch = int(np.prod(shape))
    dense = chance(rng, 0.3) and bool(shape)
    ignored = np.zeros(batch, dtype=bool)
    if dense:
        y = draw_weights(rng, batch, labels)
        y = torch.from_numpy(y).to(working(x.dtype)).double().numpy()
        moved = np.moveaxis(y.reshape(*shape, labels), -1, 1)
        target: Any = torch.from_numpy(moved).to(working(x.dtype))
    else:
        ids = rng.integers(0, labels, batch)
        y = np.eye(labels)[ids]
        if chance(rng, 0.5):
            ignored = rng.random(batch) < pick(rng, [0.3, 1.0], [4, 1])
        kind = pick(rng, INTEGERS, [3, 1, 1, 1])
        target = torch.from_numpy(np.where(ignored, IGNORE, ids).reshape(shape)).to(kind)
    if ignored.any() and chance(rng, 0.5):  # their predictions have no effect
        rows = torch.from_numpy(ignored.reshape(shape))
        odd = pick(rng, [math.nan, math.inf, -math.inf])
        x = x.masked_fill(rows.unsqueeze(1 if shape else 0), odd)
    weight = sample_weight = None
    if chance(rng, 0.5):
        weight = torch.from_numpy(rng.uniform(0.1, 3.0, labels) * (rng.random(labels) < 0.9))
        weight = weight.to(working(x.dtype))
    if chance(rng, 0.5):
        drawn_weights = rng.uniform(0.1, 3.0, shape) * (
            rng.random(shape) < pick(rng, [0.8, 0.0], [9, 1])
        )
        sample_weight = torch.from_numpy(np.asarray(drawn_weights)).to(working(x.dtype))
    nearest = chance(rng, 0.3)
    made: Any = wl.NearestWassersteinLoss if nearest else wl.WassersteinLoss
    reduction = pick(rng, ["mean", "sum", "none"], [3, 2, 1])
    epsilon = drawn.unit * float(10 ** rng.uniform(-1.5, 1))
    keywords: dict[str, Any] = {
        "epsilon": epsilon,
        "regularizer": pick(rng, ["plan", "product"]),
        "kl_weight": 0.0,
        "normalize_cost": False,
    }
    loss_fn = made(metric, reduction=reduction, weight=weight, ignore_index=IGNORE, **keywords)
    in_place = chance(rng, 0.3)
    note(
        loss=loss_fn,
        dtype=x.dtype,
        target=target.dtype,
        shape=shape,
        weights=(weight is not None, sample_weight is not None),
    )

    def call() -> tuple[Tensor, Tensor | None]:
        leaf = x.detach().requires_grad_()
        loss = (
            loss_fn(leaf, target, sample_weight)
            if sample_weight is not None
            else loss_fn(leaf, target)
        )
        if in_place:
            loss *= 1.0
        loss.sum().backward()
        return loss.detach(), leaf.grad

    found = both_ways(call)
    precision, cost = precision_of(x.dtype), costs_of(metric)
    rows = np.moveaxis(x.double().numpy().reshape(*x.shape), 1, -1) if shape else x.double().numpy()
    rows = np.where(ignored[:, None], 0.0, rows.reshape(batch, labels))
    log_h = torch.log_softmax(torch.from_numpy(rows.reshape(batch, labels).copy()), 1).numpy()
    gamma = (INF, 0.0) if nearest else (INF, INF)
    a = answer(
        problem(
            log_h,
            y,
            cost,
            epsilon,
            precision,
            gamma=gamma,
            product=keywords["regularizer"] == "product",
        )
    )
    share = _share(y, ignored, weight, sample_weight)
    nothing = reduction == "mean" and not share.sum() > 0  # NaN, as in cross-entropy
    if reduction == "mean" and not nothing:
        share = share / share.sum()
    blur = metric_rounding(a, metric, precision)
    slack = share * (3 * slack_of(a.size, precision, drawn.unit) + blur)
    expected = share * (a.low + a.high) / 2
    slope = share[:, None] * tangent(a.slope, a.problem.h)
    known = a.firm >= a.moved * 3 * precision.tol
    wobble = np.where(known, a.wobbles[0].max(1), 0.0)
    spread = share * (12 * wobble * a.moved * precision.tol + 400 * precision.eps * a.size + blur)
    for way, outcome in found.items():
        if outcome.answer is None:
            raise AssertionError(outcome.refusal)
        loss, gradient = map(as_array, outcome.answer)
        if reduction == "none":
            wrong = ~(abs(loss.reshape(batch) - expected) <= slack)
            judge(
                f"{way} losses",
                wrong,
                outcome,
                {"found": loss.reshape(batch), "expected": expected},
            )
        else:
            fine = np.isnan(loss) if nothing else abs(loss - expected.sum()) <= slack.sum()
            wrong = np.array([not fine])
            judge(
                f"{way} {reduction}",
                wrong,
                outcome,
                {"found": loss[None], "expected": expected.sum()[None]},
            )
        flat = np.moveaxis(gradient, 1, -1).reshape(batch, labels) if shape else gradient[None]
        off = abs(flat - slope) - 2 * precision.out_eps * abs(slope) - 2 * precision.out_tiny
        wrong = (~(off <= spread[:, None])).any(1) & (known | ~np.isfinite(flat).all(1))
        judge(f"{way} gradient", wrong, outcome, {"found": flat, "expected": slope})
    return Tally(batch, loose=int((~a.tight).sum()))


def _share(y: Array, ignored: Array, weight: Tensor | None, sample_weight: Tensor | None) -> Array:
    """The weight of each example: its sample weight times the mean weight of its classes."""
    share = np.where(ignored, 0.0, 1.0)
    if weight is not None:
        share = share * (y @ weight.double().numpy()) / y.sum(1)
    if sample_weight is not None:
        share = share * sample_weight.double().numpy().reshape(-1)
    return share
