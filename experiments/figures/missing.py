"""Incomplete tags: how gracefully does each loss degrade when tags are left out at random?

Tags are left out of the training and the validation part, because a user with incomplete tags has
no complete ones for tuning; the test part keeps all tags. Losses are tuned anew at every rate:
strengths chosen on complete tags need not suit incomplete ones, and should not count against a
loss. Every seed leaves out different tags.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from experiments.corpora.noise import drop_tags
from experiments.lab.cache import Cache
from experiments.lab.experiment import Experiment, Outcome, Result, Verdict
from experiments.lab.families import FAMILIES, Budget, count_trials
from experiments.lab.intervals import bands
from experiments.lab.labelled import SETS, LabelledSet, Part, as_labelled, best_device
from experiments.lab.pca import compressed
from experiments.lab.search import choose, difference, finals, search
from experiments.lab.style import draw_band, finish, new_figure, state_sizes
from experiments.lab.trials import Scores

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Settings:
    """Sizes.

    Attributes:
        sets: names of data sets; those without files are left out.
        rates: probabilities that a tag is left out; the others are compared with the first.
        families: names of losses; see `families.py`.
        features: number of principal components; None for all features.
    """

    sets: tuple[str, ...] = ("clipart", "flickr8k")
    rates: tuple[float, ...] = (0.0, 0.25, 0.5, 0.75)
    families: tuple[str, ...] = ("kl", "softened", "expected", "plan", "product")
    budget: Budget = field(default_factory=lambda: Budget(strengths=4))
    iterations: int = 1500
    seeds: int = 5
    features: int | None = None
    seed: int = 0


def compute(settings: Settings, cache: Cache | None = None) -> dict[str, Any]:
    """For each set and rate: choices, scores on complete test data, paired differences from KL."""
    cache = cache or Cache()
    sets = {}
    for name in settings.sets:
        try:
            data = as_labelled(compressed(SETS[name](), settings.features), best_device())
        except FileNotFoundError as error:
            cache.say(f"{name} is left out: {error}")
            continue
        rates = [
            cache.part(f"{name}, {rate:g} left out", partial(_at_rate, data, rate, settings))
            for rate in settings.rates
        ]
        sets[name] = _joined(rates, data, settings)
    return {"sets": sets}


def _at_rate(data: LabelledSet, rate: float, settings: Settings) -> dict[str, Any]:
    families = settings.families
    dropped = incomplete(data, rate, settings.seed)
    found = search(dropped, families, settings.budget, settings.iterations, settings.seed)
    chosen = {family: choose(found[family]) for family in families}
    scored: dict[str, list[Scores]] = {family: [] for family in families}
    for seed in _seeds(settings):
        own = finals(incomplete(data, rate, seed), chosen, [seed])
        for family in families:
            scored[family] += own[family]
    used = (dropped.train.target.weights > 0).sum(1).double()
    return {
        "tags": float(used.mean()),
        "chosen": {family: candidate.as_json() for family, candidate in chosen.items()},
        "scores": {family: [run.summary() for run in runs] for family, runs in scored.items()},
        "differences": {
            own: {
                other: {
                    score: difference(scored[own], scored[other], score, data.test.groups)
                    for score in ("cost", "auc")
                }
                for other in families
                if other != own
            }
            for own in families
        },
        # Compared between rates by `_joined`.
        "costs": {
            family: [np.round(run.cost, 6).tolist() for run in runs]
            for family, runs in scored.items()
        },
    }


def _seeds(settings: Settings) -> list[int]:
    return [settings.seed + 1 + s for s in range(settings.seeds)]


def incomplete(data: LabelledSet, rate: float, seed: int) -> LabelledSet:
    """The same data with tags left out of the training and the validation part.

    With one seed, the tags left out at one rate are also left out at larger ones.
    """

    def drop(part: Part, seed: int) -> Part:
        cpu = part.to(torch.device("cpu"))
        return replace(cpu, target=drop_tags(cpu.target, rate, seed=seed)).to(data.device)

    return replace(
        data, train=drop(data.train, 2 * seed), validation=drop(data.validation, 2 * seed + 1)
    )


@dataclass(frozen=True)
class _Loss:
    """The cost that incomplete tags add for each test example, of one seed."""

    cost: Any


def _joined(
    rates: Sequence[dict[str, Any]], data: LabelledSet, settings: Settings
) -> dict[str, Any]:
    """Collect all rates of a set, and how much more each family loses to missing tags than KL."""
    lost = {
        family: [
            [
                _Loss(np.array(now) - np.array(before))
                for now, before in zip(
                    at_rate["costs"][family], rates[0]["costs"][family], strict=True
                )
            ]
            for at_rate in rates
        ]
        for family in settings.families
    }
    return {
        "sizes": {part: len(getattr(data, part)) for part in ("train", "validation", "test")},
        "labels": len(data.label_names),
        "rates": [{k: v for k, v in at_rate.items() if k != "costs"} for at_rate in rates],
        "lost": {
            family: [
                difference(own, kl, "cost", data.test.groups)
                for own, kl in zip(lost[family], lost["kl"], strict=True)
            ]
            for family in settings.families
            if family != "kl"
        },
    }


def draw(result: Result) -> dict[str, Figure]:
    """Draw cost and AUC against the rate, for each set."""
    return {name: _draw_set(name, found, result) for name, found in _sets(result)}


def _draw_set(name: str, found: Mapping[str, Any], result: Result) -> Figure:
    settings = result["settings"]
    figure, axes = new_figure(1, 2, (11, 4.4))
    for ax, score in zip(axes[0], ("cost", "auc"), strict=True):
        for place, family in enumerate(settings["families"]):
            rows = [[run[score] for run in at_rate["scores"][family]] for at_rate in found["rates"]]
            draw_band(ax, settings["rates"], bands(rows), place, FAMILIES[family].title)
    x = "how probable it is that a training tag is left out"
    last = len(found["rates"][0]["scores"]["kl"][0]["curve"])
    cost = f"mean top-k cost, k = 1…{last}"
    finish(axes[0, 0], f"{name}: cost (less is better)", x, cost)
    finish(axes[0, 1], f"{name}: ranking AUC (more is better)", x, "AUC", legend=False)
    state_sizes(
        figure,
        f"{result['mode']}: {found['sizes']['train']:,} training examples, {found['labels']} tags, "
        f"{count_trials(settings['budget'])} trials a loss, {settings['iterations']:,} steps at "
        f"most; bands: 95 % intervals over {settings['seeds']} seeds",
    )
    return figure


def verdict(result: Result) -> list[Verdict]:
    """Compare Wasserstein losses with KL, at every rate and in what they lose, and with rivals."""
    found = []
    for name, of_set in _sets(result):
        ours = [f for f in result["settings"]["families"] if FAMILIES[f].ours]
        for family in ours:
            found += [
                _cheaper(name, of_set, family, result),
                _graceful(name, of_set, family, result),
            ]
        found.append(_not_behind(name, of_set, ours, result))
    return found


def _cheaper(name: str, found: Mapping[str, Any], family: str, result: Result) -> Verdict:
    rates = result["settings"]["rates"]
    gaps = [at_rate["differences"][family]["kl"] for at_rate in found["rates"]]
    better = [rate for rate, gap in zip(rates, gaps, strict=True) if gap["cost"]["high"] < 0]
    worse = [f"{rate:g}" for rate, gap in zip(rates, gaps, strict=True) if gap["cost"]["low"] > 0]
    outcome = Outcome.PARTLY if better else Outcome.FAILED
    return Verdict(
        f"{name}, {FAMILIES[family].title}: less mean top-k cost than KL, however many tags are "
        "left out",
        Outcome.HELD if len(better) == len(rates) else outcome,
        "; ".join(
            f"{rate:g} left out: {_interval(gap['cost'])} against "
            f"{_mean(at_rate, 'kl', 'cost'):.4f}"
            for rate, gap, at_rate in zip(rates, gaps, found["rates"], strict=True)
        ),
        "AUC minus KL's: "
        + ", ".join(_interval(gap["auc"]) for gap in gaps)
        + (f". Worse than KL, outside the interval, at {', '.join(worse)}." if worse else "."),
    )


def _graceful(name: str, found: Mapping[str, Any], family: str, result: Result) -> Verdict:
    rates, gap = result["settings"]["rates"], found["lost"][family][-1]
    lost = _mean(found["rates"][-1], "kl", "cost") - _mean(found["rates"][0], "kl", "cost")
    words = "No clear difference" if gap["low"] <= 0 <= gap["high"] else "KL loses less"
    if gap["high"] < 0:
        words = "KL loses more"
    others = [f for f in found["lost"] if f != family]
    return Verdict(
        f"{name}, {FAMILIES[family].title}: loses less than KL when tags are left out",
        Outcome.HELD if gap["high"] < 0 else Outcome.FAILED,
        f"from {rates[0]:g} to {rates[-1]:g} left out its cost grows by {_interval(gap)} more than "
        f"KL's, which grows by {lost:.4f}",
        f"{words}. Of the others: "
        + ", ".join(f"{FAMILIES[f].title} {_interval(found['lost'][f][-1])}" for f in others)
        + ".",
    )


def _not_behind(
    name: str, found: Mapping[str, Any], ours: Sequence[str], result: Result
) -> Verdict:
    families = result["settings"]["families"]
    rivals = [f for f in families if f not in ours and f != "kl"]
    ahead, effects = [], []
    for rate, at_rate in zip(result["settings"]["rates"], found["rates"], strict=True):
        # Chosen by validation cost, like everything else.
        best = min(ours, key=lambda f, at=at_rate: float(at["chosen"][f]["cost"]))  # type: ignore[misc]
        for rival in rivals:
            gap = at_rate["differences"][best][rival]["cost"]
            effects.append(f"{rate:g} left out: {FAMILIES[rival].title} {_interval(gap)}")
            ahead += [f"{FAMILIES[rival].title} at {rate:g}"] if gap["low"] > 0 else []
    cells = len(effects)
    outcome = Outcome.PARTLY if len(ahead) < cells else Outcome.FAILED
    least = [
        min(families, key=lambda f, at=at_rate: _mean(at, f, "cost"))  # type: ignore[misc]
        for at_rate in found["rates"]
    ]
    return Verdict(
        f"{name}: no baseline has less cost than the Wasserstein loss of least validation cost, "
        "outside the interval",
        outcome if ahead else Outcome.HELD,
        "its cost minus that of the baseline; " + "; ".join(effects),
        (f"Ahead: {', '.join(ahead)}. " if ahead else "")
        + "Least cost on test data, from few to many left out: "
        + ", ".join(FAMILIES[family].title for family in least)
        + ".",
    )


def _mean(at_rate: Mapping[str, Any], family: str, name: str) -> float:
    return float(np.mean([run[name] for run in at_rate["scores"][family]]))


def _interval(gap: Mapping[str, float]) -> str:
    return f"{gap['mean']:+.4f} [{gap['low']:+.4f}, {gap['high']:+.4f}]"


def _sets(result: Result) -> list[tuple[str, Any]]:
    return list(result["found"]["sets"].items())


EXPERIMENT = Experiment(
    name="missing",
    title="Tags left out at random",
    claim="with incomplete tags, a Wasserstein loss loses less than KL",
    figure="beyond the paper",
    quick=Settings(
        sets=("clipart",),
        budget=Budget(3, 3, (0.005,)),
        iterations=150,
        features=64,
    ),
    full=Settings(),
    compute=compute,
    draw=draw,
    verdict=verdict,
)
