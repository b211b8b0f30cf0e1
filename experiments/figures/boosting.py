"""Boosted trees on ordered labels: LightGBM with the Wasserstein objective and with its own.

There are six tables of ordered labels. A fifth of each is the test part for all seeds; each seed
splits the rest into three parts for training and one for validation. All objectives have the same
grid of learning rates, leaves and rounds, chosen by the mean distance on validation data,
separately for each decision. The Wasserstein loss has its default strengths, which are not
searched.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from functools import partial
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from experiments.corpora.ordered import FILES, ordered_table
from experiments.lab.cache import Cache
from experiments.lab.experiment import Experiment, Outcome, Result, Verdict
from experiments.lab.style import COLORS, MARKERS, finish, new_figure, state_sizes
from wassloss import boosting, decisions, scores
from wassloss.ground import Ordinal

if TYPE_CHECKING:
    from matplotlib.figure import Figure

Array = NDArray[np.float64]
TITLES = {
    "cross-entropy": "cross-entropy",
    "wasserstein": "W + KL",
    "regression": "least absolute deviations, rounded",
}
DECISIONS = ("most probable", "least cost")
SCORES = ("distance", "right", "kappa", "nll", "rps")


@dataclass(frozen=True)
class Settings:
    """Sizes.

    Attributes:
        sets: names of tables.
        seeds: number of splits into training and validation data.
        rates: learning rates.
        leaves: leaves per tree.
        rounds: rounds of boosting, of which the best number is chosen.
        most: limit on the number of training rows.
    """

    sets: tuple[str, ...] = tuple(FILES)
    seeds: int = 5
    rates: tuple[float, ...] = (0.05, 0.1)
    leaves: tuple[int, ...] = (7, 31)
    rounds: tuple[int, ...] = (25, 50, 100, 200, 300)
    most: int = 5000


def compute(settings: Settings, cache: Cache | None = None) -> dict[str, Any]:
    """Scores of every objective and decision on every set."""
    cache = cache or Cache()
    return {name: cache.part(name, partial(_one_set, name, settings)) for name in settings.sets}


def _one_set(name: str, settings: Settings) -> dict[str, Any]:
    X, y = ordered_table(name)
    labels = int(y.max()) + 1
    order = np.random.default_rng(0).permutation(len(y))
    test, rest = np.split(order, [len(y) // 5])
    runs: dict[str, list[dict[str, Any]]] = {}
    for seed in range(settings.seeds):
        mixed = np.random.default_rng(seed + 1).permutation(rest)
        held, train = np.split(mixed, [len(rest) // 4])
        parts = [(X[rows], y[rows]) for rows in (train[: settings.most], held, test)]
        for objective in TITLES:
            boosters = _boosters(*parts[0], labels, objective, settings)
            for decision in DECISIONS if objective != "regression" else ("",):
                key = f"{objective}, {decision}" if decision else objective
                tuned = _tuned(parts, labels, boosters, decision, settings)
                runs.setdefault(key, []).append(tuned)
    return {"labels": labels, "examples": len(y), "test": len(test)} | _summary(runs)


Boosters = dict[tuple[float, int], Any]  # by learning rate and leaves


def _tuned(
    parts: list[tuple[Array, NDArray[np.int64]]],
    labels: int,
    boosters: Boosters,
    decision: str,
    settings: Settings,
) -> dict[str, Any]:
    """Choose the best setting on validation data, and score it on the test part."""
    _, (x_held, y_held), (x_test, y_test) = parts
    options = []
    for (rate, leaves), booster in boosters.items():
        for rounds in settings.rounds:
            guess, _ = _answer(booster, x_held, labels, decision, rounds)
            options.append((float(np.abs(guess - y_held).mean()), rounds, rate, leaves))
    off, rounds, rate, leaves = min(options)
    guess, h = _answer(boosters[rate, leaves], x_test, labels, decision, rounds)
    one_hot = np.eye(labels)[guess]
    found: dict[str, Any] = {
        "chosen": {"rate": rate, "leaves": leaves, "rounds": rounds, "validation": off},
        "off": np.abs(guess - y_test).tolist(),
        "distance": scores.mean_absolute_error(one_hot, y_test),
        "right": scores.accuracy(one_hot, y_test),
        "kappa": scores.quadratic_weighted_kappa(one_hot, y_test),
    }
    if h is not None:
        found["nll"] = scores.negative_log_likelihood(np.maximum(h, 1e-12), y_test)
        found["rps"] = scores.ranked_probability_score(h, y_test)
    return found


def _boosters(
    X: Array, y: NDArray[np.int64], labels: int, objective: str, settings: Settings
) -> Boosters:
    import lightgbm  # only needed by this experiment

    options: dict[str, dict[str, Any]] = {
        "cross-entropy": {"objective": "multiclass", "num_class": labels},
        "wasserstein": {"objective": boosting.objective(Ordinal(labels)), "num_class": labels},
        "regression": {"objective": "regression_l1"},
    }
    chosen = options[objective] | {"verbose": -1, "num_threads": 1, "seed": 0}
    return {
        (rate, leaves): lightgbm.train(
            {**chosen, "learning_rate": rate, "num_leaves": leaves},
            lightgbm.Dataset(X, y),
            settings.rounds[-1],
        )
        for rate, leaves in product(settings.rates, settings.leaves)
    }


def _answer(
    booster: Any, X: Array, labels: int, decision: str, rounds: int
) -> tuple[NDArray[np.int64], Array | None]:
    """Labels, and probabilities if it is not a regression."""
    raw: Array = booster.predict(X, num_iteration=rounds, raw_score=True)
    if not decision:
        return raw.round().clip(0, labels - 1).astype(np.int64), None
    h = softmax(raw, axis=1)
    guess: NDArray[np.int64] = (
        h.argmax(1)
        if decision == "most probable"
        else decisions.least_cost_label(h, Ordinal(labels))
    )
    return guess, h


def _summary(runs: Mapping[str, list[dict[str, Any]]]) -> dict[str, Any]:
    """Means over seeds, and differences in distance from cross-entropy with the same decision."""
    means = {
        key: {name: float(np.mean([run[name] for run in own])) for name in SCORES if name in own[0]}
        for key, own in runs.items()
    }
    gaps = {}
    for key in runs:
        own = key.split(", ")[-1] if key != "regression" else DECISIONS[1]
        reference = f"cross-entropy, {own}"
        if key != reference:
            off, theirs = (np.array([run["off"] for run in runs[k]]) for k in (key, reference))
            gaps[key] = asdict(scores.paired_difference(off - theirs))
    chosen = {key: [run["chosen"] for run in own] for key, own in runs.items()}
    return {"means": means, "gaps": gaps, "chosen": chosen}


def draw(result: Result) -> dict[str, Figure]:
    """Draw the change in distance relative to cross-entropy, by data set and decision."""
    found = result["found"]
    figure, axes = new_figure(1, 2, (8.5, 3.4))
    for axis, decision in zip(axes[0], DECISIONS, strict=True):
        keys = [f"wasserstein, {decision}"]
        if decision == DECISIONS[1]:
            keys.append("regression")
        for place, key in enumerate(keys):
            rows = np.arange(len(found)) + 0.2 * place
            base = [
                own["means"][f"cross-entropy, {decision}"]["distance"] for own in found.values()
            ]
            low, mean, high = (
                100 * np.array([own["gaps"][key][end] for own in found.values()]) / base
                for end in ("low", "mean", "high")
            )
            title = TITLES[key.partition(",")[0]]
            axis.hlines(rows, low, high, color=COLORS[place])
            axis.plot(mean, rows, MARKERS[place], color=COLORS[place], label=title)
        axis.axvline(0, color="black", linewidth=0.6)
        axis.set_yticks(range(len(found)), list(found))
        finish(axis, f"{decision} label", "mean distance against cross-entropy, %", "data set")
    seeds = result["settings"]["seeds"]
    state_sizes(figure, f"{seeds} seeds; 95 % intervals; all tuned on the same grid")
    return {"distance": figure}


def verdict(result: Result) -> list[Verdict]:
    """Whether the Wasserstein objective guesses nearer than cross-entropy, by decision."""
    return [_verdict(result["found"], decision) for decision in DECISIONS]


def _verdict(found: Mapping[str, Any], decision: str) -> Verdict:
    key, base = f"wasserstein, {decision}", f"cross-entropy, {decision}"
    gaps = {name: own["gaps"][key] for name, own in found.items()}
    better = [name for name, gap in gaps.items() if gap["high"] < 0]
    worse = [name for name, gap in gaps.items() if gap["low"] > 0]
    lines = []
    for name, own in found.items():
        ours, theirs = own["means"][key], own["means"][base]
        lines.append(
            f"{name} {theirs['distance']:.3f} → {ours['distance']:.3f} (right "
            f"{100 * theirs['right']:.1f} → {100 * ours['right']:.1f} %, NLL {theirs['nll']:.2f} → "
            f"{ours['nll']:.2f})"
        )
    relative = [
        100 * (own["means"][key]["distance"] / own["means"][base]["distance"] - 1)
        for own in found.values()
    ]
    return Verdict(
        f"boosted trees with the Wasserstein objective guess nearer, {decision} label",
        Outcome.HELD
        if len(better) == len(gaps)
        else Outcome.PARTLY
        if len(better) > len(worse)
        else Outcome.FAILED,
        f"nearer outside the interval on {len(better)} of {len(gaps)} sets, farther on "
        f"{len(worse)}; median change {np.median(relative):+.1f} %",
        f"Cross-entropy → W + KL: {'; '.join(lines)}.",
    )


EXPERIMENT = Experiment(
    name="boosting",
    title="Boosted trees: ordered labels",
    claim="where labels are ordered, boosted trees with a Wasserstein objective guess nearer",
    figure="beyond the paper",
    quick=Settings(sets=("boston", "cement", "machine"), seeds=2, rounds=(25, 50, 100)),
    full=Settings(),
    compute=compute,
    draw=draw,
    verdict=verdict,
)
