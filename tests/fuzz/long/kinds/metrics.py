"""Ground metrics: columns, pairs and groups against all distances, recomputed in NumPy."""

from __future__ import annotations

import numpy as np
import torch
from numpy.random import Generator

from tests.fuzz.long.compare import as_array, judge
from tests.fuzz.long.draws import chance, draw_metric, pick
from tests.fuzz.long.notes import note
from tests.fuzz.long.tally import Tally
from tests.fuzz.long.ways import Outcome
from tests.oracles import Array


def metrics(rng: Generator) -> Tally:
    drawn = draw_metric(rng)
    metric, labels = drawn.metric, drawn.metric.size
    power, scale = metric.power, metric.scale
    if chance(rng, 0.3):
        metric = metric.to(dtype=pick(rng, [torch.float32, torch.float64]))
    note(metric=metric, dtype=metric.dtype)
    distance = drawn.distance()
    with np.errstate(over="ignore"):
        cost = np.where(distance > 0, (distance / scale) ** power, 0.0)
    info = torch.finfo(
        max(metric.dtype, drawn.metric.dtype, key=lambda kind: torch.finfo(kind).eps)
    )
    largest = cost.max(initial=0.0)
    if largest and not 10 * info.tiny < largest < 0.1 * info.max:
        return Tally(1)  # it can be created, which is all that is promised
    # A distance loses digits of its largest terms; a cost loses `power` times as many.
    far = 20 * info.eps * distance.max(initial=0.0)
    dear = (far / scale) ** power if power < 1 else 20 * info.eps * (1 + power) * largest
    near = 8 * info.eps * (1 + power) * largest
    exact = np.eye(labels, dtype=bool) & metric.is_distance
    # Rounding may turn a distance into 0, or 0 into a distance: at power 0 it costs 0 or 1.
    sure = exact | (distance > far) | (power > 0)
    full = as_array(metric.cost())
    one, other = rng.integers(0, labels, (2, int(rng.integers(1, 6))))
    kept = metric.tabulated()
    checks: dict[str, tuple[Array, Array, Array | float]] = {
        "distances": (as_array(metric.distance()), distance, far),
        "distance columns": (as_array(metric.distance_columns(one)), distance.T[one], far),
        "costs": (full, cost, np.where(sure, dear, 1.0)),
        "largest cost": (
            np.array(metric.max_cost()),
            np.array(largest),
            1.0 if power == 0 else dear,
        ),
        "cost columns": (as_array(metric.cost_columns(one)), full.T[one], near),
        "costs between": (as_array(metric.cost_between(one, other)), full[one, other], near),
        "tabulated": (as_array(kept.cost_columns(one)), full.T[one], near),
    }
    for what, (found, expected, allowed) in checks.items():
        fits = found.shape == expected.shape
        wrong = np.array([not fits or bool((abs(found - expected) > allowed + info.tiny).any())])
        judge(what, wrong, Outcome(), {"found": found[None], "expected": expected[None]})
    return Tally(len(checks))
