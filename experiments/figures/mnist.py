"""Digits as numbers: how the power of the ground metric spreads predictions.

The cost is `(|κ − κ'| / 10)^p`, the paper's metric with distances scaled to [0, 1), and 0-1 at
`p = 0`. For each p, one linear model is trained with the smoothed loss at each of several λ, and
one with the exact loss (λ = ∞). The paper does not state its λ.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor, nn

from experiments.corpora.mnist import mnist
from experiments.lab.cache import Cache
from experiments.lab.experiment import Experiment, Outcome, Result, Verdict
from experiments.lab.intervals import bands, mean_interval
from experiments.lab.labelled import best_device
from experiments.lab.many import OneLabelLoss, train_linear
from experiments.lab.style import MARKERS, draw_band, finish, new_figure, state_sizes
from wassloss.models import Linear

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

DIGITS = 10
TICKS = (0.0, 0.5, 1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
AT_POWER = 1.0  # at which the spread is evaluated
SHOWN = {0: (0, 1, 2, 3), 4: (2, 3, 4, 5, 6)}  # the paper's shorter figure


@dataclass(frozen=True)
class Settings:
    """Sizes; the learning rate and λ are chosen by us."""

    powers: tuple[float, ...] = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 8.0, 16.0, 32.0)
    strengths: tuple[float | None, ...] = (10.0, 50.0, None)  # λ; None is the exact loss
    iterations: int = 100_000
    learning_rate: float = 0.1
    weight_penalty: float = 0.0005
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    examples: int = 60_000


def digit_cost(power: float) -> Tensor:
    """`(|κ − κ'| / 10)^p`, with 0 on the diagonal for every p.

    >>> digit_cost(0.0)[0, :3]
    tensor([0., 1., 1.])
    """
    places = torch.arange(DIGITS, dtype=torch.float32)
    distance = (places[:, None] - places).abs() / DIGITS
    return torch.where(distance > 0, distance**power, 0.0)


def compute(settings: Settings, cache: Cache | None = None) -> dict[str, Any]:
    """For each λ, mean predicted probabilities `(seed, p, true digit, digit)` and accuracies."""
    cache, data = cache or Cache(), mnist()
    return {
        "runs": [
            cache.part(_name(strength), partial(_posteriors, data, strength, settings))
            for strength in settings.strengths
        ]
    }


def _name(strength: float | None) -> str:
    return "exact loss" if strength is None else f"smoothed loss, λ = {strength:g}"


def _posteriors(data: Any, strength: float | None, settings: Settings) -> dict[str, Any]:
    device = best_device()
    train, test = data.part("train"), data.part("test")
    epsilon = 0.0 if strength is None else 1 / strength
    losses = [OneLabelLoss(digit_cost(p), epsilon) for p in settings.powers]
    models, each_loss, seeds = [], [], []
    for seed in settings.seeds:
        for loss in losses:
            with torch.random.fork_rng(devices=[]):
                torch.manual_seed(seed)
                models.append(Linear(train.features.shape[1], DIGITS).to(device))
            each_loss.append(loss)
            seeds.append(seed)
    count = len(models)
    train_linear(
        models,
        each_loss,
        [train.features[: settings.examples]] * count,
        [train.target[: settings.examples]] * count,
        iterations=settings.iterations,
        rates=[settings.learning_rate] * count,
        penalties=[settings.weight_penalty] * count,
        seeds=seeds,
    )
    x, digits = test.features.to(device), test.target.to(device)
    scored = [_score(model, x, digits) for model in models]
    posterior, accuracy = (
        np.array(found).reshape(len(settings.seeds), len(settings.powers), *np.shape(found)[1:])
        for found in zip(*scored, strict=True)
    )
    return {
        "strength": strength,
        "posterior": posterior.tolist(),
        "accuracy": accuracy.tolist(),
    }


@torch.no_grad()
def _score(model: nn.Module, x: Tensor, digits: Tensor) -> tuple[list[list[float]], float]:
    """Mean predicted probabilities `(true digit, digit)`, and accuracy."""
    h = model(x).softmax(1)
    rows = [h[digits == digit].double().mean(0).tolist() for digit in range(DIGITS)]
    return rows, float((h.argmax(1) == digits).double().mean())


def draw(result: Result) -> dict[str, Figure]:
    """Draw the paper's figure with a few digits, and with all of them for every λ."""
    everything = {digit: tuple(range(DIGITS)) for digit in SHOWN}
    runs = result["found"]["runs"]
    return {"near": _draw(result, SHOWN, runs[:1]), "all": _draw(result, everything, runs)}


def _draw(result: Result, shown: dict[int, tuple[int, ...]], runs: list[dict[str, Any]]) -> Figure:
    settings = result["settings"]
    few = len(shown[0]) < DIGITS
    figure, axes = new_figure(len(runs), 2, (11, 0.6 + 3.6 * len(runs)))
    for row, run in zip(axes, runs, strict=True):
        posterior = np.array(run["posterior"])  # (seed, p, true, digit)
        for ax, (true, digits) in zip(row, shown.items(), strict=True):
            for digit in digits:
                band = bands(list(posterior[:, :, true, digit].T)).clip(0, 1)
                if few:
                    draw_band(ax, settings["powers"], band, digit, f"digit {digit}")
                else:
                    _draw_shaded(ax, settings["powers"], band[0], digit, digit == true)
            ax.axhline(1 / DIGITS, color="#888888", linewidth=0.8, linestyle=":")
            ax.set_xscale("symlog", linthresh=0.5, linscale=0.5)
            ax.set_xticks(TICKS, [f"{p:g}" for p in TICKS])
            ax.minorticks_off()
            ax.set_xlim(-0.02, max(settings["powers"]) * 1.1)
            ax.set_ylim(-0.02, 1.02)
            title = f"images of {true}, {_name(run['strength'])}"
            finish(ax, title, "p", "mean predicted probability", legend=few)
        if not few:
            row[-1].legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    about = "bands: 95 % intervals over seeds" if few else "thick: the true digit"
    state_sizes(
        figure,
        f"{result['mode']}: linear model, {settings['iterations']:,} steps, "
        f"{len(settings['seeds'])} seeds; cost (|κ − κ'| / 10)^p; {about}; dotted: uniform",
    )
    return figure


def _draw_shaded(ax: Axes, x: list[float], y: Any, digit: int, true: bool) -> None:
    """Draw one of ten lines, with shades that make near digits look similar."""
    from matplotlib import colormaps

    ax.plot(
        x, y, label=f"digit {digit}", color=colormaps["viridis"](digit / (DIGITS - 0.5)),
        marker=MARKERS[digit % len(MARKERS)], markersize=5 if true else 4,
        linewidth=3 if true else 1.2, zorder=3 if true else 2,
    )  # fmt: skip


def verdict(result: Result) -> list[Verdict]:
    """Evaluate the mass on the true digit, on near ones, and on all, for each λ."""
    runs = result["found"]["runs"]
    first = [_to_one(result, run) for run in runs]
    return [*first, *(_near(result, run) for run in runs), *(_uniform(result, run) for run in runs)]


def _to_one(result: Result, run: dict[str, Any]) -> Verdict:
    posterior = np.array(run["posterior"])
    true = {digit: mean_interval(posterior[:, 0, digit, digit]) for digit in SHOWN}
    accuracy = float(np.array(run["accuracy"])[:, 0].mean())
    everywhere = float(posterior[:, 0, range(DIGITS), range(DIGITS)].mean())
    # The mean probability of a model that is always certain equals its accuracy.
    sure = everywhere / accuracy
    outcome = Outcome.HELD if sure > 0.9 else Outcome.PARTLY if sure > 0.5 else Outcome.FAILED
    return Verdict(
        f"as p → 0 the probability of the true digit goes to 1 ({_name(run['strength'])})",
        outcome,
        "at p = 0: " + ", ".join(f"{i} for images of {d}" for d, i in true.items()),
        f"{everywhere:.3f} over all digits. A linear model cannot reach 1: even if always sure of "
        f"its first guess it would have its accuracy, {accuracy:.3f}.",
    )


def _near(result: Result, run: dict[str, Any]) -> Verdict:
    """Compare mass on wrong digits, and their distance from the true one, with p = 0."""
    powers, posterior = result["settings"]["powers"], np.array(run["posterior"])
    places = np.arange(DIGITS)
    far = np.abs(places[:, None] - places)  # (true, digit)
    wrong = posterior * (far > 0)
    mass = wrong.sum(3).mean(2)  # (seed, p)
    distance = (wrong * far).sum((2, 3)) / wrong.sum((2, 3))
    at = powers.index(AT_POWER)
    grown, change = (
        mean_interval(mass[:, at] - mass[:, 0]),
        mean_interval(distance[:, at] - distance[:, 0]),
    )
    rivals = np.where(far[None] == 0, 0.0, posterior[:, at]).max(2).mean()  # the largest wrong one
    even = rivals < 0.5
    held = grown.low > 0 and change.high < 0 and even
    outcome = Outcome.HELD if held else Outcome.PARTLY if change.mean < 0 else Outcome.FAILED
    accuracy = np.array(run["accuracy"])[:, at].mean()
    return Verdict(
        f"for larger p mass spreads to numerically near digits ({_name(run['strength'])})",
        outcome,
        f"from p = 0 to p = {AT_POWER:g} the mass on wrong digits changes by {grown}, its mean "
        f"distance from the true digit by {change}",
        f"All digits; that distance was {distance[:, 0].mean():.2f} at p = 0. At p = {AT_POWER:g} "
        f"the largest wrong digit has {rivals:.2f} and accuracy is {accuracy:.2f}"
        + (
            "."
            if even
            else ": the mass does not spread but moves to one digit in the middle; a likely "
            "reason, not tested, is that without entropy the best bet is a single digit."
        ),
    )


def _uniform(result: Result, run: dict[str, Any]) -> Verdict:
    powers, posterior = result["settings"]["powers"], np.array(run["posterior"])
    away = 0.5 * np.abs(posterior - 1 / DIGITS).sum(3).mean(2)  # (seed, p)
    first, last = mean_interval(away[:, 0]), mean_interval(away[:, -1])
    falls, near = last.high < first.low, last.mean < 0.05
    nine = float(posterior[:, -1, 0, 9].mean())
    return Verdict(
        f"toward a uniform distribution as p → ∞ ({_name(run['strength'])})",
        Outcome.HELD if falls and near else Outcome.PARTLY if falls else Outcome.FAILED,
        f"total variation from uniform {last} at p = {powers[-1]:g}, {first} at p = 0",
        "All digits. Costs vanish as p grows, those of the farthest digits last: images of 0 have "
        f"{nine:.3f} on digit 9 at p = {powers[-1]:g}, where 0.1 would be uniform.",
    )


EXPERIMENT = Experiment(
    name="mnist",
    title="The ground metric's power, on MNIST",
    claim="as p → 0 the true digit's probability goes to 1; for larger p mass spreads to "
    "numerically near digits, toward uniform",
    figure="figures 4 and 9",
    quick=Settings(iterations=800, seeds=(0, 1, 2)),
    full=Settings(),
    compute=compute,
    draw=draw,
    verdict=verdict,
)
