"""The settings of `wassloss demo`: 20 tried for each loss, judged on a validation split.

The first round is the same for both losses: learning rate and weight decay. The second starts from
its best: finer steps of the two for KL, which has no other strengths, and the metric's power, ε and
α for W. The test part is not used.

    python -m experiments.studies.demo_settings
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass, replace

import torch

import wassloss as wl

RATES, DECAYS = (0.003, 0.01, 0.03, 0.1), (2e-4, 1e-3, 4e-3)
FINER_RATES, FINER_DECAYS = (0.6, 1.6), (0.25, 0.5, 2.0, 4.0)
POWERS, EPSILONS, ALPHAS = (1.0, 2.0), (0.05, 0.2), (0.1, 0.5)  # ε, α: of the median cost


@dataclass(frozen=True)
class Trial:
    """One model's settings; without `epsilon`, KL alone."""

    rate: float
    decay: float
    power: float = 1.0
    epsilon: float | None = None
    alpha: float = 0.0


def validation_score(trial: Trial, data: wl.data.Dataset, metric: wl.ground.GroundMetric) -> float:
    """The best top-5 cost of a run on the validation part."""
    loss_fn: torch.nn.Module = wl.losses.baselines.KLLoss(data.label_count)
    if trial.epsilon is not None:
        cost = metric.with_cost(power=trial.power)
        median = cost.median_cost()
        loss_fn = wl.WassersteinLoss(
            cost,
            epsilon=trial.epsilon * median,
            kl_weight=trial.alpha * median,
            normalize_target=True,
            own_units=True,
        )
    plan = wl.TrainingPlan(
        steps=800,
        optimizer="adam",
        learning_rate=trial.rate,
        weight_decay=trial.decay,
        evaluate_every=40,
        patience=5,
    )
    torch.manual_seed(0)
    parts = {name: data.part(name) for name in ("train", "validation")}
    result = wl.train(
        wl.models.LinearSoftmax(data.features.shape[1], data.label_count),
        loss_fn,
        (parts["train"].features, parts["train"].target),
        plan,
        validation=(parts["validation"].features, parts["validation"].target),
        score=lambda logits, target: wl.scores.top_k_cost(logits, target, metric, k=5),
        progress=False,
    )
    return math.inf if result.best_score is None else result.best_score


def best_of(trials: list[Trial], data: wl.data.Dataset) -> Trial:
    metric = data.metric or wl.ground.Discrete(data.label_count)
    return min(trials, key=lambda trial: validation_score(trial, data, metric))


def main() -> None:
    torch.set_num_threads(1)  # on batches this small, threads only wait for each other
    data = wl.data.clipart().split({"train": 0.8, "validation": 0.2}, seed=0, of="train")
    for name, start in (("KL", Trial(0, 0)), ("W", Trial(0, 0, 1.0, 0.2, 0.1))):
        first = [replace(start, rate=r, decay=d) for r, d in itertools.product(RATES, DECAYS)]
        best = best_of(first, data)
        if start.epsilon is None:
            second = [
                replace(best, rate=best.rate * faster, decay=best.decay * more)
                for faster, more in itertools.product(FINER_RATES, FINER_DECAYS)
            ]
        else:
            second = [
                replace(best, power=power, epsilon=epsilon, alpha=alpha)
                for power, epsilon, alpha in itertools.product(POWERS, EPSILONS, ALPHAS)
            ]
        print(name, best_of([best, *second], data))


if __name__ == "__main__":
    main()
