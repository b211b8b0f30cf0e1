"""Families of losses that are compared, and what of each is searched.

Every family has as many trials, each of which is stopped where it is best: some strengths drawn at
random from its ranges, each with every learning rate and weight penalty of a grid; a family without
strengths has a finer grid of learning rates instead. Ranges are those of a user who has read the
documentation; they were set by looking at validation scores only.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from wassloss.reproduce.trials import Trial

MOST_STRENGTHS = 4  # that a loss has


@dataclass(frozen=True)
class Budget:
    """How many trials a family has: their product.

    Attributes:
        strengths: of the loss, drawn at random.
        rates: learning rates, of a grid.
        penalties: weight penalties of a loss of KL's size.
    """

    strengths: int = 6
    rates: int = 3
    penalties: tuple[float, ...] = (0.02, 0.005, 0.001)


def count_trials(budget: Mapping[str, Any]) -> int:
    """How many trials a family had, from the budget as JSON holds it."""
    return int(budget["strengths"] * budget["rates"] * len(budget["penalties"]))


@dataclass(frozen=True)
class Family:
    """A kind of loss.

    Attributes:
        title: for a legend.
        ours: whether it is a Wasserstein loss; otherwise a rival.
        size: of its gradients, over those of KL. Learning rates are divided by it and weight
            penalties multiplied, so that their ranges mean the same for all.
        base: the trial without strengths.
        draw: from numbers between 0 and 1 to a trial with strengths, in units of the typical
            distance and cost; None where there are none.
    """

    title: str
    ours: bool
    size: float
    base: Trial
    draw: Callable[[Sequence[float], Trial], Trial] | None = None


def _log_between(u: float, low: float, high: float) -> float:
    return float(low * (high / low) ** u)


def _width(u: Sequence[float], trial: Trial) -> Trial:
    return replace(trial, width=_log_between(u[0], 0.15, 0.8))


def _costs(u: Sequence[float], trial: Trial) -> Trial:
    return replace(trial, power=1.0 if u[0] < 0.5 else 2.0, kl=_log_between(u[1], 0.005, 0.5))


def _smoothed(u: Sequence[float], trial: Trial) -> Trial:
    return replace(_costs(u, trial), strength=_log_between(u[2], 2.0, 12.0))


def _from_expected_to_exact(u: Sequence[float], trial: Trial) -> Trial:
    # Without the entropy of the prediction there is no bias to fear from a large λ, and a small one
    # leads to the expected cost.
    return replace(_costs(u, trial), strength=_log_between(u[2], 0.5, 50.0))


def _with_kl(u: Sequence[float], trial: Trial) -> Trial:
    return replace(trial, kl=_log_between(u[1], 0.005, 0.5))


def _either(u: Sequence[float], trial: Trial) -> Trial:
    if u[3] < 0.5:
        return _smoothed(u, replace(trial, loss="plan"))
    return _from_expected_to_exact(u, replace(trial, loss="product"))


def _relaxed(u: Sequence[float], trial: Trial) -> Trial:
    return replace(_smoothed(u, trial), gamma=_log_between(u[3], 0.5, 10.0))


def _with_softened(u: Sequence[float], trial: Trial) -> Trial:
    return replace(_smoothed(u, trial), width=_log_between(u[3], 0.15, 0.8))


RATES = 3.0, 60.0  # of a loss of KL's size, for examples of mean square length 1
# Under transport costs a prediction that is spread over many labels has small gradients.
_OF_KL, _OF_COSTS = 1.0, 0.1

FAMILIES: dict[str, Family] = {
    "kl": Family("KL", False, _OF_KL, Trial("kl", 0.0)),
    "decoded": Family("KL, least expected cost", False, _OF_KL, Trial("kl", 0.0, decode="cost")),
    "softened": Family("KL on softened labels", False, _OF_KL, Trial("softened", 0.0), _width),
    "expected": Family("expected cost + α KL", False, _OF_COSTS, Trial("expected", 0.0), _costs),
    "wasserstein": Family("W + α KL", True, _OF_COSTS, Trial("plan", 0.0), _either),
    "plan": Family("W plan + α KL", True, _OF_COSTS, Trial("plan", 0.0), _smoothed),
    "product": Family(
        "W product + α KL", True, _OF_COSTS, Trial("product", 0.0), _from_expected_to_exact
    ),
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


def draw_trials(
    family: str, budget: Budget, *, length: float, typical: float, seed: int
) -> list[Trial]:
    """The trials of a family, the same for the same seed.

    Strengths are drawn as a Latin hypercube, so that a few of them cover their ranges.

    Args:
        family: its name.
        budget: how many.
        length: the mean square length of the examples, by which learning rates are divided.
        typical: the median distance between labels, the unit of strengths.
        seed: of the draw.
    """
    chosen = find_family(family)
    rates, bases = budget.rates, [chosen.base]
    if chosen.draw is None:
        rates *= budget.strengths
    else:
        rng = np.random.default_rng([seed, *family.encode()])
        cells = [rng.permutation(budget.strengths) for _ in range(MOST_STRENGTHS)]
        points = (np.stack(cells, 1) + rng.random((budget.strengths, MOST_STRENGTHS))) / len(
            cells[0]
        )
        bases = [in_units(chosen.draw(point.tolist(), chosen.base), typical) for point in points]
    return [
        replace(base, rate=float(rate) / length / chosen.size, penalty=penalty * chosen.size)
        for base in bases
        for rate in np.geomspace(*RATES, rates)
        for penalty in budget.penalties
    ]


def in_units(trial: Trial, typical: float) -> Trial:
    """A trial whose strengths were in units of the typical distance and cost, in plain ones."""
    cost = typical**trial.power
    return replace(
        trial,
        strength=trial.strength / cost,
        kl=trial.kl * cost,
        gamma=trial.gamma * cost,
        width=trial.width * typical,
    )
