"""The weight α of the KL term: which is best for the top-k cost, and which for the AUC?

For each α a learning rate, a weight penalty and a number of steps are chosen on validation data,
once for the cost and once for the AUC. The transport part is the same throughout.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from experiments.lab.cache import Cache
from experiments.lab.experiment import Experiment, Outcome, Result, Verdict
from experiments.lab.families import tuned
from experiments.lab.intervals import bands
from experiments.lab.labelled import LabelledSet, each_set, each_version
from experiments.lab.search import candidates, choose, finals
from experiments.lab.style import draw_band, finish, new_figure, state_sizes
from experiments.lab.trials import Trial

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN = (1, 2, 3, 4)  # k


@dataclass(frozen=True)
class Settings:
    """Sizes, and the transport part: `power` and λ."""

    sets: tuple[str, ...] = ("clipart", "flickr8k", "delicious")
    versions: tuple[str, ...] = ("original", "reduced")
    alphas: tuple[float, ...] = (0.0, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
    power: float = 2.0
    strength: float = 3.0
    rates: tuple[float, ...] = (20.0, 80.0)
    penalties: tuple[float, ...] = (0.02, 0.002)
    iterations: int = 3000
    seeds: int = 5
    most: int | None = None
    seed: int = 0


def compute(settings: Settings, cache: Cache | None = None) -> dict[str, Any]:
    """Top-k cost and AUC against α, on each version of each set."""
    compute_set = partial(_compute_set, settings=settings)
    return {"sets": each_set(settings.sets, cache or Cache(), compute_set)}


def _compute_set(name: str, settings: Settings) -> dict[str, Any]:
    compute_version = partial(_compute_version, settings=settings)
    return each_version(
        name, settings.versions, compute_version, most=settings.most, seed=settings.seed
    )


def _compute_version(data: LabelledSet, settings: Settings) -> dict[str, Any]:
    length = data.train.features.shape[1]
    base = Trial("plan", 0.0, power=settings.power, strength=settings.strength)
    trials = [
        tuned(replace(base, kl=alpha), rate / length, penalty)
        for alpha in settings.alphas
        for rate in settings.rates
        for penalty in settings.penalties
    ]
    looks = candidates(data, trials, settings.iterations, settings.seed)
    each = len(settings.rates) * len(settings.penalties)
    chosen = {}
    for place, alpha in enumerate(settings.alphas):
        found = [c for of_trial in looks[place * each : (place + 1) * each] for c in of_trial]
        chosen[f"{alpha:g} cost"] = choose(found)
        chosen[f"{alpha:g} auc"] = max(found, key=lambda c: c.auc)
    scored = finals(data, chosen, [settings.seed + 1 + s for s in range(settings.seeds)])
    return {
        "iterations": settings.iterations,
        "seeds": settings.seeds,
        "chosen": {name: candidate.as_json() for name, candidate in chosen.items()},
        "scores": {name: [run.summary() for run in runs] for name, runs in scored.items()},
    }


def draw(result: Result) -> dict[str, Figure]:
    """Draw cost for k = 1 to 4 and AUC against α, one row per set and one column per version."""
    sets, settings = result["found"]["sets"], result["settings"]
    versions, alphas = settings["versions"], settings["alphas"]
    rows, columns = len(sets), 2 * len(versions)
    figure, axes = new_figure(rows, columns, (3.6 * columns, 3.4 * rows))
    for row, (name, found) in enumerate(sets.items()):
        for column, version in enumerate(versions):
            cost_ax, auc_ax = axes[row, 2 * column], axes[row, 2 * column + 1]
            for place, k in enumerate(SHOWN):
                curves = [_runs(found[version], alpha, "cost") for alpha in alphas]
                values = [[run["curve"][k - 1] for run in runs] for runs in curves]
                draw_band(cost_ax, _places(alphas), bands(values), place, f"k = {k}")
            aucs = [[r["auc"] for r in _runs(found[version], a, "auc")] for a in alphas]
            draw_band(auc_ax, _places(alphas), bands(aucs), 4, "AUC")
            for ax, shown in ((cost_ax, "top-k cost"), (auc_ax, "AUC")):
                finish(ax, f"{name}, {version} tags", "α, weight of KL", shown, legend=False)
                ax.set_xticks(_places(alphas), [f"{alpha:g}" for alpha in alphas])
    # One legend above all panels, because no corner is free in all of them.
    lines, names = axes[0, 0].get_legend_handles_labels()
    figure.legend(lines, names, loc="outside upper center", ncols=len(SHOWN), frameon=False)
    state_sizes(
        figure,
        f"{result['mode']}: W with power {settings['power']:g}, λ = {settings['strength']:g}; "
        f"learning rate, weight penalty and steps (at most {settings['iterations']:,}) picked for "
        f"each α on validation data; bands: 95 % intervals over {settings['seeds']} seeds",
    )
    return {"alpha": figure}


def _places(alphas: list[float]) -> list[int]:
    return list(range(len(alphas)))  # evenly spaced, because one of them is 0


def _runs(found: Mapping[str, Any], alpha: float, rule: str) -> list[Any]:
    return list(found["scores"][f"{alpha:g} {rule}"])


def verdict(result: Result) -> list[Verdict]:
    """Where cost and AUC are best, for each version of each set."""
    alphas = result["settings"]["alphas"]
    return [
        _verdict(f"{name}, {version} tags", found[version], alphas)
        for name, found in result["found"]["sets"].items()
        for version in found
    ]


def _verdict(where: str, found: Mapping[str, Any], alphas: list[float]) -> Verdict:
    costs: NDArray[np.float64] = np.array(
        [[run["cost"] for run in _runs(found, a, "cost")] for a in alphas]
    )
    aucs: NDArray[np.float64] = np.array(
        [[run["auc"] for run in _runs(found, a, "auc")] for a in alphas]
    )
    best_cost, best_auc = int(costs.mean(1).argmin()), int(aucs.mean(1).argmax())
    # Also by seed: a difference counts only if it holds for all seeds.
    smaller = costs.argmin(0) < aucs.argmax(0)
    outcome = Outcome.HELD if best_cost < best_auc and bool(smaller.all()) else Outcome.PARTLY
    if best_cost >= best_auc:
        outcome = Outcome.FAILED
    return Verdict(
        f"{where}: the best α for cost is smaller than the best α for AUC",
        outcome,
        f"best for cost: {alphas[best_cost]:g} ({costs.mean(1)[best_cost]:.4f}), for AUC: "
        f"{alphas[best_auc]:g} ({aucs.mean(1)[best_auc]:.4f}); smaller for {int(smaller.sum())} of "
        f"{len(smaller)} seeds",
        f"At the best α for AUC the cost is {costs.mean(1)[best_auc]:.4f}, at the best α for cost "
        f"the AUC is {aucs.mean(1)[best_cost]:.4f}.",
    )


EXPERIMENT = Experiment(
    name="tradeoff",
    title="The weight of the KL term",
    claim="the best α for the top-k cost is smaller than the best α for the AUC",
    figure="figure 6",
    quick=Settings(
        sets=("clipart",),
        alphas=(0.0, 0.03, 0.1, 0.3, 1.0),
        rates=(40.0,),
        iterations=800,
        seeds=2,
    ),
    full=Settings(),
    compute=compute,
    draw=draw,
    verdict=verdict,
)
