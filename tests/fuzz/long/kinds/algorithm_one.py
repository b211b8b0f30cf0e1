"""The paper's Algorithm 1, run for a fixed number of iterations: compared step by step."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor

import wassloss as wl
from tests.fuzz.long import entropic
from tests.fuzz.long.compare import (
    as_array,
    costs_of,
    judge,
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
    draw_log_masses,
    draw_logits,
    draw_metric,
    draw_targets,
    draw_weights,
    pick,
)
from tests.fuzz.long.entropic import Problem
from tests.fuzz.long.loss_check import loss_and_gradient, working
from tests.fuzz.long.notes import note
from tests.fuzz.long.tally import Tally
from tests.fuzz.long.ways import both_ways, check_refusal
from tests.oracles import INF, Array


def fixed_iterations(rng: Generator) -> Tally:
    drawn = draw_metric(rng)
    metric, unit = drawn.metric, drawn.unit
    batch, relaxed = batch_size(rng, metric.size), chance(rng, 0.4)
    x = (draw_log_masses if relaxed else draw_logits)(rng, batch, metric.size)
    y = draw_weights(rng, batch, metric.size)
    y[y < 10 * torch.finfo(working(x.dtype)).tiny] = 0.0
    targets = draw_targets(rng, y, working(x.dtype))
    gamma = (INF, INF)
    if relaxed:
        gamma = (unit * float(10 ** rng.uniform(-2, 2)), unit * float(10 ** rng.uniform(-2, 2)))
    keywords: dict[str, Any] = {
        "epsilon": draw_epsilon(rng, unit),
        "scaling_iterations": int(rng.integers(1, 13)),
        "regularizer": pick(rng, ["plan", "product"]),
    }
    note(metric=metric, dtype=x.dtype, target=targets.form, gamma=gamma, **keywords)
    cotangent = torch.from_numpy(rng.uniform(0.5, 2.0, batch))

    def loss(x: Tensor) -> Tensor:
        made: Any = wl.WassersteinLoss
        if relaxed:
            keywords["gamma"], made = gamma, wl.RelaxedWassersteinLoss
        loss_fn = made(metric, reduction="none", kl_weight=0.0, normalize_cost=False, **keywords)
        values: Tensor = loss_fn(x, targets.target)
        return values

    found = both_ways(lambda: loss_and_gradient(loss, x, cotangent))
    cost, precision = costs_of(metric), precision_of(x.dtype)
    log_h = x.double().numpy() if relaxed else torch.log_softmax(x.double(), 1).numpy()
    if not relaxed:  # raise masses below the smallest normal number, including zero, to it
        log_h = np.maximum(log_h, np.log(np.e * precision.tiny))
    p = problem(
        log_h,
        targets.weights,
        cost,
        keywords["epsilon"],
        precision,
        gamma=gamma,
        product=keywords["regularizer"] == "product",
    )
    with np.errstate(all="ignore"):
        value, slope, size, blur = _run(p, keywords["scaling_iterations"])
    if found["compiled"].refusal:
        most = 1e3 * max(cost.max(), p.epsilon, size.max(initial=0.0))
        strengths = (p.epsilon, *gamma)
        check_refusal(found["compiled"].refusal, most > precision.most, strengths, precision.most)
        return Tally(batch, refused=batch)
    slack = slack_of(size, precision, unit)
    for way, outcome in found.items():
        values, gradient = map(as_array, outcome.answer)
        wrong = wrong_values(values, value, value, slack) & np.isfinite(size)
        judge(f"{way} value", wrong, outcome, {"value": values, "expected": value, "slack": slack})
        gradient = gradient / cotangent.numpy()[:, None]
        allowed = slack[:, None] + 2 * precision.out_eps * abs(gradient) + 2 * precision.out_tiny
        allowed = allowed + 10 * precision.eps * blur
        off = ~(abs(gradient - slope) <= allowed) & (abs(slope) < 0.1 * precision.out_most)
        wrong = off.any(1) & np.isfinite(size)
        judge(f"{way} gradient", wrong, outcome, {"found": gradient, "expected": slope})
    return Tally(batch)


def _run(p: Problem, iterations: int) -> tuple[Array, Array, Array, Array]:
    """Value and gradient after this many iterations from `u = 1`.

    Also the size of the value's terms, and the gradient's error from rounding exponents.
    """
    e, h, y = p.epsilon, p.h, p.y
    # At first u = 1 also for labels without mass; after that, u = 0 for them.
    everywhere = p if p.product else replace(p, log_h=np.where(h > 0, p.log_h, 0.0))
    g = entropic.sinkhorn(everywhere, np.zeros_like(p.log_h))
    for _ in range(iterations - 1):
        g = entropic.sinkhorn(p, entropic.evaluate(p, g).f)
    f = entropic.evaluate(p, g).f
    if not p.balanced:
        g = entropic.sinkhorn(p, f)  # the paper refreshes v
    exponent = (f[:, :, None] + g[:, None, :] - p.cost) / e + p.beta[:, None, :]
    exponent = exponent + np.where(np.isfinite(p.log_h), p.alpha, -INF)[:, :, None]
    plan = np.exp(exponent)
    moved = plan.sum((1, 2))
    dual = entropic.mass_terms(p.log_h, f, p.gamma[0]) + entropic.mass_terms(p.log_y, g, p.gamma[1])
    value = dual - e * (moved - (h.sum(1) * y.sum(1) if p.product else 0.0))
    if p.balanced:
        slope = tangent(h * f, h)
    else:
        slope = p.gamma[0] * (h - plan.sum(2))
        if p.product:
            slope = slope - e * (plan.sum(2) - h * y.sum(1, keepdims=True))
    most = np.maximum(np.maximum(h.sum(1), y.sum(1)), moved)
    reach = abs(np.where(h > 0, f, 0)).max(1) + abs(g).max(1) + p.cost.max() + e
    for strength in p.gamma:
        reach = reach + (strength if strength < INF else 0.0)
    if p.product:
        reach = reach + e * np.minimum(h.sum(1), y.sum(1))
    blur = np.zeros_like(h)
    if not p.balanced:
        blur = (reach / e)[:, None] * (p.gamma[0] + e) * plan.sum(2)
    return value, slope, most * reach, blur
