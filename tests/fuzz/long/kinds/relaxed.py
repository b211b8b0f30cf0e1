"""`RelaxedWassersteinLoss` and its function: two penalties, one, or a free target."""

from __future__ import annotations

from typing import Any

import torch
from numpy.random import Generator
from torch import Tensor

import wassloss as wl
from tests.fuzz.long.answers import answer
from tests.fuzz.long.compare import costs_of, precision_of, problem, refused
from tests.fuzz.long.draws import (
    GAMMAS,
    batch_size,
    chance,
    draw_epsilon,
    draw_log_masses,
    draw_metric,
    draw_targets,
    draw_totals,
    draw_weights,
    pick,
)
from tests.fuzz.long.loss_check import KLTerm, check_loss, loss_and_gradient, working
from tests.fuzz.long.notes import note
from tests.fuzz.long.tally import Tally
from tests.fuzz.long.ways import both_ways
from tests.losses import per_example
from tests.oracles import INF


def relaxed(rng: Generator) -> Tally:
    return _check(rng, lambda strength: (strength(), strength()))


def one_sided(rng: Generator) -> Tally:
    sides = pick(rng, [(INF, None), (None, INF), (None, 0.0)], [2, 2, 1])
    return _check(rng, lambda strength: tuple(strength() if s is None else s for s in sides))


def _check(rng: Generator, draw_gamma: Any) -> Tally:
    drawn = draw_metric(rng)
    metric, unit = drawn.metric, drawn.unit
    batch = batch_size(rng, metric.size)
    x = draw_log_masses(rng, batch, metric.size)
    y = draw_totals(rng, batch) * draw_weights(rng, batch, metric.size)
    y[y < 10 * torch.finfo(working(x.dtype)).tiny] = 0.0  # a power of them would matter
    targets = draw_targets(rng, y, working(x.dtype))
    epsilon = draw_epsilon(rng, unit)

    def strength() -> float:
        if chance(rng, 0.75):
            return unit * float(10 ** rng.uniform(-2, 2))
        return unit * pick(rng, GAMMAS[:-1])

    gamma = draw_gamma(strength)
    kl_weight = unit * pick(rng, [0.0, 0.1, 10.0], [3, 1, 1])
    regularizer = pick(rng, ["plan", "product"])
    keywords: dict[str, Any] = {
        "epsilon": epsilon,
        "gamma": gamma,
        "kl_weight": kl_weight,
        "regularizer": regularizer,
    }
    note(metric=metric, dtype=x.dtype, target=targets.form, **keywords)
    by_module, cotangent = chance(rng, 0.5), torch.from_numpy(rng.uniform(0.5, 2.0, batch))

    def loss(x: Tensor) -> Tensor:
        if not by_module:
            return per_example.relaxed_wasserstein_loss(x, targets.target, metric, **keywords)
        loss_fn = wl.RelaxedWassersteinLoss(
            metric, reduction="none", **keywords, normalize_cost=False
        )
        values: Tensor = loss_fn(x, targets.target)
        return values

    found = both_ways(lambda: loss_and_gradient(loss, x, cotangent))
    cost, precision = costs_of(metric), precision_of(x.dtype)
    log_h = x.double().numpy()
    product = regularizer == "product"
    p = problem(log_h, targets.weights, cost, epsilon, precision, gamma=gamma, product=product)
    if found["compiled"].refusal:
        return refused(found["compiled"], p, precision)
    kl = KLTerm.of(kl_weight, log_h, targets.weights, measures=True)
    return check_loss(found, cotangent, answer(p), kl, precision, drawn, balanced=False)
