"""What one loss gains over another, as a page that begins with its answer."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wassloss import __version__
from wassloss._files import write_file
from wassloss.report.page import COLORS, HERE, environment, finish, svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_MOST_VALUES = 14  # distances that each get a bar; beyond, they are put into bins


@dataclass(frozen=True)
class Mistake:
    """An example, its true label, and what the models say."""

    name: str
    text: str
    truth: str
    guesses: tuple[str, str]


@dataclass(frozen=True)
class Gains:
    """All that the page shows.

    Attributes:
        answer: the finding in a sentence.
        header, rows: a table of scores.
        notes: how it was found.
        names: of the two models.
        distances: of each, how far off its answers are, `(answers,)`.
        milder, worse: mistakes of both models of which the second's is milder, or worse.
    """

    answer: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str]
    names: tuple[str, str]
    distances: Sequence[NDArray[np.float64]]
    milder: Sequence[Mistake] = ()
    worse: Sequence[Mistake] = ()


def write_gains(gains: Gains, path: str | os.PathLike[str]) -> None:
    """Write the page; if writing fails, a page that was there before stays as it was."""
    page = (
        environment()
        .get_template("gains.html.jinja")
        .render(
            gains=gains,
            figure=svg(gains, "distances", "How far off first guesses are", draw_distances),
            colors=COLORS,
            style=(HERE / "style.css").read_text(encoding="utf-8"),
            version=__version__,
        )
    )
    write_file(path, page.encode())


def draw_distances(gains: Gains, figure: Figure) -> None:
    """A bar for each distance and model; right answers would dwarf the mistakes."""
    axes = figure.subplots()
    edges, ticks = _bins(np.concatenate(gains.distances))
    places, width = np.arange(len(ticks)), 0.4
    for i, (name, off) in enumerate(zip(gains.names, gains.distances, strict=True)):
        shares = 100 * np.histogram(off, edges)[0] / len(off)
        axes.bar(places + (i - 0.5) * width, shares, 0.92 * width, color=COLORS[i], label=name)
    axes.set_xticks(places, ticks)
    finish(axes, "distance of a wrong answer from the truth", "% of all answers")


def _bins(off: NDArray[np.float64]) -> tuple[NDArray[np.float64], list[str]]:
    """Edges of bins for distances above 0, and a word for each bin."""
    values = np.unique(off[off > 0])
    if not len(values):
        return np.array([0.5, 1.5]), ["1"]
    if len(values) <= _MOST_VALUES:
        between = (values[1:] + values[:-1]) / 2
        return np.array([values[0] / 2, *between, np.inf]), [f"{value:.3g}" for value in values]
    edges = np.linspace(0, values[-1], 11)
    words = [f"{low:.2g}–{high:.2g}" for low, high in pairwise(edges)]
    return np.array([values[0] / 2, *edges[1:]]), words
