"""Figures: arrays in, Axes out, nothing computed on the way. Needs matplotlib.

Each function draws onto the `axes` it is given and hands them back, so that figures can be put
together and changed as matplotlib's own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Told apart on white and on near-black, and by most who do not see all colours.
COLORS = ("#2f86d1", "#e0701b", "#2a9d6f", "#b45fc0", "#c2a200", "#d64a4a")
GREY = "#8a8f98"

Curve = NDArray[np.float64] | Sequence[float]


def plot_top_k_cost(
    curves: Mapping[str, Curve], axes: Axes, errors: Mapping[str, Curve] | None = None
) -> Axes:
    """The top-k cost of several runs.

    Args:
        curves: by name, the cost for k = 1, 2, …
        axes: where to draw.
        errors: half the width of a band around each curve.
    """
    for color, (name, curve) in zip(_colors(curves), curves.items(), strict=True):
        k = np.arange(1, len(curve) + 1)
        values = np.asarray(curve)
        axes.plot(k, values, color=color, marker="o", markersize=3.5, label=name)
        if errors is not None:
            half = np.asarray(errors[name])
            axes.fill_between(k, values - half, values + half, color=color, alpha=0.15, lw=0)
    axes.set_xlabel("k, number of guesses")
    axes.set_ylabel("mean distance to the nearest true label")
    longest = max(len(curve) for curve in curves.values())
    axes.set_xticks([1, *range(5, longest + 1, 5)] if longest > 10 else range(1, longest + 1))
    _finish(axes)
    axes.legend(frameon=False)
    return axes


def plot_mass_by_distance(
    ticks: Sequence[str],
    shares: Mapping[str, Curve],
    axes: Axes,
    reference: Curve | None = None,
) -> Axes:
    """Where predicted mass goes: a bar for each distance from the truth and each run.

    Args:
        ticks: what to write under each group of bars.
        shares: by name, the share of the mass at each distance.
        axes: where to draw.
        reference: shares to compare with, drawn as grey lines: mass spread evenly, say.
    """
    places = np.arange(len(ticks))
    width = 0.8 / len(shares)
    for i, (color, (name, share)) in enumerate(zip(_colors(shares), shares.items(), strict=True)):
        shift = (i - (len(shares) - 1) / 2) * width
        axes.bar(places + shift, 100 * np.asarray(share), width * 0.92, color=color, label=name)
    if reference is not None:
        heights = 100 * np.asarray(reference)
        axes.hlines(
            heights, places - 0.44, places + 0.44, colors=GREY, linewidth=1.6, label="spread evenly"
        )
    axes.set_xticks(places, ticks)
    axes.set_xlabel("distance to the nearest true label")
    axes.set_ylabel("% of the predicted mass")
    _finish(axes)
    axes.legend(frameon=False)
    return axes


def plot_training(
    iterations: Curve, values: Curve, axes: Axes, *, name: str, what: str, color: str = COLORS[0]
) -> Axes:
    """A figure of the log over the iterations, such as the loss.

    Args:
        iterations: when.
        values: the figure.
        axes: where to draw; may be drawn on again.
        name: of the run.
        what: the figure is.
        color: of the line.
    """
    few = len(values) <= 20  # a single point would not be seen without a mark
    axes.plot(iterations, values, "o-" if few else "-", color=color, ms=3.5, lw=1.6, label=name)
    axes.set_xlabel("iteration")
    axes.set_ylabel(what)
    _finish(axes)
    return axes


def _colors(names: Mapping[str, Curve]) -> list[str]:
    return [COLORS[i % len(COLORS)] for i in range(len(names))]


def _finish(axes: Axes) -> None:
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25)
    axes.set_axisbelow(True)
