"""Digits that are near as numbers: how the power of the ground metric spreads predictions.

The cost is `(|κ − κ'| / 10)^p`, the paper's metric with distances scaled into [0, 1), and 0-1 at
`p = 0`. One linear model for each p is trained with the exact loss, and one with the smoothed loss.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from wassloss.data import mnist
from wassloss.losses import WassersteinLoss
from wassloss.models import LinearSoftmax
from wassloss.reproduce.experiment import Experiment, Outcome, Result, Verdict
from wassloss.reproduce.intervals import Interval, bands, mean_interval
from wassloss.reproduce.parts import Parts
from wassloss.reproduce.style import COLORS, MARKERS, draw_band, finish, new_figure, state_sizes
from wassloss.training import SGD, TrainingPlan, train_many

if TYPE_CHECKING:
    from matplotlib.figure import Figure

DIGITS = 10
KINDS = ("exact", "smoothed")
SHOWN = {0: (0, 1, 2, 3), 4: (2, 3, 4, 5, 6)}  # the paper's shorter figure


@dataclass(frozen=True)
class Settings:
    """Sizes; the learning rate and λ of the smoothed loss are ours for this experiment."""

    powers: tuple[float, ...] = (0.0, 0.25, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 16.0, 32.0)
    strength: float = 50.0  # λ of the smoothed loss
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


def compute(settings: Settings, parts: Parts | None = None) -> dict[str, Any]:
    """Mean predicted probabilities `(seed, p, true digit, digit)` of each kind of loss."""
    parts = parts or Parts()
    data = mnist()
    found: dict[str, Any] = {kind: [] for kind in KINDS}
    accuracy: dict[str, Any] = {kind: [] for kind in KINDS}
    for seed in settings.seeds:
        for kind in KINDS:
            part = parts.part(
                f"{kind}, seed {seed}",
                lambda kind=kind, seed=seed: _posteriors(data, kind, seed, settings),
            )
            found[kind].append(part["posterior"])
            accuracy[kind].append(part["accuracy"])
    return {"posterior": found, "accuracy": accuracy}


def _posteriors(data: Any, kind: str, seed: int, settings: Settings) -> dict[str, Any]:
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    train, test = data.part("train"), data.part("test")
    epsilon = 0.0 if kind == "exact" else 1 / settings.strength
    models = []
    for _ in settings.powers:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            models.append(LinearSoftmax(train.features.shape[1], DIGITS).to(device))
    train_many(
        models,
        [WassersteinLoss(digit_cost(p), epsilon=epsilon).to(device) for p in settings.powers],
        (
            train.features[: settings.examples].to(device),
            train.target[: settings.examples].to(device),
        ),
        TrainingPlan(
            iterations=settings.iterations,
            optimizer=SGD(lr=settings.learning_rate),
            weight_penalty=settings.weight_penalty,
            log_every=settings.iterations,
        ),
        seeds=[seed] * len(models),
        progress=False,
    )
    posterior, accuracy = [], []
    x, digits = test.features.to(device), test.target.to(device)
    with torch.no_grad():
        for model in models:
            h = model(x).softmax(1)
            rows = [h[digits == digit].double().mean(0).tolist() for digit in range(DIGITS)]
            posterior.append(rows)
            accuracy.append(float((h.argmax(1) == digits).double().mean()))
    return {"posterior": posterior, "accuracy": accuracy}


def draw(result: Result) -> dict[str, Figure]:
    """The paper's figure with a few digits, and with all of them."""
    some = {digit: SHOWN[digit] for digit in SHOWN}
    everything = {digit: tuple(range(DIGITS)) for digit in SHOWN}
    return {"near": _draw(result, some, ("exact",)), "all": _draw(result, everything, KINDS)}


def _draw(result: Result, shown: dict[int, tuple[int, ...]], kinds: tuple[str, ...]) -> Figure:
    settings = result["settings"]
    figure, axes = new_figure(len(kinds), 2, (11, 0.6 + 3.8 * len(kinds)))
    for row, kind in zip(axes, kinds, strict=True):
        posterior = np.array(result["found"]["posterior"][kind])  # (seed, p, true, digit)
        for ax, (true, digits) in zip(row, shown.items(), strict=True):
            for digit in digits:
                band = bands(list(posterior[:, :, true, digit].T))
                if len(digits) < DIGITS:
                    draw_band(ax, settings["powers"], band, digit, f"digit {digit}")
                else:  # ten lines: shade by distance from the true digit
                    far = abs(digit - true)
                    ax.plot(
                        settings["powers"], band[0], label=f"digit {digit}", markersize=4,
                        marker=MARKERS[far % len(MARKERS)], color=COLORS[far % len(COLORS)],
                        linestyle="-" if digit >= true else "--", linewidth=1.3,
                    )  # fmt: skip
            ax.axhline(1 / DIGITS, color="#888888", linewidth=0.8, linestyle=":")
            ax.set_xscale("symlog", linthresh=0.5)
            ax.set_xticks([0, 0.25, 0.5, 1, 2, 4, 8, 16, 32], "0 ¼ ½ 1 2 4 8 16 32".split())
            ax.set_xlim(-0.02, max(settings["powers"]) * 1.1)
            ax.set_ylim(-0.02, 1.02)
            loss = "exact loss" if kind == "exact" else f"smoothed, λ = {settings['strength']:g}"
            finish(ax, f"images of {true} ({loss})", "p", "mean predicted probability", False)
        row[-1].legend(fontsize=8, frameon=False, loc="center left", bbox_to_anchor=(1, 0.5))
    state_sizes(
        figure,
        f"{result['mode']}: linear model, {settings['iterations']:,} steps, "
        f"{len(settings['seeds'])} seeds; cost (|κ − κ'| / 10)^p; dotted: uniform",
    )
    return figure


def verdict(result: Result) -> list[Verdict]:
    """What becomes of the true digit, of the near ones, and of all."""
    found = result["found"]["posterior"]
    return [
        _to_one(result, np.array(found["exact"])),
        _near(result, np.array(found["exact"])),
        _uniform(result, {kind: np.array(found[kind]) for kind in KINDS}),
    ]


def _to_one(result: Result, posterior: Any) -> Verdict:
    powers = result["settings"]["powers"]
    true = {digit: mean_interval(posterior[:, 0, digit, digit]) for digit in SHOWN}
    peak = {digit: float(posterior[:, :, digit, digit].mean(0).max()) for digit in SHOWN}
    accuracy = np.array(result["found"]["accuracy"]["exact"])[:, 0].mean()
    small = min(interval.mean for interval in true.values())
    outcome = Outcome.HELD if small > 0.85 else Outcome.PARTLY if small > 0.5 else Outcome.FAILED
    return Verdict(
        "as p → 0 the predicted probability of the true digit goes to 1",
        outcome,
        f"at p = {powers[0]:g}: " + ", ".join(f"{i} for images of {d}" for d, i in true.items()),
        f"The most over all p: {', '.join(f'{v:.3f} for {d}' for d, v in peak.items())}. A linear "
        f"model cannot reach 1: its test accuracy at p = {powers[0]:g} is {accuracy:.3f}.",
    )


def _near(result: Result, posterior: Any) -> Verdict:
    """Of the mass on wrong digits, how far from the true one it is, against p = 0."""
    powers = result["settings"]["powers"]
    places = np.arange(DIGITS)
    far = np.abs(places[:, None] - places)  # (true, digit)
    wrong = posterior * (far > 0)
    mean_distance = (wrong * far).sum((2, 3)) / wrong.sum((2, 3))  # (seed, p)
    at = powers.index(2.0) if 2.0 in powers else len(powers) // 2
    change = mean_interval(mean_distance[:, at] - mean_distance[:, 0])
    spread = mean_interval(
        [1 - run[at][range(DIGITS), range(DIGITS)].mean() for run in posterior]
    )
    before = mean_interval([1 - run[0][range(DIGITS), range(DIGITS)].mean() for run in posterior])
    grew = spread.mean > before.mean
    outcome = Outcome.HELD if change.high < 0 and grew else Outcome.PARTLY
    return Verdict(
        "for larger p mass spreads to digits that are numerically near",
        outcome if change.mean < 0 or grew else Outcome.FAILED,
        f"from p = 0 to p = {powers[at]:g} the mass on wrong digits goes from {before} to {spread}, "
        f"and its mean distance from the true digit by {change}",
        f"All digits; that distance was {mean_distance[:, 0].mean():.2f} at p = 0.",
    )


def _uniform(result: Result, posterior: dict[str, Any]) -> Verdict:
    powers = result["settings"]["powers"]

    def from_uniform(values: Any, place: int) -> Interval:
        return mean_interval(0.5 * np.abs(values[:, place] - 1 / DIGITS).sum(2).mean(1))

    first, last = (
        {kind: from_uniform(values, place) for kind, values in posterior.items()}
        for place in (0, -1)
    )
    means = [from_uniform(posterior["exact"], place).mean for place in range(len(powers))]
    falls = means[-1] < means[0]
    near = all(interval.mean < 0.05 for interval in last.values())
    away = float(posterior["exact"][:, -1, 0, 9].mean())
    return Verdict(
        "toward a uniform distribution as p → ∞",
        Outcome.HELD if falls and near else Outcome.PARTLY if falls else Outcome.FAILED,
        f"total variation from uniform at p = {powers[-1]:g}: "
        + ", ".join(f"{i} ({kind}; {first[kind]} at p = 0)" for kind, i in last.items()),
        f"All digits. Costs vanish as p grows, those of far digits last: images of 0 still have "
        f"{away:.3f} on digit 9 at p = {powers[-1]:g}, where 0.1 would be uniform.",
    )


EXPERIMENT = Experiment(
    name="mnist",
    title="The ground metric's power, on MNIST",
    claim="as p → 0 the true digit's probability goes to 1; for larger p mass spreads to "
    "numerically near digits, toward uniform",
    figure="figures 4 and 7",
    quick=Settings(iterations=1000, seeds=(0, 1, 2)),
    full=Settings(),
    compute=compute,
    draw=draw,
    verdict=verdict,
)
