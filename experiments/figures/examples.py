"""Test items drawn at random: their own tags, and the proposals of two models.

Both models are the best of a small search on validation data; no item is selected by hand.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from experiments.lab.cache import Cache
from experiments.lab.experiment import Experiment, Outcome, Result, Verdict
from experiments.lab.families import (
    FINE_ON_DELICIOUS,
    FINE_ON_TAGS,
    ON_TAGS,
    Budget,
    count_trials,
)
from experiments.lab.intervals import mean_interval
from experiments.lab.labelled import LabelledSet, best_device, each_set, load_labelled
from experiments.lab.search import AUC_SLACK, Candidate, choose, search
from experiments.lab.style import COLORS, finish, new_figure, state_sizes
from experiments.lab.trials import train_model
from experiments.lab.verdict_text import described

if TYPE_CHECKING:
    from matplotlib.figure import Figure

OURS = "nearest_softened"
NAMES = {"kl": "KL proposes", OURS: "W nearest + α KL on softened proposes"}


@dataclass(frozen=True)
class Settings:
    """Sizes: `items` of each set are shown with `proposed` tags from each model.

    Attributes:
        own_budget: budgets of sets that need other learning rates.
    """

    sets: tuple[str, ...] = ("clipart", "flickr8k", "delicious")
    budget: Budget = FINE_ON_TAGS
    own_budget: Mapping[str, Budget] = field(
        default_factory=lambda: {"delicious": FINE_ON_DELICIOUS}
    )
    iterations: int = 4000
    items: int = 24
    proposed: int = 6
    most: int | None = None
    seed: int = 0


def compute(settings: Settings, cache: Cache | None = None) -> dict[str, Any]:
    """True and proposed tags with their distance to the nearest true one."""
    compute_set = partial(_compute_set, settings=settings)
    return {"sets": each_set(settings.sets, cache or Cache(), compute_set)}


def _compute_set(name: str, settings: Settings) -> dict[str, Any]:
    data = load_labelled(name, best_device(), settings.most)
    budget = settings.own_budget.get(name, settings.budget)
    found = search(data, list(NAMES), budget, settings.iterations, settings.seed)
    kl = choose(found["kl"])
    chosen = {"kl": kl, OURS: choose(found[OURS], kl.auc - AUC_SLACK)}
    rng = np.random.default_rng(settings.seed)
    rows = np.sort(rng.choice(len(data.test), min(settings.items, len(data.test)), replace=False))
    proposals = {key: _propose(data, each, rows, settings) for key, each in chosen.items()}
    return {
        "trials": count_trials(asdict(budget)),
        "chosen": {key: each.as_json() for key, each in chosen.items()},
        "items": [
            {"row": int(row), "true": _true(data, row)}
            | {key: proposals[key][place] for key in NAMES}
            for place, row in enumerate(rows)
        ],
    }


def _true(data: LabelledSet, row: int) -> list[str]:
    target = data.test.target
    indices, weights = target.indices[row].tolist(), target.weights[row].tolist()
    heaviest = sorted(zip(weights, indices, strict=True), reverse=True)
    return [data.label_names[index] for weight, index in heaviest if weight > 0]


@torch.no_grad()
def _propose(
    data: LabelledSet, chosen: Candidate, rows: Any, settings: Settings
) -> list[list[dict[str, Any]]]:
    with torch.enable_grad():
        model = train_model(data, chosen.trial, chosen.iteration, settings.seed + 1)
    top = model(data.test.features[rows]).topk(settings.proposed).indices
    found = []
    for guesses, row in zip(top, rows, strict=True):
        own = data.test.target.indices[row][data.test.target.weights[row] > 0]
        nearest = data.metric.cost_between(guesses[:, None], own[None]).amin(1)
        found.append(
            [
                {"tag": data.label_names[guess], "distance": round(distance, 3)}
                for guess, distance in zip(guesses.tolist(), nearest.tolist(), strict=True)
            ]
        )
    return found


def draw(result: Result) -> dict[str, Figure]:
    """Draw the distances of proposals from the nearest true tag, over the items shown."""
    sets = result["found"]["sets"]
    figure, axes = new_figure(1, len(sets), (4.2 * len(sets), 3.6))
    for ax, (name, found) in zip(axes[0], sets.items(), strict=True):
        for place, key in enumerate(NAMES):
            far = sorted(p["distance"] for item in found["items"] for p in item[key])
            share = np.arange(1, len(far) + 1) / len(far)
            ax.step(far, share, where="post", color=COLORS[place], label=NAMES[key])
        finish(ax, f"{name}: {len(found['items'])} items", "distance to the nearest true tag",
               "share of proposals within it")  # fmt: skip
    state_sizes(figure, f"{result['mode']}: items drawn at random from the test part")
    return {"distance": figure}


def html(result: Result) -> str:
    """Tables of the items: true tags are bold, and others are paler the farther they are."""
    return "".join(_table(name, found) for name, found in result["found"]["sets"].items())


def _table(name: str, found: Mapping[str, Any]) -> str:
    head = "".join(f"<th>{escape(title)}</th>" for title in ("true tags", *NAMES.values()))
    rows = "".join(
        f"<tr><td>{escape(', '.join(item['true']))}</td>"
        + "".join(f"<td>{_tags(item[key])}</td>" for key in NAMES)
        + "</tr>"
        for item in found["items"]
    )
    return (
        f"<h3>{escape(name)}</h3><table><thead><tr>{head}</tr></thead><tbody>{rows}</tbody></table>"
    )


def _tags(proposals: Sequence[Mapping[str, Any]]) -> str:
    def shown(tag: str, distance: float) -> str:
        if distance == 0:
            return f"<strong>{escape(tag)}</strong>"
        return f'<span style="opacity:{max(0.35, 1 - distance / 2):.2f}">{escape(tag)}</span>'

    return ", ".join(shown(p["tag"], p["distance"]) for p in proposals)


def verdict(result: Result) -> list[Verdict]:
    """Whether proposals are nearer to the true tags, on the items shown."""
    return [_verdict(name, found) for name, found in result["found"]["sets"].items()]


def _verdict(name: str, found: Mapping[str, Any]) -> Verdict:
    means = {
        key: np.array([np.mean([p["distance"] for p in item[key]]) for item in found["items"]])
        for key in NAMES
    }
    gap = mean_interval(means[OURS] - means["kl"])
    outcome = Outcome.HELD if gap.high < 0 else Outcome.FAILED if gap.low > 0 else Outcome.PARTLY
    hits = {key: _hits(found["items"], key) for key in NAMES}
    return Verdict(
        f"{name}: a Wasserstein loss proposes tags nearer to the true ones",
        outcome,
        f"mean distance {gap.mean:+.3f} [{gap.low:+.3f}, {gap.high:+.3f}] against "
        f"{means['kl'].mean():.3f} of KL; true among the proposed: {hits[OURS]:.0%} "
        f"against {hits['kl']:.0%}",
        f"{len(found['items'])} items, one seed, the best of {found['trials']} settings for "
        "either: an illustration. KL: "
        f"{described(found['chosen']['kl']['trial'])}; W: "
        f"{described(found['chosen'][OURS]['trial'])}.",
    )


def _hits(items: Sequence[Mapping[str, Any]], key: str) -> float:
    return float(np.mean([p["distance"] == 0 for item in items for p in item[key]]))


EXPERIMENT = Experiment(
    name="examples",
    title="Proposed tags, side by side",
    claim="proposals are readable at a glance, and nearer to the truth",
    figure="figures 7 and 10",
    quick=Settings(
        sets=("clipart",),
        budget=replace(ON_TAGS, strengths=2, penalties=(0.005,)),
        iterations=600,
        items=12,
    ),
    full=Settings(),
    compute=compute,
    draw=draw,
    verdict=verdict,
    html=html,
)
