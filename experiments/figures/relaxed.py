"""Relaxed transport: does it converge to smoothed and to exact transport, and how fast?

Random histograms and metrics follow section 5 of Cuturi (2013). Values include the entropy term, as
in the paper's equations (smoothed transport, and the relaxed problem with penalties). Iterations
are those of the paper's Algorithm 1 without any changes: plain scalings of `u` in float64, until
`‖u' − u‖ ≤ tol ‖u‖`. The paper defines convergence "as in Cuturi (2013)"; this rule and its
tolerance are our interpretation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from experiments.corpora.synthetic import random_histograms, random_metric
from experiments.lab.cache import Cache
from experiments.lab.experiment import Experiment, Outcome, Result, Verdict
from experiments.lab.intervals import bands, mean_interval, slope_interval
from experiments.lab.style import draw_band, finish, new_figure, state_sizes
from wassloss.losses import solve

if TYPE_CHECKING:
    from matplotlib.figure import Figure


@dataclass(frozen=True)
class Settings:
    """Sizes; the paper states the dimension of (a) and (b), and λ of (c)."""

    size: int = 256
    lambdas: tuple[float, ...] = (5.0, 10.0, 50.0, 100.0, 200.0)
    gammas: tuple[float, ...] = (0.1, 0.3, 1.0, 3.0, 10.0, 30.0, 100.0, 300.0, 1000.0)
    metrics: int = 16
    pairs: int = 8  # per metric
    sizes: tuple[int, ...] = (64, 128, 256, 512, 1024, 2048)
    count_lambda: float = 50.0
    count_gammas: tuple[float | None, ...] = (0.1, 1.0, 10.0, None)  # None is balanced
    count_tol: float = 0.01
    count_pairs: int = 64  # per K
    most_iterations: int = 20_000
    seed: int = 0


def compute(settings: Settings, cache: Cache | None = None) -> dict[str, Any]:
    """Relative distances `(λ, γ, pair)`, and iterations `(γ, K, pair)`."""
    cache = cache or Cache()
    values = [
        cache.part(f"values, metric {m}", partial(_values, m, settings))
        for m in range(settings.metrics)
    ]
    counts = [
        cache.part(f"iterations, K {size}", partial(_counts, size, settings))
        for size in settings.sizes
    ]
    return {
        "exact": [v for metric in values for v in metric["exact"]],
        "smoothed": np.concatenate([metric["smoothed"] for metric in values], 1).tolist(),
        "relaxed": np.concatenate([metric["relaxed"] for metric in values], 2).tolist(),
        "unconverged": sum(metric["unconverged"] for metric in values),
        "iterations": np.array(counts).swapaxes(0, 1).tolist(),
    }


def _problem(size: int, place: int, pairs: int, settings: Settings) -> tuple[Any, Tensor, Tensor]:
    seeds = np.random.SeedSequence([settings.seed, size, place]).generate_state(3).tolist()
    h, y = (random_histograms(pairs, size, seed=seed) for seed in seeds[1:])
    return random_metric(size, seed=seeds[0]), h, y


def _values(place: int, settings: Settings) -> dict[str, Any]:
    metric, h, y = _problem(settings.size, place, settings.pairs, settings)
    smoothed, relaxed, unconverged = [], [], 0
    for strength in settings.lambdas:
        found = solve(h, y, metric, epsilon=1 / strength)
        smoothed.append(found.value.tolist())
        unconverged += int((~found.converged).sum())
        rows = []
        for gamma in settings.gammas:
            found = solve(h, y, metric, epsilon=1 / strength, gamma=gamma)
            rows.append(found.value.tolist())
            unconverged += int((~found.converged).sum())
        relaxed.append(rows)
    exact = solve(h, y, metric).value.tolist()
    return {"exact": exact, "smoothed": smoothed, "relaxed": relaxed, "unconverged": unconverged}


def _counts(size: int, settings: Settings) -> list[list[int]]:
    """Iterations until convergence, `(γ, pair)`."""
    metric, h, y = _problem(size, settings.metrics, settings.count_pairs, settings)
    kernel = torch.exp(-settings.count_lambda * metric.cost() - 1)
    return [
        count_iterations(
            h,
            y,
            kernel,
            1.0 if gamma is None else gamma * settings.count_lambda,
            gamma is None,
            settings.count_tol,
            settings.most_iterations,
        )
        for gamma in settings.count_gammas
    ]


def count_iterations(
    h: Tensor, y: Tensor, kernel: Tensor, strength: float, balanced: bool, tol: float, most: int
) -> list[int]:
    """Count the iterations of Algorithm 1 until `u` changes by less than `tol`, for each pair.

    Args:
        h: predictions, `(pairs, labels)`.
        y: targets, `(pairs, labels)`.
        kernel: `e^{−λM − 1}`, symmetric.
        strength: `γλ`; ignored if balanced.
        balanced: use the iteration without penalties.
        tol: relative change of `u` in the Euclidean norm.
        most: maximum number of iterations.
    """
    exponent = 1.0 if balanced else strength / (strength + 1)
    u = torch.ones_like(h)
    counts = torch.zeros(len(h), dtype=torch.int64)
    running = torch.ones(len(h), dtype=torch.bool)
    for _ in range(most):
        v = (y / (u @ kernel)) ** exponent
        new = (h / (v @ kernel.T)) ** exponent
        change = (new - u).norm(dim=1) / u.norm(dim=1)
        u = new
        counts += running
        running &= change > tol
        if not running.any():
            break
    found: list[int] = counts.tolist()
    return found


def draw(result: Result) -> dict[str, Figure]:
    """Draw the paper's three panels."""
    settings, found = result["settings"], result["found"]
    figure, axes = new_figure(1, 3, (14, 4.4))
    for ax, against in ((axes[0, 0], "smoothed"), (axes[0, 1], "exact")):
        distance = _relative(found, against)
        for place, strength in enumerate(settings["lambdas"]):
            draw_band(
                ax, settings["gammas"], bands(list(distance[place])), place, f"λ = {strength:g}"
            )
        ax.set_xscale("log")
        ax.set_yscale("log")
    finish(axes[0, 0], "(a) relaxed against smoothed", "γ", "relative distance of the values")
    finish(axes[0, 1], "(b) relaxed against exact", "γ", "relative distance of the values")
    for place, gamma in enumerate(settings["count_gammas"]):
        label = "balanced (γ = ∞)" if gamma is None else f"γ = {gamma:g}"
        draw_band(axes[0, 2], settings["sizes"], bands(found["iterations"][place]), place, label)
    axes[0, 2].set_xscale("log", base=2)
    axes[0, 2].set_xticks(settings["sizes"], [str(size) for size in settings["sizes"]])
    axes[0, 2].set_ylim(bottom=0)
    title = f"(c) iterations, λ = {settings['count_lambda']:g}"
    finish(axes[0, 2], title, "dimension K", "iterations of Algorithm 1 to converge")
    pairs = settings["metrics"] * settings["pairs"]
    state_sizes(
        figure,
        f"{result['mode']}: (a), (b) dimension {settings['size']}, {pairs} pairs of histograms; "
        f"(c) {settings['count_pairs']} pairs for each K, to a relative change of "
        f"{settings['count_tol']:g}; bands: 95 % intervals of the mean",
    )
    return {"transport": figure}


def _relative(found: dict[str, Any], against: str) -> Any:
    """Relative distance of relaxed values, `(λ, γ, pair)`."""
    reference = np.array(found[against])
    reference = reference[:, None, :] if against == "smoothed" else reference
    return np.abs(np.array(found["relaxed"]) - reference) / np.abs(reference)


def verdict(result: Result) -> list[Verdict]:
    """Evaluate the three claims of the figure."""
    return [_to_smoothed(result), _to_exact(result), _independent(result)]


def _to_smoothed(result: Result) -> Verdict:
    settings, distance = result["settings"], _relative(result["found"], "smoothed")
    last = [mean_interval(rows[-1]) for rows in distance]
    means = distance.mean(2)
    falls = bool((np.diff(means, axis=1) < 0).all())
    slopes = [
        slope_interval(np.log(settings["gammas"][-4:]), np.log(row[-4:])).mean for row in means
    ]
    held = falls and max(interval.high for interval in last) < 0.05
    return Verdict(
        "relaxed transport converges to smoothed transport as γ grows",
        Outcome.HELD if held else Outcome.PARTLY if falls else Outcome.FAILED,
        f"at γ = {settings['gammas'][-1]:g} the relative distance is "
        + ", ".join(
            f"{interval} at λ = {strength:g}"
            for strength, interval in zip(settings["lambdas"], last, strict=True)
        ),
        f"The distance falls as γ to the power {min(slopes):.2f} to {max(slopes):.2f}. Values "
        "include the entropy, so a smoothed value near 0 (λ about 20) makes any relative distance "
        f"large. {result['found']['unconverged']} solves stopped short of their tolerance.",
    )


def _to_exact(result: Result) -> Verdict:
    settings, distance = result["settings"], _relative(result["found"], "exact")
    corner = mean_interval(distance[-1, -1])
    best_gamma = distance.mean(2)[:, -1]
    falls = bool((np.diff(best_gamma) < 0).all())
    return Verdict(
        "relaxed transport approximates exact transport as λ and γ grow",
        Outcome.HELD
        if falls and corner.high < 0.2
        else Outcome.PARTLY
        if falls
        else Outcome.FAILED,
        f"relative distance {corner} at λ = {settings['lambdas'][-1]:g}, "
        f"γ = {settings['gammas'][-1]:g}",
        "At the largest γ it is "
        + ", ".join(
            f"{value:.2g} at λ = {strength:g}"
            for strength, value in zip(settings["lambdas"], best_gamma, strict=True)
        )
        + ": what is left is the entropy term −H(T)/λ, which only λ takes away.",
    )


def _independent(result: Result) -> Verdict:
    settings, iterations = result["settings"], result["found"]["iterations"]
    logs = np.log2(settings["sizes"])
    slopes = {}
    for gamma, rows in zip(settings["count_gammas"], iterations, strict=True):
        x = np.repeat(logs, [len(row) for row in rows])
        slopes[gamma] = slope_interval(x, np.log2(np.concatenate(rows)))
    # "Nearly independent" allows a change of 10 % in the iterations when K doubles.
    flat = [slope for slope in slopes.values() if abs(slope.mean) < math.log2(1.1)]
    outcome = Outcome.HELD if len(flat) == len(slopes) else Outcome.PARTLY
    means = [float(np.mean(row)) for rows in iterations for row in rows]
    return Verdict(
        f"convergence is nearly independent of the dimension K (λ = {settings['count_lambda']:g})",
        outcome if flat else Outcome.FAILED,
        "iterations grow as K to the power "
        + ", ".join(
            f"{slope} ({'balanced' if gamma is None else f'γ = {gamma:g}'})"
            for gamma, slope in slopes.items()
        ),
        f"From K = {settings['sizes'][0]} to {settings['sizes'][-1]}; mean counts are between "
        f"{min(means):.3g} and {max(means):.3g}. Counted in plain scalings of Algorithm 1; one "
        "metric for each K, so that the intervals are over histograms alone.",
    )


EXPERIMENT = Experiment(
    name="relaxed",
    title="Relaxed transport",
    claim="it converges to smoothed transport as γ grows and approximates exact transport; the "
    "iterations it takes are nearly independent of K",
    figure="figure 3",
    quick=Settings(
        lambdas=(5.0, 10.0, 50.0, 100.0),
        gammas=(0.1, 1.0, 10.0, 100.0, 1000.0),
        metrics=3,
        sizes=(64, 128, 256, 512, 1024),
    ),
    full=Settings(),
    compute=compute,
    draw=draw,
    verdict=verdict,
)
