"""Families of losses that are compared, and the settings searched for each.

Every family has the same number of trials, each stopped at its best: some strengths drawn at random
from its ranges, each combined with every learning rate and weight penalty of a grid. A family
without strengths has a finer grid instead. Ranges are those of a user who has read the
documentation; they were chosen by validation scores, with the exceptions that docs/results names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from experiments.lab.trials import Trial

MOST_STRENGTHS = 4  # largest number of strengths of a loss


@dataclass(frozen=True)
class Budget:
    """The number of trials per family, as a product.

    Attributes:
        strengths: random draws of the loss's strengths.
        rates: learning rates in the grid; a single one is the middle of the span.
        penalties: weight penalties for a loss with gradients as large as KL's.
        span: range of learning rates for such a loss and examples of mean square length 1.
    """

    strengths: int = 8
    rates: int = 2
    penalties: tuple[float, ...] = (0.02, 0.002)
    span: tuple[float, float] = (3.0, 60.0)


# Hundreds of features and labels allow larger steps, and need smaller weight penalties.
ON_TAGS = Budget(penalties=(0.01, 0.001), span=(25.0, 130.0))
# The learning rate matters least for a model that may stop early; with fewer tags per example,
# larger weight penalties are better.
FINE_ON_TAGS = Budget(strengths=12, rates=1, penalties=(0.04, 0.008, 0.0015), span=(40.0, 160.0))
# Pages of Delicious differ so much in their number of words that large steps are noisy.
FINE_ON_DELICIOUS = replace(FINE_ON_TAGS, span=(40.0 / 3, 160.0 / 3))


def count_trials(budget: Mapping[str, Any]) -> int:
    """The number of trials of a family, from the budget in JSON."""
    return int(budget["strengths"] * budget["rates"] * len(budget["penalties"]))


@dataclass(frozen=True)
class Family:
    """A kind of loss.

    Attributes:
        title: for a legend.
        ours: whether it is a Wasserstein loss; otherwise a baseline.
        base: the trial without strengths.
        draw: maps numbers between 0 and 1 to a trial with strengths, in units of the typical
            distance and cost; None if the family has no strengths.
    """

    title: str
    ours: bool
    base: Trial
    draw: Callable[[Sequence[float], Trial], Trial] | None = None


OF_COSTS = 0.1  # costs give small gradients to predictions spread over many labels


def gradient_size(trial: Trial) -> float:
    """Typical size of a loss's gradients relative to KL's.

    Learning rates are divided by it and weight penalties multiplied, so that one range suits all
    losses.
    """
    return 1.0 if trial.loss in ("kl", "softened", "softened_nearest") else OF_COSTS + trial.kl


def learning_rates(span: tuple[float, float], count: int) -> list[float]:
    """Learning rates evenly spaced on a log scale, ends included; a single one is the middle."""
    if count == 1:
        return [float(np.sqrt(span[0] * span[1]))]
    return [float(rate) for rate in np.geomspace(*span, count)]


def _log_between(u: float, low: float, high: float) -> float:
    return float(low * (high / low) ** u)


def _width(u: Sequence[float], trial: Trial) -> Trial:
    return replace(trial, width=_log_between(u[0], 0.15, 0.8))


def _costs(u: Sequence[float], trial: Trial) -> Trial:
    return replace(trial, power=1.0 if u[0] < 0.5 else 2.0, kl=_log_between(u[1], 0.01, 3.0))


def _smoothed(u: Sequence[float], trial: Trial) -> Trial:
    return replace(_costs(u, trial), strength=_log_between(u[2], 2.0, 12.0))


def _from_expected_to_exact(u: Sequence[float], trial: Trial) -> Trial:
    # Without the entropy of the prediction a large λ causes no bias, and a small one gives the
    # expected cost.
    return replace(_costs(u, trial), strength=_log_between(u[2], 0.5, 50.0))


def _with_kl(u: Sequence[float], trial: Trial) -> Trial:
    return replace(trial, kl=_log_between(u[1], 0.01, 3.0))


def _either(u: Sequence[float], trial: Trial) -> Trial:
    if u[3] < 0.5:
        return _smoothed(u, replace(trial, loss="plan"))
    return _nearest(u, replace(trial, loss="nearest"))


def _relaxed(u: Sequence[float], trial: Trial) -> Trial:
    return replace(_smoothed(u, trial), gamma=_log_between(u[3], 0.5, 10.0))


def _softened(u: Sequence[float], trial: Trial) -> Trial:
    # With softened labels KL does not oppose the cost, so it may have most of the weight.
    return replace(
        trial,
        power=1.0 if u[0] < 0.5 else 2.0,
        kl=_log_between(u[1], 0.1, 10.0),
        width=_log_between(u[3], 0.15, 0.6),
    )


def _smoothed_softened(u: Sequence[float], trial: Trial) -> Trial:
    return replace(_softened(u, trial), strength=_log_between(u[2], 2.0, 12.0))


def _nearest(u: Sequence[float], trial: Trial) -> Trial:
    return replace(_costs(u, trial), strength=_log_between(u[2], 2.0, 50.0))


def _nearest_softened(u: Sequence[float], trial: Trial) -> Trial:
    return replace(_softened(u, trial), strength=_log_between(u[2], 2.0, 50.0))


FAMILIES: dict[str, Family] = {
    "kl": Family("KL", False, Trial("kl", 0.0)),
    "decoded": Family("KL, least expected cost", False, Trial("kl", 0.0, decode="cost")),
    "softened": Family("KL on softened labels", False, Trial("softened", 0.0), _width),
    "softened_nearest": Family(
        "KL on labels softened by the nearest", False, Trial("softened_nearest", 0.0), _width
    ),
    "expected": Family("expected cost + α KL", False, Trial("expected", 0.0), _costs),
    "wasserstein": Family("W + α KL", True, Trial("plan", 0.0), _either),
    "plan": Family("W plan + α KL", True, Trial("plan", 0.0), _smoothed),
    "product": Family("W product + α KL", True, Trial("product", 0.0), _from_expected_to_exact),
    "relaxed": Family("W relaxed + α KL", True, Trial("relaxed", 0.0), _relaxed),
    "debiased": Family("W debiased + α KL", True, Trial("debiased", 0.0), _smoothed),
    "nearest": Family("W nearest + α KL", True, Trial("nearest", 0.0), _nearest),
    "plan_softened": Family(
        "W plan + α KL on softened", True, Trial("plan_softened", 0.0), _smoothed_softened
    ),
    "nearest_softened": Family(
        "W nearest + α KL on softened", True, Trial("nearest_softened", 0.0), _nearest_softened
    ),
}

# Families that need ordered labels.
ORDERED: dict[str, Family] = {
    "squared_emd": Family("squared EMD + α KL", False, Trial("squared_emd", 0.0), _with_kl),
}


def find_family(name: str) -> Family:
    """Find a family by name."""
    known = FAMILIES | ORDERED
    if name not in known:
        raise ValueError(f"family must be one of {', '.join(known)}, got {name!r}")
    return known[name]


def draw_trials(
    family: str, budget: Budget, *, length: float, typical: float, seed: int
) -> list[Trial]:
    """Draw the trials of a family, the same for the same seed.

    Strengths are drawn as a Latin hypercube, so that few draws cover their ranges.

    Args:
        family: its name.
        budget: the number of trials.
        length: the mean square length of the examples, by which learning rates are divided.
        typical: the median distance between labels, the unit of strengths.
        seed: of the draw.
    """
    chosen = find_family(family)
    rates, penalties, bases = budget.rates, budget.penalties, [chosen.base]
    if chosen.draw is None:
        both = len(penalties) > 1 and budget.strengths % 2 == 0
        rates *= budget.strengths // 2 if both else budget.strengths
        if both:
            penalties = tuple(np.geomspace(max(penalties), min(penalties), 2 * len(penalties)))
    else:
        rng = np.random.default_rng([seed, *family.encode()])
        cells = [rng.permutation(budget.strengths) for _ in range(MOST_STRENGTHS)]
        points = (np.stack(cells, 1) + rng.random((budget.strengths, MOST_STRENGTHS))) / len(
            cells[0]
        )
        bases = [in_units(chosen.draw(point.tolist(), chosen.base), typical) for point in points]
    return [
        tuned(base, rate / length, float(penalty))
        for base in bases
        for rate in learning_rates(budget.span, rates)
        for penalty in penalties
    ]


def tuned(trial: Trial, rate: float, penalty: float) -> Trial:
    """Set a learning rate and a weight penalty, given in KL's units."""
    size = gradient_size(trial)
    return replace(trial, rate=rate / size, penalty=penalty * size)


def in_units(trial: Trial, typical: float) -> Trial:
    """Convert strengths from units of the typical distance and cost to plain ones."""
    cost = typical**trial.power
    return replace(
        trial,
        strength=trial.strength / cost,
        kl=trial.kl * cost,
        gamma=trial.gamma * cost,
        width=trial.width * typical,
    )
