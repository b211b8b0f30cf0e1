"""Alternatives that a user may choose, tuned equally: mean top-k cost against AUC.

Each family of losses has the same number of trials. Three are chosen from each on validation data:
the one with the least mean top-k cost; the one with the least cost whose AUC is at most 0.002 below
that of the chosen KL model; and the same with labels ranked by the model's logits minus a
regression of each label's cost, which can be subtracted from any model after training. The chosen
trials are trained again with several seeds and scored on test data.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import TYPE_CHECKING, Any

from experiments.lab.cache import Cache
from experiments.lab.experiment import Experiment, Outcome, Result, Verdict
from experiments.lab.families import FAMILIES, ON_TAGS, Budget
from experiments.lab.labelled import PARTS, best_device, each_set, load_labelled
from experiments.lab.search import (
    AUC_SLACK,
    Candidate,
    choose,
    compare,
    finals,
    front,
    search,
)
from experiments.lab.style import COLORS, MARKERS, finish, new_figure, state_sizes
from experiments.lab.verdict_text import described, interval, mean_of

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SCORES = ("cost", "auc")
RULES = ("cost", "auc", "regressed")
FILLS = {"cost": "none", "auc": "full", "regressed": "left"}
AT_KLS_AUC = {
    "auc": "a Wasserstein loss",
    "regressed": "a Wasserstein loss with the regressed cost subtracted",
}
# Two features for 36 classes need large weights, reached slowly: the weight penalties and learning
# rates of tags would keep every loss from them.
ON_LATTICE = Budget(penalties=(0.0005, 0.00002), span=(0.6, 6.0))
# Targets set in advance: relative reduction of cost from KL's at its AUC.
TARGETS = {"flickr8k": 0.08, "delicious": 0.04}


@dataclass(frozen=True)
class Settings:
    """Sizes.

    Attributes:
        sets: names of data sets; those without files are left out.
        families: names of losses; see `families.py`.
        without: families left out for a set, because they would take too long.
        own_budget: budgets of sets that need other learning rates and weight penalties.
        less: weights of the regressed cost, divided by the typical distance.
        most: limit on the training examples of a set; None for all.
    """

    sets: tuple[str, ...] = ("lattice", "clipart", "flickr8k", "delicious")
    families: tuple[str, ...] = tuple(name for name in FAMILIES if name != "wasserstein")
    without: Mapping[str, tuple[str, ...]] = field(
        default_factory=lambda: dict.fromkeys(("clipart", "flickr8k", "delicious"), ("debiased",))
    )
    budget: Budget = ON_TAGS
    own_budget: Mapping[str, Budget] = field(default_factory=lambda: {"lattice": ON_LATTICE})
    less: tuple[float, ...] = (1.0, 2.5, 5.0, 10.0, 20.0, 40.0)
    iterations: int = 4000
    seeds: int = 5
    most: int | None = None
    seed: int = 0


def compute(settings: Settings, cache: Cache | None = None) -> dict[str, Any]:
    """Candidates on validation data, choices on test data, paired differences between choices."""
    compute_set = partial(_compute_set, settings=settings)
    return {"sets": each_set(settings.sets, cache or Cache(), compute_set)}


def _compute_set(name: str, settings: Settings) -> dict[str, Any]:
    data = load_labelled(name, best_device(), settings.most)
    families = [f for f in settings.families if f not in settings.without.get(name, ())]
    budget = settings.own_budget.get(name, settings.budget)
    found = search(data, families, budget, settings.iterations, settings.seed, settings.less)
    plain = {family: [c for c in each if not c.trial.less] for family, each in found.items()}
    kl = choose(plain["kl"])
    chosen = {}
    for family in families:
        chosen[f"{family} cost"] = choose(plain[family])
        chosen[f"{family} auc"] = choose(plain[family], kl.auc - AUC_SLACK)
        chosen[f"{family} regressed"] = choose(found[family], kl.auc - AUC_SLACK)
    seeds = [settings.seed + 1 + s for s in range(settings.seeds)]
    scored = finals(data, chosen, seeds)
    return {
        "iterations": settings.iterations,
        "seeds": settings.seeds,
        "sizes": {part: len(getattr(data, part)) for part in PARTS},
        "candidates": {f: [_point(c) for c in front(plain[f])] for f in families},
        "trials": {f: len({c.trial for c in plain[f]}) for f in families},
        "chosen": {key: candidate.as_json() for key, candidate in chosen.items()},
        "scores": {key: [run.summary() for run in runs] for key, runs in scored.items()},
        "differences": compare(scored, data.test.groups, _compared),
    }


def _compared(own: str, other: str) -> bool:
    """Whether to compare two choices: those with the same rule, and any with KL."""
    alike = own.split()[1] == other.split()[1]
    return own != other and (alike or other == "kl cost")


def _point(candidate: Candidate) -> dict[str, Any]:
    return {"cost": candidate.cost, "auc": candidate.auc}


def draw(result: Result) -> dict[str, Figure]:
    """Draw each family's front on validation data, and its choices on test data, for each set."""
    return {name: _draw_set(name, found, result) for name, found in _sets(result)}


def _draw_set(name: str, found: Mapping[str, Any], result: Result) -> Figure:
    figure, axes = new_figure(1, 2, (13, 5))
    tried, tested = axes[0]
    outside = []
    chosen = {
        (family, rule): [mean_of(found["scores"][f"{family} {rule}"], s) for s in SCORES]
        for family in found["candidates"]
        for rule in RULES
    }
    window = _window(chosen)
    on_validation = {
        (family, rule): [found["chosen"][f"{family} {rule}"][s] for s in SCORES]
        for family, rule in chosen
    }
    for family, points in found["candidates"].items():
        look, label = _look(family), FAMILIES[family].title
        style = "-" if FAMILIES[family].ours else ":"
        xs, ys = ([p[s] for p in points] for s in SCORES)
        tried.plot(xs, ys, linewidth=1.4, linestyle=style, markersize=4, label=label, **look)
        for rule in RULES:
            x, y = chosen[family, rule]
            tested.plot([x], [y], linestyle="", markersize=8, fillstyle=FILLS[rule], **look)
            if not (window[0] <= x <= window[1] and window[2] <= y <= window[3]):
                outside.append(label)
    # Separate panels: on the lattice validation labels are noisy, and test labels are not.
    for ax, shown in ((tried, _window(on_validation)), (tested, window)):
        ax.set_xlim(shown[:2])
        ax.set_ylim(shown[2:])
    cost = f"{cost_name(found)} (less is better)"
    finish(tried, f"{name}, validation: what no trial of its family beats", cost, "AUC")
    title = f"{name}, test: hollow least cost; at KL's AUC filled, half: regressed cost subtracted"
    finish(tested, title, cost, "AUC", legend=False)
    beyond = f"\nsome or all outside the picture: {', '.join(dict.fromkeys(outside))}"
    state_sizes(
        figure,
        f"{result['mode']}: {found['sizes']['train']:,} training examples, at most "
        f"{found['iterations']:,} steps, {max(found['trials'].values())} trials a family, "
        f"{found['seeds']} seeds on test data; full lines: Wasserstein losses, dotted: baselines"
        + (beyond if outside else ""),
    )
    return figure


def _look(family: str) -> dict[str, str]:
    """A combination of colour and marker that no other family has."""
    place = list(FAMILIES).index(family)
    around = len(COLORS)
    return {
        "color": COLORS[place % around],
        "marker": MARKERS[(place + place // around) % len(MARKERS)],
    }


def _window(
    chosen: Mapping[tuple[str, str], Sequence[float]],
) -> tuple[float, float, float, float]:
    """Limits that show everything better than KL, because the worst would hide it: costs, AUCs."""
    most = max(auc for _, auc in chosen.values())
    costs, aucs = zip(*(p for p in chosen.values() if p[1] > most - 0.05), strict=True)
    least, right = min(costs), max(1.03 * chosen["kl", "cost"][0], 1.05 * min(costs))
    room = 0.1 * (right - least)
    return least - room, right + room, min(aucs) - 0.005, most + 0.005


def cost_name(found: Mapping[str, Any]) -> str:
    """The name of a set's cost."""
    most = len(next(iter(found["scores"].values()))[0]["curve"])
    return f"mean top-k cost, k = 1…{most}" if most > 1 else "mean distance of the first guess"


def verdict(result: Result) -> list[Verdict]:
    """Compare with KL at its AUC, and with every rival."""
    return [v for name, found in _sets(result) for v in _verdicts(name, found)]


def _verdicts(name: str, found: Mapping[str, Any]) -> list[Verdict]:
    return [
        make(name, found, rule)
        for rule in AT_KLS_AUC
        for make in (_verdict_against_kl, _verdict_against_rivals)
    ]


def _best(found: Mapping[str, Any], rule: str) -> str:
    """The Wasserstein loss with the least validation cost; test data are only used to score it."""

    def cost(family: str) -> float:
        chosen = found["chosen"][f"{family} {rule}"]
        return float(chosen["cost"]) if _has_auc(chosen, found) else float("inf")

    ours: list[str] = [family for family in found["candidates"] if FAMILIES[family].ours]
    return min(ours, key=cost)


def _has_auc(chosen: Mapping[str, Any], found: Mapping[str, Any]) -> bool:
    """Whether a choice reaches KL's AUC on validation data."""
    return bool(chosen["auc"] >= found["chosen"]["kl cost"]["auc"] - AUC_SLACK)


def _verdict_against_kl(name: str, found: Mapping[str, Any], rule: str) -> Verdict:
    best = _best(found, rule)
    own, kl = f"{best} {rule}", "kl cost"
    gap = found["differences"][own][kl]
    kl_cost = mean_of(found["scores"][kl], "cost")
    share = -gap["cost"]["mean"] / kl_cost
    hoped = TARGETS.get(name, 0.0)
    enough_auc = gap["auc"]["mean"] >= -AUC_SLACK
    outcome = Outcome.PARTLY if gap["cost"]["high"] < 0 else Outcome.FAILED
    if gap["cost"]["high"] < 0 and share >= hoped and enough_auc:
        outcome = Outcome.HELD
    return Verdict(
        f"{name}: at KL's AUC {AT_KLS_AUC[rule]} has less mean top-k cost"
        + (f", by {hoped:.0%} or more" if hoped else ""),
        outcome,
        f"{FAMILIES[best].title}: cost {-share:+.1%} ({interval(gap['cost'])} against "
        f"{kl_cost:.4f}), AUC {interval(gap['auc'])}",
        f"Chosen on validation data: {described(found['chosen'][own]['trial'])}.",
    )


def _verdict_against_rivals(name: str, found: Mapping[str, Any], rule: str) -> Verdict:
    own = f"{_best(found, rule)} {rule}"
    rivals = [f for f in found["candidates"] if not FAMILIES[f].ours]
    # Under the first rule KL is what all are compared with.
    rivals = [f for f in rivals if f != "kl"] if rule == "auc" else rivals
    there = [r for r in rivals if _has_auc(found["chosen"][f"{r} {rule}"], found)]
    gaps = {r: found["differences"][own][f"{r} {rule}"]["cost"] for r in there}
    behind = [f"{FAMILIES[r].title} (by {interval(gaps[r])})" for r in there if gaps[r]["low"] > 0]
    words = f"Ahead: {'; '.join(behind)}." if behind else "None is ahead."
    below = [FAMILIES[r].title for r in rivals if r not in there]
    if below:
        words += f" Not at KL's AUC on validation data: {', '.join(below)}."
    listed = ", ".join(f"{FAMILIES[r].title} {interval(gap)}" for r, gap in gaps.items())
    return Verdict(
        f"{name}: no baseline at KL's AUC, ranked the same way, is ahead of {AT_KLS_AUC[rule]} by "
        "more than its interval",
        Outcome.FAILED if behind else Outcome.HELD,
        f"cost minus that of each baseline: {listed}; {len(rivals)} baselines were tried",
        words,
    )


def _sets(result: Result) -> list[tuple[str, Any]]:
    return list(result["found"]["sets"].items())


EXPERIMENT = Experiment(
    name="frontier",
    title="What else one might pick",
    claim="a Wasserstein loss is on the front of cost against AUC, whatever else is tried",
    figure="beyond the paper",
    quick=Settings(
        sets=("lattice", "clipart"),
        families=("kl", "decoded", "softened", "expected", "plan", "nearest", "plan_softened"),
        budget=replace(ON_TAGS, strengths=3, penalties=(0.005,)),
        own_budget={"lattice": replace(ON_LATTICE, strengths=3, penalties=(0.0001,))},
        less=(2.5, 10.0, 40.0),
        iterations=600,
        seeds=2,
    ),
    full=Settings(),
    compute=compute,
    draw=draw,
    verdict=verdict,
)
