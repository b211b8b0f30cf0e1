"""The Sinkhorn divergence, as a loss and of measures: the sum of its three parts."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor

import wassloss as wl
from tests.fuzz.long.answers import Answer, answer
from tests.fuzz.long.compare import (
    as_array,
    costs_of,
    judge,
    metric_rounding,
    precision_of,
    problem,
    slack_of,
    tangent,
    wrong_values,
)
from tests.fuzz.long.draws import (
    batch_size,
    chance,
    draw_epsilon,
    draw_logits,
    draw_metric,
    draw_targets,
    draw_weights,
    pick,
)
from tests.fuzz.long.loss_check import loss_and_gradient, working
from tests.fuzz.long.notes import note
from tests.fuzz.long.tally import Tally
from tests.fuzz.long.ways import both_ways, check_refusal
from tests.losses import per_example


def debiased(rng: Generator) -> Tally:
    drawn = draw_metric(rng, tame=chance(rng, 0.8), symmetric=True)
    metric, unit = drawn.metric, drawn.unit
    batch = batch_size(rng, metric.size)
    x = draw_logits(rng, batch, metric.size)
    targets = draw_targets(rng, draw_weights(rng, batch, metric.size), working(x.dtype))
    keywords: dict[str, Any] = {
        "epsilon": max(draw_epsilon(rng, unit), 1e-3 * unit),
        "regularizer": pick(rng, ["plan", "product"]),
        "debiased": True,
    }
    note(metric=metric, dtype=x.dtype, target=targets.form, **keywords)
    by_module, cotangent = chance(rng, 0.5), torch.from_numpy(rng.uniform(0.5, 2.0, batch))

    def loss(x: Tensor) -> Tensor:
        if not by_module:
            return per_example.wasserstein_loss(x, targets.target, metric, **keywords)
        loss_fn = wl.WassersteinLoss(
            metric, reduction="none", **{"kl_weight": 0.0, **keywords}, normalize_cost=False
        )
        values: Tensor = loss_fn(x, targets.target)
        return values

    found = both_ways(lambda: loss_and_gradient(loss, x, cotangent))
    cost, precision = costs_of(metric), precision_of(x.dtype)
    if found["compiled"].refusal:
        most = 1e3 * max(cost.max(), keywords["epsilon"])
        check_refusal(
            found["compiled"].refusal, most > precision.most, [keywords["epsilon"]], precision.most
        )
        return Tally(batch, refused=batch)
    log_h = torch.log_softmax(x.double(), 1).numpy()
    h, y = np.exp(log_h), targets.weights / targets.weights.sum(1, keepdims=True)

    def part(log_one: np.ndarray, other: np.ndarray) -> Answer:
        return answer(problem(log_one, other, cost, keywords["epsilon"], precision, product=True))

    with np.errstate(divide="ignore"):
        parts = part(log_h, y), part(log_h, h), part(np.log(y), y)
    low = parts[0].low - 0.5 * parts[1].high - 0.5 * parts[2].high
    high = parts[0].high - 0.5 * parts[1].low - 0.5 * parts[2].low
    size = parts[0].size + parts[1].size + parts[2].size
    slope = tangent(parts[0].slope - parts[1].slope, h)
    marginal = 3 * precision.tol + 100 * precision.eps
    firm = np.minimum(parts[0].firm, parts[1].firm) >= marginal
    # A measure to itself has one potential, off by the tolerance times ε.
    wobble = 4 * marginal * (parts[0].wobbles[0] + parts[1].wobbles[0] + keywords["epsilon"] * h)
    blur = 2 * metric_rounding(parts[0], metric, precision)
    slack = 3 * slack_of(size, precision, unit) + blur
    for way, outcome in found.items():
        values, gradient = map(as_array, outcome.answer)
        wrong = wrong_values(values, low, high, slack)
        judge(f"{way} value", wrong, outcome, {"value": values, "low": low, "high": high})
        gradient = gradient / cotangent.numpy()[:, None]
        rounding = 2 * precision.out_eps * abs(gradient) + 2 * precision.out_tiny
        allowed = wobble + 600 * precision.eps * size[:, None] + rounding + blur[:, None]
        off = ~(abs(gradient - slope) <= allowed) & (abs(slope) < 0.1 * precision.out_most)
        wrong = (off.any(1) & firm) | ~np.isfinite(gradient).all(1) & (
            size < 0.1 * precision.out_most
        )
        judge(
            f"{way} gradient",
            wrong,
            outcome,
            {"found": gradient, "expected": slope, "h": h, "y": y},
        )
    doubtful = min(batch, max(outcome.doubtful for outcome in found.values()))
    loose = ~(parts[0].tight & parts[1].tight & parts[2].tight)
    return Tally(batch, doubtful=doubtful, loose=int(loose.sum()))
