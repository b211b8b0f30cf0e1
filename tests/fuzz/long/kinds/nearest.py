"""`NearestWassersteinLoss`: a target whose masses need not be met."""

from __future__ import annotations

from typing import Any

import torch
from numpy.random import Generator
from torch import Tensor

import wassloss as wl
from tests.fuzz.long.answers import answer
from tests.fuzz.long.compare import costs_of, precision_of, problem
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
from tests.fuzz.long.loss_check import KLTerm, check_loss, loss_and_gradient, softened, working
from tests.fuzz.long.notes import note
from tests.fuzz.long.tally import Tally
from tests.fuzz.long.ways import both_ways, check_refusal
from tests.oracles import INF


def nearest(rng: Generator) -> Tally:
    drawn = draw_metric(rng)
    metric, unit = drawn.metric, drawn.unit
    batch = batch_size(rng, metric.size)
    x = draw_logits(rng, batch, metric.size)
    y = draw_weights(rng, batch, metric.size)
    y[y < 1e3 * torch.finfo(working(x.dtype)).tiny] = 0.0  # their logs would matter
    targets = draw_targets(rng, y, working(x.dtype))
    if not targets.form.startswith("ids"):  # each target is divided by its sum
        targets = targets.scaled(pick(rng, [1.0, 3.0, 0.01]))
    epsilon = 0.0 if chance(rng, 0.2) else draw_epsilon(rng, unit)
    kl_weight = unit * pick(rng, [0.0, 0.1, 100.0], [3, 2, 1])
    regularizer = pick(rng, ["product", "plan"])
    keywords: dict[str, Any] = {
        "epsilon": epsilon,
        "kl_weight": kl_weight,
        "regularizer": regularizer,
    }
    cotangent = torch.from_numpy(rng.uniform(0.5, 2.0, batch))
    keywords["softening"] = softening = unit * pick(rng, [0.0, 0.1, 1.0, 10.0], [5, 1, 1, 1])
    note(metric=metric, dtype=x.dtype, target=targets.form, **keywords)

    def loss(x: Tensor) -> Tensor:
        loss_fn = wl.NearestWassersteinLoss(
            metric, reduction="none", **keywords, normalize_cost=False
        )
        values: Tensor = loss_fn(x, targets.target)
        return values

    found = both_ways(lambda: loss_and_gradient(loss, x, cotangent))
    cost, precision = costs_of(metric), precision_of(x.dtype)
    if found["compiled"].refusal:
        most = 1e3 * max(cost.max(), epsilon, kl_weight)
        check_refusal(found["compiled"].refusal, most > precision.most, [epsilon], precision.most)
        return Tally(batch, refused=batch)
    log_h = torch.log_softmax(x.double(), 1).numpy()
    y = targets.weights / targets.weights.sum(1, keepdims=True)
    product = regularizer == "product"
    a = answer(problem(log_h, y, cost, epsilon, precision, gamma=(INF, 0.0), product=product))
    kl = KLTerm.of(kl_weight, log_h, softened(y, cost, softening, nearest=True))
    return check_loss(found, cotangent, a, kl, precision, drawn, balanced=True)
