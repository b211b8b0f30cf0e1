"""Families of losses that are compared, and what of each is searched.

Every family has as many trials, each of which is stopped where it is best: some strengths drawn at
random from its ranges, each with every learning rate and weight penalty of a grid; a family without
strengths has a finer grid of learning rates instead. Ranges are those of a user who has read the
documentation; they were set by looking at validation scores only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from wassloss.reproduce.trials import Trial

POWERS = (1.0, 2.0, 4.0)


@dataclass(frozen=True)
class Budget:
    """How many trials a family has: their product.

    Attributes:
        strengths: of the loss, drawn at random.
        rates: learning rates, of a grid.
        penalties: weight penalties; the first is the paper's.
    """

    strengths: int = 6
    rates: int = 3
    penalties: tuple[float, ...] = (0.0005, 0.00002)


def count_trials(budget: Mapping[str, Any]) -> int:
    """How many trials a family had, from the budget as JSON holds it."""
    return int(budget["strengths"] * budget["rates"] * len(budget["penalties"]))


@dataclass(frozen=True)
class Family:
    """A kind of loss.

    Attributes:
        title: for a legend.
        ours: whether it is a Wasserstein loss; otherwise a rival.
        rates: the least and the largest learning rate, for examples of mean square length 1.
        draw: strengths at random, as a trial; None where there are none.
        base: the trial without strengths.
    """

    title: str
    ours: bool
    rates: tuple[float, float]
    base: Trial
    draw: Callable[[np.random.Generator, Trial], Trial] | None = None


def _log_uniform(rng: np.random.Generator, low: float, high: float) -> float:
    return float(np.exp(rng.uniform(np.log(low), np.log(high))))


def _kl_weight(rng: np.random.Generator) -> float:
    """None for one in five."""
    weight = _log_uniform(rng, 0.01, 0.5)
    return 0.0 if rng.random() < 0.2 else weight


def _width(rng: np.random.Generator, trial: Trial) -> Trial:
    return replace(trial, width=_log_uniform(rng, 0.2, 1.0))


def _costs(rng: np.random.Generator, trial: Trial) -> Trial:
    return replace(trial, power=float(rng.choice(POWERS)), kl=_kl_weight(rng))


def _with_kl(rng: np.random.Generator, trial: Trial) -> Trial:
    return replace(trial, kl=_kl_weight(rng))


def _smoothed(rng: np.random.Generator, trial: Trial) -> Trial:
    return replace(_costs(rng, trial), strength=_log_uniform(rng, 2.0, 50.0))


def _relaxed(rng: np.random.Generator, trial: Trial) -> Trial:
    return replace(_smoothed(rng, trial), gamma=_log_uniform(rng, 0.3, 10.0))


def _with_softened(rng: np.random.Generator, trial: Trial) -> Trial:
    return replace(_width(rng, _smoothed(rng, trial)), kl=_log_uniform(rng, 0.02, 1.0))


# Under transport costs a prediction that is spread over many labels has small gradients.
_OF_KL, _OF_COSTS = (2.0, 60.0), (10.0, 600.0)

FAMILIES: dict[str, Family] = {
    "kl": Family("KL", False, _OF_KL, Trial("kl", 0.0)),
    "decoded": Family("KL, least expected cost", False, _OF_KL, Trial("kl", 0.0, decode="cost")),
    "softened": Family("KL on softened labels", False, _OF_KL, Trial("softened", 0.0), _width),
    "expected": Family("expected cost + α KL", False, _OF_COSTS, Trial("expected", 0.0), _costs),
    "plan": Family("W plan + α KL", True, _OF_COSTS, Trial("plan", 0.0), _smoothed),
    "product": Family("W product + α KL", True, _OF_COSTS, Trial("product", 0.0), _smoothed),
    "relaxed": Family("W relaxed + α KL", True, _OF_COSTS, Trial("relaxed", 0.0), _relaxed),
    "debiased": Family("W debiased + α KL", True, _OF_COSTS, Trial("debiased", 0.0), _smoothed),
    "plan_softened": Family(
        "W plan + α KL on softened", True, _OF_COSTS, Trial("plan_softened", 0.0), _with_softened
    ),
}

# Those that need labels on a line.
ORDERED: dict[str, Family] = {
    "squared_emd": Family(
        "squared EMD + α KL", False, _OF_COSTS, Trial("squared_emd", 0.0), _with_kl
    ),
}


def find_family(name: str) -> Family:
    """The family of that name."""
    known = FAMILIES | ORDERED
    if name not in known:
        raise ValueError(f"family must be one of {', '.join(known)}, got {name!r}")
    return known[name]


def draw_trials(family: str, budget: Budget, length: float, seed: int) -> list[Trial]:
    """The trials of a family, the same for the same seed.

    Args:
        family: its name.
        budget: how many.
        length: the mean square length of the examples, by which learning rates are divided.
        seed: of the draw.
    """
    chosen = find_family(family)
    rng = np.random.default_rng([seed, *family.encode()])
    rates, bases = budget.rates, [chosen.base]
    if chosen.draw is None:
        rates *= budget.strengths
    else:
        bases = [chosen.draw(rng, chosen.base) for _ in range(budget.strengths)]
    return [
        replace(base, rate=float(rate) / length, penalty=penalty)
        for base in bases
        for rate in np.geomspace(*chosen.rates, rates)
        for penalty in budget.penalties
    ]
