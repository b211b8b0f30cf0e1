"""Choose trials on validation data, and score the chosen ones on test data with many seeds."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.lab.families import Budget, draw_trials
from experiments.lab.labelled import LabelledSet
from experiments.lab.trials import Scores, Trial, train_trials
from wassloss.scores import paired_difference

AUC_SLACK = 0.002  # how far below KL's the AUC of a choice may be


@dataclass(frozen=True)
class Candidate:
    """A trial stopped at an iteration, and its mean scores on validation data."""

    trial: Trial
    iteration: int
    cost: float
    auc: float
    accuracy: float

    def as_json(self) -> dict[str, Any]:
        return {
            "trial": self.trial.as_json(),
            "iteration": self.iteration,
            "cost": self.cost,
            "auc": self.auc,
            "accuracy": self.accuracy,
        }

    @classmethod
    def from_json(cls, read: Mapping[str, Any]) -> Candidate:
        return cls(**{**read, "trial": Trial(**read["trial"])})


def candidates(
    data: LabelledSet,
    trials: Sequence[Trial],
    iterations: int,
    seed: int,
    looks: Sequence[int] | None = None,
) -> list[list[Candidate]]:
    """Score every trial at every evaluation on validation data; `looks` as in `train_trials`."""
    found = train_trials(data, trials, [seed] * len(trials), iterations, looks=looks)
    return [
        [
            Candidate(trial, look.iteration, s["cost"], s["auc"], s["accuracy"])
            for look in of_trial
            for s in [look.scores.summary()]
        ]
        for trial, of_trial in zip(trials, found, strict=True)
    ]


def trials_for(data: LabelledSet, family: str, budget: Budget, seed: int) -> list[Trial]:
    """The trials of a family, in the units of the data."""
    length = data.train.features.shape[1]  # their mean square is 1
    typical = data.metric.median_cost()
    return draw_trials(family, budget, length=length, typical=typical, seed=seed)


def search(
    data: LabelledSet,
    families: Sequence[str],
    budget: Budget,
    iterations: int,
    seed: int,
    less: Sequence[float] = (),
) -> dict[str, list[Candidate]]:
    """Score the same number of trials of each family, at every evaluation.

    Each model that ranks labels by probability is also scored with the regressed cost subtracted,
    `less` times, divided by the typical distance; these candidates have `trial.less`.
    """
    typical = data.metric.median_cost()
    drawn = {
        family: [
            replace(trial, less=weight / typical)
            for trial in trials_for(data, family, budget, seed)
            for weight in (0.0, *(less if trial.decode == "probability" else ()))
        ]
        for family in families
    }
    trials = [trial for family in families for trial in drawn[family]]
    found = iter(candidates(data, trials, iterations, seed))
    return {
        family: [candidate for _ in drawn[family] for candidate in next(found)]
        for family in families
    }


def choose(found: Sequence[Candidate], least_auc: float = -np.inf) -> Candidate:
    """The candidate of least cost among those with enough AUC; if there is none, of most AUC."""
    enough = [candidate for candidate in found if candidate.auc >= least_auc]
    if not enough:
        return max(found, key=lambda candidate: candidate.auc)
    return min(enough, key=lambda candidate: candidate.cost)


def front(found: Sequence[Candidate]) -> list[Candidate]:
    """The candidates that no other beats in both cost and AUC, sorted by cost."""
    best, kept = -np.inf, []
    for candidate in sorted(found, key=lambda c: (c.cost, -c.auc)):
        if candidate.auc > best:
            kept.append(candidate)
            best = candidate.auc
    return kept


def finals(
    data: LabelledSet, chosen: Mapping[str, Candidate], seeds: Sequence[int]
) -> dict[str, list[Scores]]:
    """Train each choice once per seed and score it on test data; equal choices are shared."""
    places = {(c.trial, c.iteration): c for c in chosen.values()}
    each = [candidate for candidate in places.values() for _ in seeds]
    looks = [candidate.iteration for candidate in each]
    found = train_trials(
        data,
        [candidate.trial for candidate in each],
        [seed for _ in places for seed in seeds],
        max(looks),
        on="test",
        looks=looks,
    )
    scores = iter(found)
    of_choice = {key: [next(scores)[0].scores for _ in seeds] for key in places}
    return {name: of_choice[c.trial, c.iteration] for name, c in chosen.items()}


def difference(
    own: Sequence[Any],
    other: Sequence[Any],
    name: str,
    groups: NDArray[np.int64] | None = None,
) -> dict[str, float]:
    """The mean paired difference `own − other` with its 95 % interval over examples and seeds.

    Args:
        own: scores, one object per seed, with one number per example.
        other: those of the same seeds on the same examples.
        name: name of the score.
        groups: examples of one group are variants of each other.
    """
    gaps = [getattr(a, name) - getattr(b, name) for a, b in zip(own, other, strict=True)]
    return asdict(paired_difference(gaps, groups))


def compare(
    scored: Mapping[str, Sequence[Scores]],
    groups: Any,
    wanted: Callable[[str, str], bool] = operator.ne,
) -> dict[str, Any]:
    """Paired differences of cost and AUC between two choices, `own − other`; any two by default."""
    return {
        own: {
            other: {
                name: difference(scored[own], scored[other], name, groups)
                for name in ("cost", "auc")
            }
            for other in scored
            if wanted(own, other)
        }
        for own in scored
    }
