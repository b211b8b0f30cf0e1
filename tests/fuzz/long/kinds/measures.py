"""`wasserstein` and `solve` of measures of any mass: values, gradients on both sides, plans."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.random import Generator
from torch import Tensor

import wassloss as wl
from tests.fuzz.long.answers import Answer, answer, objective
from tests.fuzz.long.compare import (
    Precision,
    as_array,
    costs_of,
    judge,
    metric_rounding,
    precision_of,
    problem,
    refused,
    slack_of,
    tangent,
    wrong_slopes,
    wrong_values,
)
from tests.fuzz.long.draws import (
    batch_size,
    chance,
    draw_epsilon,
    draw_metric,
    draw_targets,
    draw_totals,
    draw_weights,
    laid_out,
    pick,
)
from tests.fuzz.long.entropic import Problem
from tests.fuzz.long.notes import note
from tests.fuzz.long.tally import Tally
from tests.fuzz.long.ways import Outcome, both_ways
from tests.oracles import INF, Array
from wassloss.transport import Newton, Sinkhorn


def distances(rng: Generator) -> Tally:
    """Values, and gradients of the prediction and (for dense targets) of the target."""
    case = _draw(rng)
    metric, dtype = case["metric"], case["dtype"]
    form = pick(rng, ["dense", "dense", "sparse", "coo", "csr"])
    targets = draw_targets(rng, case["y"], dtype, [form])
    learned = form == "dense" and chance(rng, 0.5)
    cotangent = torch.from_numpy(rng.uniform(0.5, 2.0, len(case["y"]))).to(dtype)

    def call() -> tuple[Tensor, Tensor | None, Tensor | None]:
        h = case["h"].detach().requires_grad_()
        y: Any = targets.target.detach().requires_grad_() if learned else targets.target
        values = wl.wasserstein(h, y, metric, **case["keywords"])
        values.backward(cotangent)
        return values.detach(), h.grad, y.grad if learned else None

    found = both_ways(call)
    p, precision = _problem(case, targets.weights), precision_of(dtype)
    if found["compiled"].refusal:
        return refused(found["compiled"], p, precision)
    a = answer(p)
    slack = slack_of(a.size, precision, case["unit"]) + metric_rounding(a, metric, precision)
    weight = as_array(cotangent)[:, None]
    for way, outcome in found.items():
        values = as_array(outcome.answer[0])
        wrong = wrong_values(values, a.low, a.high, slack)
        judge(f"{way} value", wrong, outcome, {"value": values, "low": a.low, "high": a.high})
        for side, gradient in enumerate(outcome.answer[1:]):
            if gradient is not None:
                slope = as_array(gradient) / weight
                _check_side(way, slope, a, side, learned, metric, precision, outcome)
        if learned and p.balanced:
            _check_growth(
                way,
                values,
                [as_array(x) / weight for x in outcome.answer[1:]],
                a,
                precision,
                outcome,
            )
    doubtful = max(outcome.doubtful for outcome in found.values())
    return Tally(len(a.low), doubtful=doubtful, loose=int((~a.tight).sum()))


def plans(rng: Generator) -> Tally:
    """Plans have the right marginals and objective; they are the gradient of a learned cost."""
    case = _draw(rng)
    metric, dtype, keywords = case["metric"], case["dtype"], case["keywords"]
    targets = draw_targets(rng, case["y"], dtype, ["dense", "sparse", "coo", "csr"])
    cost = metric.cost()
    by_cost = metric.size > 1 and chance(rng, 0.3)

    def call() -> tuple[Tensor, Tensor, Tensor | None]:
        solution = wl.solve(case["h"], targets.target, metric, **keywords)
        if not by_cost:
            return solution.value, solution.plan(), None
        learned = cost.detach().clone().requires_grad_()
        made = learned if metric.is_distance else wl.ground.Cost(learned)
        wl.wasserstein(case["h"], targets.target, made, **keywords).sum().backward()
        return solution.value, solution.plan(), learned.grad

    found = both_ways(call)
    p, precision = _problem(case, targets.weights), precision_of(dtype)
    if found["compiled"].refusal:
        return refused(found["compiled"], p, precision)
    a = answer(p)
    slack = 30 * slack_of(a.size, precision, case["unit"]) + metric_rounding(a, metric, precision)
    p = a.problem  # its masses are equal, where they must be
    for way, outcome in found.items():
        values, plan = map(as_array, outcome.answer[:2])
        wrong = ~np.isfinite(plan).all((1, 2)) | (plan < 0).any((1, 2))
        judge(f"{way} plan, which must be finite and not negative,", wrong, outcome, {"plan": plan})
        missed = np.zeros(len(values))
        for gamma, marginal, mass in (
            (p.gamma[0], plan.sum(2), p.h),
            (p.gamma[1], plan.sum(1), p.y),
        ):
            if gamma == INF:
                off = abs(marginal - mass).sum(1)
                missed = np.maximum(missed, off)
                wrong = off > 100 * precision.tol * mass.sum(1) + 1e3 * precision.tiny
                judge(f"{way} marginal", wrong, outcome, {"found": marginal, "wanted": mass})
        with np.errstate(all="ignore"):
            paid = objective(plan, p)
        prices = abs(np.where(p.h > 0, a.f, 0.0)).max(1) + abs(np.where(p.y > 0, a.g, 0.0)).max(1)
        allowed = slack + 2 * prices * missed
        wrong = wrong_values(paid, a.low, a.high, allowed)
        parts = {"paid": paid, "low": a.low, "high": a.high, "allowed": allowed, "plan": plan}
        judge(f"{way} cost of the plan", wrong, outcome, parts)
        if outcome.answer[2] is not None and not outcome.doubtful and len(plan):
            received, sent = as_array(outcome.answer[2]), plan.sum(0)
            if metric.is_distance:  # either of two symmetric entries may receive it
                received, sent = received + received.T, sent + sent.T
            apart = (cost > 0).numpy()  # a distance of 0 has a gradient of 0
            off = (apart * abs(received - sent)).max()
            if p.epsilon == 0:  # plans of equal cost may differ
                prices = as_array(cost)
                off = abs((prices * (received - sent)).sum()) / max(prices.max(), 1e-300)
            wrong = np.array([off > 1e3 * precision.tol * plan.sum((1, 2)).sum() + precision.tiny])
            judge(
                f"{way} gradient in the cost",
                wrong,
                outcome,
                {"found": received[None], "plan": sent[None]},
            )
    doubtful = min(len(values), max(outcome.doubtful for outcome in found.values()))
    return Tally(len(values), doubtful=doubtful, loose=int((~a.tight).sum()))


def _draw(rng: Generator) -> dict[str, Any]:
    drawn = draw_metric(rng)
    metric, unit = drawn.metric, drawn.unit
    batch, dtype = batch_size(rng, metric.size), pick(rng, [torch.float32, torch.float64])
    kind = pick(rng, ["balanced", "relaxed", "one-sided", "exact"], [3, 2, 1, 2])
    gamma, epsilon = (INF, INF), 0.0 if kind == "exact" else draw_epsilon(rng, unit)
    strengths = unit * 10 ** rng.uniform(-2, 2, 2)
    if kind == "relaxed":
        gamma = (float(strengths[0]), float(strengths[1]))
    if kind == "one-sided":
        gamma = pick(rng, [(INF, float(strengths[1])), (float(strengths[0]), INF)])
    total = draw_totals(rng, batch)
    other = total if gamma == (INF, INF) else draw_totals(rng, batch)
    h, y = (
        total * draw_weights(rng, batch, metric.size),
        other * draw_weights(rng, batch, metric.size),
    )
    least = 10 * torch.finfo(dtype).tiny
    h[h < least], y[y < least] = 0.0, 0.0
    keywords: dict[str, Any] = {
        "epsilon": epsilon,
        "gamma": gamma,
        "regularizer": pick(rng, ["plan", "product"]),
    }
    if epsilon and chance(rng, 0.3):
        keywords["solver"] = pick(rng, [Newton(), Sinkhorn(max_iterations=1000)])
    note(metric=metric, dtype=dtype, **keywords)
    return {
        "metric": metric,
        "unit": unit,
        "dtype": dtype,
        "h": laid_out(rng, torch.from_numpy(h).to(dtype)),
        "y": y,
        "keywords": keywords,
    }


def _problem(case: dict[str, Any], y: Array) -> Problem:
    with np.errstate(divide="ignore"):
        log_h = np.log(case["h"].double().numpy())
    keywords = case["keywords"]
    return problem(
        log_h,
        y,
        costs_of(case["metric"]),
        keywords["epsilon"],
        precision_of(case["dtype"]),
        gamma=keywords["gamma"],
        product=keywords["regularizer"] == "product",
    )


def _check_growth(
    way: str,
    values: Array,
    gradients: list[Array],
    a: Answer,
    precision: Precision,
    outcome: Outcome,
) -> None:
    """The change of the value as both masses grow equally, which fixes the potentials' constant."""
    p, mass = a.problem, a.problem.h.sum(1)
    # In the masses, <T, M> has degree 1, and so has T log T up to the mass; h yᵀ has degree 2.
    added = p.epsilon * (mass**2 - mass if p.product else mass)
    expected = values + added
    parts = [gradient * masses for gradient, masses in zip(gradients, a.masses, strict=True)]
    found = sum(part.sum(1) for part in parts)
    slack = 20 * precision.tol * a.moved * p.epsilon + 30 * precision.value * (a.size + abs(added))
    # Large gradients of either side may cancel, and each was rounded.
    slack = slack + 2 * precision.eps * sum(abs(part).sum(1) for part in parts)
    wrong = ~(abs(found - expected) <= slack + 100 * precision.tiny * (1 + p.cost.max(initial=0.0)))
    judge(f"{way} growth", wrong, outcome, {"found": found, "expected": expected, "slack": slack})


def _check_side(
    way: str,
    gradient: Array,
    a: Answer,
    side: int,
    learned: bool,
    metric: wl.ground.GroundMetric,
    precision: Precision,
    outcome: Outcome,
) -> None:
    """Check a gradient in masses as one in their logs; without mass, only that it is finite."""
    p, mass = a.problem, a.masses[side]
    slope = gradient * mass
    if p.balanced:
        slope = tangent(slope, mass)
    rounding = 20 * precision.eps * abs(slope).max(1, keepdims=True)
    rounding = rounding + metric_rounding(a, metric, precision)[:, None]
    if learned:  # then the target's empty labels are also solved to the tolerance
        prices = p.epsilon + sum(strength for strength in p.gamma if strength < INF)
        rounding = rounding + 12 * precision.tol * prices * a.moved[:, None]
    wrong = wrong_slopes(slope, a, precision, rounding=rounding, tangential=p.balanced, side=side)
    wrong |= ~np.isfinite(gradient).all(1)
    expected = tangent(a.slopes[side], mass) if p.balanced else a.slopes[side]
    parts = {"found": slope, "expected": expected, "h": p.h, "y": p.y}
    judge(f"{way} gradient in {'hy'[side]}", wrong, outcome, parts)
