"""Theorem 5.1 and Proposition 5.2 on the lattice: do they hold, and how loose are they?

The population is a finite pool of noisy examples, from which samples are drawn with replacement, so
samples are independent and risks are sums over the pool, not estimates. Models are linear with a
bias and weights of norm at most B for each label. The exact loss is not convex, so minimisers are
those that projected gradient descent finds from the nearest-vertex classifier; the best risk is the
least of all found, on the pool or on any sample.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from experiments.corpora.synthetic import lattice
from experiments.lab.cache import Cache
from experiments.lab.experiment import Experiment, Outcome, Result, Verdict
from experiments.lab.intervals import bands, mean_interval, slope_interval
from experiments.lab.labelled import best_device
from experiments.lab.many.one_label import loss_and_gradient
from experiments.lab.style import COLORS, draw_band, finish, new_figure, state_sizes
from experiments.theory import (
    excess_risk_bound,
    expected_linear_complexity,
    linear_complexity_estimate,
    multiclass_bound,
)
from wassloss.ground import Grid

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Settings:
    """Sizes, all chosen by us: the paper has no such experiment."""

    side: int = 3
    noise: float = 0.3
    spread: float = 0.4
    pool: int = 5000  # examples per class
    sizes: tuple[int, ...] = (30, 100, 300, 1000, 3000, 10_000, 30_000)
    trials: int = 50
    norm: float = 10.0
    delta: float = 0.05
    steps: int = 1000
    rate: float = 2.0
    momentum: float = 0.9
    draws: int = 200  # random signs for the Monte-Carlo complexity
    seed: int = 0


def compute(settings: Settings, cache: Cache | None = None) -> dict[str, Any]:
    """Risks of the minimisers of all samples, the best risk, and the bounds."""
    cache = cache or Cache()
    x, ids, cost = (each.to(best_device()) for each in _population(settings))
    best = cache.part("best risk", lambda: _risks(_minimise(x[None], ids[None], cost, settings),
                                                  x, ids, cost))  # fmt: skip
    rows = [
        cache.part(f"samples of {n}", partial(_of_size, n, x, ids, cost, settings))
        for n in settings.sizes
    ]
    best_risk = min([*best["risk"], *(risk for row in rows for risk in row["risk"])])
    labels, largest = settings.side**2, float(cost.max())
    moment = float(x.square().sum(1).mean())
    for row, n in zip(rows, settings.sizes, strict=True):
        row["complexity"] = expected_linear_complexity(moment, settings.norm, n)
        given = (row["complexity"], n, labels, largest)
        row["excess_bound"] = excess_risk_bound(*given, delta=settings.delta)
        row["distance_bound"] = multiclass_bound(best_risk, *given, delta=settings.delta)
    return {"best_risk": best_risk, "largest_cost": largest, "labels": labels, "rows": rows}


def _population(settings: Settings) -> tuple[Tensor, Tensor, Tensor]:
    """Features with a bias, noisy labels, and costs between labels; float64, centred."""
    data = lattice(
        settings.side,
        settings.noise,
        train=settings.pool,
        test=1,
        spread=settings.spread,
        seed=settings.seed,
    ).part("train")
    if not isinstance(data.target, Tensor):
        raise TypeError("the lattice must have class ids")
    centred = data.features.double() - (settings.side - 1) / 2
    x = torch.cat([centred, torch.ones(len(centred), 1, dtype=torch.float64)], 1)
    return x, data.target, Grid((settings.side, settings.side)).cost().double()


def _of_size(n: int, x: Tensor, ids: Tensor, cost: Tensor, settings: Settings) -> dict[str, Any]:
    rng = np.random.default_rng([settings.seed, n])
    rows = torch.from_numpy(rng.integers(0, len(x), (settings.trials, n))).to(x.device)
    theta = _minimise(x[rows], ids[rows], cost, settings)
    estimate = linear_complexity_estimate(
        x[rows[0]], settings.norm, draws=settings.draws, seed=settings.seed
    )
    return {"n": n, **_risks(theta, x, ids, cost), "monte_carlo_complexity": estimate.value}


def _minimise(x: Tensor, ids: Tensor, cost: Tensor, settings: Settings) -> Tensor:
    """Projected gradient descent on the empirical risk, `(trials, inputs, labels)`.

    Return the iterate with the least empirical risk.
    """
    trials, zero = len(x), x.new_zeros(1, 1, 1)
    theta = _nearest_vertex(settings).to(x).repeat(trials, 1, 1)
    velocity, kept = torch.zeros_like(theta), theta.clone()
    least = x.new_full((trials,), torch.inf)
    own_cost = cost[ids]  # (trials, n, labels)
    for step in range(settings.steps + 1):
        loss, gradient = loss_and_gradient(theta, x, ids, own_cost, zero, zero)
        better = loss < least
        least = torch.where(better, loss, least)
        kept[better] = theta[better]
        velocity = settings.momentum * velocity + gradient
        rate = settings.rate * (1 - step / (settings.steps + 1))
        theta = project(theta - rate * velocity, settings.norm)
    return kept


def project(theta: Tensor, norm: float) -> Tensor:
    """Project the weights onto columns of at most this norm."""
    lengths = theta.norm(dim=1, keepdim=True)
    projected: Tensor = theta * (norm / lengths.clamp(min=norm))
    return projected


def _nearest_vertex(settings: Settings) -> Tensor:
    """Logits `s (⟨v, x⟩ − ‖v‖²/2)` for each vertex v, as large as the norm allows."""
    places = torch.arange(settings.side, dtype=torch.float64) - (settings.side - 1) / 2
    vertices = torch.cartesian_prod(places, places)
    theta = torch.cat([vertices, -vertices.square().sum(1, keepdim=True) / 2], 1).T
    scaled: Tensor = theta * (settings.norm / theta.norm(dim=0).max())
    return scaled


def _risks(theta: Tensor, x: Tensor, ids: Tensor, cost: Tensor) -> dict[str, list[float]]:
    """Mean loss, and distance from the most probable class, over the whole population."""
    risks, distances = [], []
    for each in theta:
        h = (x @ each).softmax(1)
        risks.append(float((h * cost[ids]).sum(1).mean()))
        distances.append(float(cost[ids, h.argmax(1)].mean()))
    return {"risk": risks, "distance": distances}


def draw(result: Result) -> dict[str, Figure]:
    """Draw excess risk and distance against N, next to their bounds."""
    settings, found = result["settings"], result["found"]
    figure, axes = new_figure(1, 2, (11, 4.4))
    sizes = settings["sizes"]
    panels = (
        (axes[0, 0], _excess(found), "excess_bound", "Theorem 5.1", "excess risk"),
        (
            axes[0, 1],
            [row["distance"] for row in found["rows"]],
            "distance_bound",
            "Proposition 5.2",
            "mean distance, predicted to given class",
        ),
    )
    for ax, values, key, name, y in panels:
        band = np.maximum(bands(values), 1e-6)  # a log scale has no zero
        draw_band(ax, sizes, band, 0, "found, mean of the trials")
        ax.plot(sizes, [max(row) for row in values], color=COLORS[0], linestyle=":",
                label="found, worst trial")  # fmt: skip
        bound = [row[key] for row in found["rows"]]
        ax.plot(sizes, bound, color=COLORS[1], marker="s", markersize=4, label="bound")
        ax.axhline(found["largest_cost"], color="#555555", linestyle="--", linewidth=1,
                   label="largest possible loss")  # fmt: skip
        ax.set_xscale("log")
        ax.set_yscale("log")
        finish(ax, name, "training examples N", y, legend=ax is axes[0, 0])
    state_sizes(
        figure,
        f"{result['mode']}: {settings['side']} × {settings['side']} lattice, noise "
        f"{settings['noise']:g}, norm B = {settings['norm']:g}, {settings['trials']} trials for "
        f"each N, δ = {settings['delta']:g}; band: 95 % interval of the mean; log scales",
    )
    return {"bound": figure}


def _excess(found: dict[str, Any]) -> list[list[float]]:
    return [[risk - found["best_risk"] for risk in row["risk"]] for row in found["rows"]]


def verdict(result: Result) -> list[Verdict]:
    """Count the trials in which the bounds held, and by what factor they are too large."""
    found, sizes = result["found"], result["settings"]["sizes"]
    excess = _excess(found)
    distance = [row["distance"] for row in found["rows"]]
    slope = slope_interval(
        np.log(sizes), np.log([max(float(np.mean(row)), 1e-12) for row in excess])
    )
    useful = _first_useful(result)
    return [
        _held(
            "Theorem 5.1 bounds the excess risk", excess, "excess_bound", found,
            f"Excess risk falls as N to the power {slope}, the bound as −1/2. The bound is below "
            f"the largest possible loss, {found['largest_cost']:.2f}, only from about "
            f"N = {useful:.1g}: it guides by its rate, not by its size.",
        ),
        _held(
            "Proposition 5.2 bounds the distance of the predicted class", distance,
            "distance_bound", found,
            "K times the bound of Theorem 5.1, so looser still.",
        ),
    ]  # fmt: skip


def _held(
    claim: str, values: list[list[float]], key: str, found: dict[str, Any], words: str
) -> Verdict:
    bounds = [row[key] for row in found["rows"]]
    held = sum(v <= b for row, b in zip(values, bounds, strict=True) for v in row)
    trials = sum(len(row) for row in values)
    ratios = [
        mean_interval([b / max(v, 1e-12) for v in row]) if min(row) > 0 else None
        for row, b in zip(values, bounds, strict=True)
    ]
    typical = [b / float(np.mean(row)) for row, b in zip(values, bounds, strict=True)]
    outcome = Outcome.HELD if held == trials else Outcome.PARTLY if held else Outcome.FAILED
    first = f" {ratios[0]} times" if ratios[0] is not None else ""
    return Verdict(
        claim,
        outcome,
        f"held in {held} of {trials} trials; {_rough(min(typical))} to {_rough(max(typical))} "
        "times the mean found",
        words + (f" At the smallest N it is{first} what was found." if first else ""),
    )


def _rough(x: float) -> str:
    """Three significant digits: an excess risk is a small difference of large numbers."""
    return f"{float(f'{x:.3g}'):.0f}"


def _first_useful(result: Result) -> float:
    """The N from which the bound is informative: where it equals the largest loss."""
    found, row = result["found"], result["found"]["rows"][-1]
    return float(row["n"] * (row["excess_bound"] / found["largest_cost"]) ** 2)


EXPERIMENT = Experiment(
    name="bound",
    title="The statistical bounds, on the lattice",
    claim="the excess risk of the empirical risk minimiser is within the bound",
    figure="section 5, no figure",
    quick=Settings(pool=2000, sizes=(30, 100, 300, 1000, 3000), trials=20, steps=300),
    full=Settings(),
    compute=compute,
    draw=draw,
    verdict=verdict,
)
