"""One true label per example: how far from it is the first guess of each family of losses?

Shared by `ordinal` and `hierarchy`. Every family has the same number of trials; the one whose first
guess is nearest on validation data is trained again with several seeds and scored on test data.
Distances are whole numbers of steps between labels.

With one true label all of the prediction is moved there, so the product regulariser has no effect:
that Wasserstein loss is the expected cost, and is listed under this name.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from experiments.lab.experiment import Outcome, Result, Verdict
from experiments.lab.families import Budget, count_trials, find_family
from experiments.lab.labelled import LabelledSet
from experiments.lab.search import Candidate, choose, difference, finals, trials_for
from experiments.lab.style import COLORS, MARKERS, finish, new_figure, state_sizes
from experiments.lab.trials import Scores, train_trials

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCORES = ("distance", "right", "far")


@dataclass(frozen=True)
class SingleLabelSettings:
    """Sizes of an experiment; every family has the same number of trials."""

    families: tuple[str, ...] = ("kl", "decoded", "softened", "expected", "plan")
    budget: Budget = field(default_factory=Budget)
    iterations: int = 3000
    seeds: int = 10
    far: int = 2  # steps from which a mistake is a grave one
    seed: int = 0


@dataclass(frozen=True)
class Guesses:
    """First guesses of one model, one number per example.

    Attributes:
        distance: from the true label, in steps.
        right: whether it is the true label.
        far: whether it is a grave mistake.
    """

    distance: NDArray[np.float64]
    right: NDArray[np.float64]
    far: NDArray[np.float64]

    @classmethod
    def of(cls, scores: Scores, steps: float, far: int) -> Guesses:
        """From the top-1 cost: with one true label, the distance in units of `steps` steps."""
        distance = np.rint(scores.curve[:, 0] * steps)
        return cls(distance, scores.accuracy, (distance >= far).astype(np.float64))

    @classmethod
    def joined(cls, parts: Sequence[Guesses]) -> Guesses:
        """Join the guesses of different models for several parts of the examples."""
        return cls(*(np.concatenate([getattr(part, name) for part in parts]) for name in SCORES))

    def summary(self) -> dict[str, float]:
        return {name: round(float(getattr(self, name).mean()), 5) for name in SCORES}


def tune(data: LabelledSet, settings: SingleLabelSettings) -> dict[str, Candidate]:
    """The trial of each family, stopped at its best, with the nearest first guess on validation."""
    drawn = {
        family: trials_for(data, family, settings.budget, settings.seed)
        for family in settings.families
    }
    trials = [trial for family in settings.families for trial in drawn[family]]
    found = iter(train_trials(data, trials, [settings.seed] * len(trials), settings.iterations))
    return {
        family: choose(
            [
                Candidate(
                    trial,
                    look.iteration,
                    float(look.scores.curve[:, 0].mean()),
                    float(np.nanmean(look.scores.auc)),
                    float(look.scores.accuracy.mean()),
                )
                for trial in drawn[family]
                for look in next(found)
            ]
        )
        for family in settings.families
    }


def guess(
    data: LabelledSet, chosen: Mapping[str, Candidate], steps: float, settings: SingleLabelSettings
) -> dict[str, list[Guesses]]:
    """First guesses on test data, for each seed."""
    seeds = [settings.seed + 1 + s for s in range(settings.seeds)]
    return {
        family: [Guesses.of(scores, steps, settings.far) for scores in runs]
        for family, runs in finals(data, chosen, seeds).items()
    }


def summarize(
    chosen: Mapping[str, Sequence[Candidate]], guesses: Mapping[str, Sequence[Guesses]]
) -> dict[str, Any]:
    """Return the JSON: choices, means per seed, paired differences between any two families.

    Args:
        chosen: for each family, its choices, one per split of the data.
        guesses: for each family, its guesses, one per seed.
    """
    return {
        "chosen": {family: [c.as_json() for c in each] for family, each in chosen.items()},
        "scores": {family: [run.summary() for run in runs] for family, runs in guesses.items()},
        "differences": {
            own: {
                other: {name: difference(guesses[own], guesses[other], name) for name in SCORES}
                for other in guesses
                if other != own
            }
            for own in guesses
        },
    }


def draw_differences(result: Result, step: str, sizes: str) -> Figure:
    """Draw each family minus KL: distance, accuracy, grave mistakes, with their intervals."""
    found, settings = result["found"], result["settings"]
    others = [family for family in found["scores"] if family != "kl"]
    kl = {name: _mean(found, "kl", name) for name in SCORES}
    figure, axes = new_figure(1, 3, (13.5, 4.2))
    titles = {
        "distance": f"distance of the first guess (KL {kl['distance']:.3f} {step}s)",
        "right": f"accuracy (KL {kl['right']:.3f})",
        "far": f"mistakes of {settings['far']} {step}s or more (KL {kl['far']:.3f})",
    }
    for ax, name in zip(axes[0], SCORES, strict=True):
        for row, family in enumerate(others):
            gap = found["differences"][family]["kl"][name]
            color = COLORS[0] if find_family(family).ours else COLORS[1]
            ax.plot([gap["low"], gap["high"]], [row, row], color=color, linewidth=2)
            ax.plot(
                [gap["mean"]], [row], color=color, linestyle="",
                marker=MARKERS[0] if find_family(family).ours else MARKERS[1],
            )  # fmt: skip
        ax.axvline(0, color="#444444", linewidth=0.8)
        ax.set_yticks(range(len(others)), [find_family(f).title for f in others], fontsize=8)
        ax.invert_yaxis()
        better = "more is better" if name == "right" else "less is better"
        finish(ax, titles[name], f"difference from KL ({better})", "", legend=False)
        ax.tick_params(axis="y", labelleft=name == "distance")
        ax.set_ylabel("loss")
    state_sizes(
        figure,
        f"{result['mode']}: {sizes}, {count_trials(settings['budget'])} trials a loss, "
        f"{settings['iterations']:,} steps at most, {settings['seeds']} seeds; circles: "
        "Wasserstein losses, squares: baselines; lines: 95 % intervals",
    )
    return figure


def verdicts(result: Result, step: str) -> list[Verdict]:
    """Compare with KL and with every baseline, and evaluate the loss of accuracy.

    Among several Wasserstein losses, one is chosen by validation distance to represent them.
    """
    found = result["found"]
    ours = [family for family in found["scores"] if find_family(family).ours]
    best = min(ours, key=lambda family: np.mean([c["cost"] for c in found["chosen"][family]]))
    gaps = found["differences"][best]
    return [
        _nearer(found, best, gaps["kl"]["distance"], step),
        _not_behind(found, best, step),
        _as_right(result, best, gaps["kl"], step),
    ]


def _nearer(found: Mapping[str, Any], best: str, gap: Mapping[str, float], step: str) -> Verdict:
    kl = _mean(found, "kl", "distance")
    others = [f for f in found["scores"] if f not in ("kl", best)]
    if gap["high"] < 0:
        words = ""
    elif gap["low"] > 0:
        words = "KL is nearer. "
    else:
        words = "No clear difference. "
    return Verdict(
        "the first guess of a Wasserstein loss is nearer to the truth than KL's",
        Outcome.HELD if gap["high"] < 0 else Outcome.FAILED,
        f"{find_family(best).title}: {_interval(gap)} {step}s against {kl:.3f} "
        f"({gap['mean'] / kl:+.1%})",
        words
        + "The others, minus KL's distance: "
        + ", ".join(
            f"{find_family(f).title} {_interval(found['differences'][f]['kl']['distance'])}"
            for f in others
        )
        + f". Chosen on validation data: {_described(found['chosen'][best])}. "
        "Intervals are over test examples and seeds, not over that choice.",
    )


def _not_behind(found: Mapping[str, Any], best: str, step: str) -> Verdict:
    rivals = [f for f in found["scores"] if f != "kl" and not find_family(f).ours]
    gaps = {rival: found["differences"][best][rival]["distance"] for rival in rivals}
    ahead = [rival for rival in rivals if gaps[rival]["low"] > 0]
    beaten = [rival for rival in rivals if gaps[rival]["high"] < 0]
    words = f"Behind it, outside the interval: {_titles(beaten)}."
    if ahead:
        words = f"Nearer to the truth, outside the interval: {_titles(ahead)}. {words}"
    return Verdict(
        "no baseline is nearer to the truth than that Wasserstein loss, outside the interval",
        Outcome.FAILED if ahead else Outcome.HELD,
        f"its distance minus that of each baseline, in {step}s: "
        + ", ".join(f"{find_family(r).title} {_interval(gap)}" for r, gap in gaps.items()),
        words,
    )


def _as_right(result: Result, best: str, gap: Mapping[str, Any], step: str) -> Verdict:
    found, far = result["found"], result["settings"]["far"]
    return Verdict(
        "it is right as often as KL, up to the interval, and makes fewer grave mistakes",
        Outcome.FAILED
        if gap["far"]["high"] >= 0
        else Outcome.HELD
        if gap["right"]["high"] >= 0
        else Outcome.PARTLY,
        f"accuracy {_interval(gap['right'])} against {_mean(found, 'kl', 'right'):.3f}; mistakes "
        f"of {far} {step}s or more {_interval(gap['far'])} against {_mean(found, 'kl', 'far'):.3f}",
        "Accuracy and grave mistakes of all: "
        + ", ".join(
            f"{find_family(f).title} {right:.3f} and {grave:.3f}"
            for f in found["scores"]
            for right, grave in [(_mean(found, f, "right"), _mean(found, f, "far"))]
        )
        + ".",
    )


def _titles(families: Sequence[str]) -> str:
    return ", ".join(find_family(family).title for family in families) or "none"


def _mean(found: Mapping[str, Any], family: str, name: str) -> float:
    return float(np.mean([run[name] for run in found["scores"][family]]))


def _interval(gap: Mapping[str, float]) -> str:
    return f"{gap['mean']:+.3f} [{gap['low']:+.3f}, {gap['high']:+.3f}]"


def _described(chosen: Sequence[Mapping[str, Any]]) -> str:
    """The strengths of the choices, one per split."""
    return "; ".join(
        f"power {trial.get('power', 1):g}, λ = {trial.get('strength', 1):.3g}, "
        f"α = {trial.get('kl', 0):.2g}"
        for trial in (choice["trial"] for choice in chosen)
    )
