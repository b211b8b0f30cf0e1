"""What one loss gains over another, as a page that begins with its answer."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wassloss._files import write_file
from wassloss.ground import GroundMetric
from wassloss.report.confusion import GROUPS, confusion, neighbour_order
from wassloss.report.page import COLORS, environment, finish, svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure


_MOST_VALUES = 14  # distances that each get a bar; beyond, they are put into bins
_BINS = 8
_NAMED = 12  # rows of a matrix whose counts are written, and names of labels on its axes
_SHOWN = 5  # mistakes of each kind


@dataclass(frozen=True)
class Point:
    """A loss and a decision, by how often they are right and how far off they are."""

    loss: str
    decision: str
    accuracy: float
    distance: float


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
        metric, labels: how far apart labels are, and their names.
        truth: the true label of each answer, `(answers,)`.
        guesses: what each model says, `(answers,)`.
        points: each loss with each decision; those of the two models' losses first.
        unit: what an example is, in a word.
        mended, made: mistakes of the first model that the second mends, and the other way round.
    """

    answer: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str]
    names: tuple[str, str]
    metric: GroundMetric
    labels: Sequence[str]
    truth: NDArray[np.int64]
    guesses: tuple[NDArray[np.int64], NDArray[np.int64]]
    points: Sequence[Point]
    unit: str
    mended: Sequence[Mistake] = ()
    made: Sequence[Mistake] = ()

    @cached_property
    def distances(self) -> list[NDArray[np.float64]]:
        """How far off each model's answers are, `(answers,)`."""
        table = self.metric.distance().double().numpy()
        return [table[guess, self.truth] for guess in self.guesses]

    @cached_property
    def groups(self) -> list[NDArray[np.int64]]:
        """Labels in an order in which near ones are neighbours, put together if they are many."""
        order = neighbour_order(self.metric)
        return np.array_split(order, min(GROUPS, len(order)))


def most_mended(before: NDArray[np.floating], after: NDArray[np.floating]) -> NDArray[np.int64]:
    """The examples whose distance falls most, the worst mistakes first; at most five.

    >>> most_mended(np.array([3.0, 0.0, 4.0, 2.0]), np.array([1.0, 1.0, 2.0, 2.0])).tolist()
    [2, 0]
    """
    gain = before - after
    order = np.lexsort((-before, -gain))[:_SHOWN]
    return order[gain[order] > 0]


def write_gains(gains: Gains, path: str | os.PathLike[str]) -> None:
    """Write the page; if writing fails, a page that was there before stays as it was."""
    matrices = [
        svg((gains, i), f"confusion-{i}", f"What {name} takes labels for", draw_confusion, 5.0)
        for i, name in enumerate(gains.names)
    ]
    page = (
        environment()
        .get_template("gains.html.jinja")
        .render(
            gains=gains,
            distances=svg(gains, "distances", "How far off wrong answers are", draw_distances),
            frontier=svg(gains, "frontier", "Accuracy and mean distance", draw_frontier),
            matrices=matrices,
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


def draw_frontier(gains: Gains, figure: Figure) -> None:
    """A mark for each loss and decision, with a line between the decisions of a loss."""
    axes = figure.subplots()
    losses = list(dict.fromkeys(point.loss for point in gains.points))
    decisions = list(dict.fromkeys(point.decision for point in gains.points))
    for color, loss in zip(COLORS, losses, strict=False):
        own = [point for point in gains.points if point.loss == loss]
        x, y = [100 * point.accuracy for point in own], [point.distance for point in own]
        axes.plot(x, y, color=color, lw=1.2, alpha=0.6)
        for point in own:
            mark = "osD"[decisions.index(point.decision)]
            axes.plot(
                100 * point.accuracy, point.distance, mark, color=color, ms=8,
                label=f"{loss}, {point.decision}",
            )  # fmt: skip
    axes.margins(0.12)
    finish(axes, "accuracy, %", "mean distance", legend=False)
    figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=9)


def draw_confusion(which: tuple[Gains, int], figure: Figure) -> None:
    """A cell for each true and each predicted label, the darker the more often."""
    from matplotlib.colors import to_rgba

    gains, model = which
    axes = figure.subplots()
    counts = confusion(gains.truth, gains.guesses[model], gains.groups)
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    cells = np.empty((*shares.shape, 4))
    cells[:] = to_rgba(COLORS[model])
    cells[..., 3] = np.sqrt(shares)  # rare mistakes are seen too
    axes.imshow(cells, interpolation="none")
    size = len(counts)
    step = -(-size // _NAMED)
    places = np.arange(0, size, step)
    words = [_short(gains.labels[gains.groups[i][0]]) for i in places]
    axes.set_yticks(places, words)
    few = size <= _NAMED and max(map(len, words)) <= 4
    axes.set_xticks(places, words, rotation=0 if few else 90)
    if size <= _NAMED:
        for (i, j), count in np.ndenumerate(counts):
            if count:
                axes.text(j, i, str(count), ha="center", va="center", fontsize=9)
    axes.tick_params(length=0)
    axes.spines[:].set_visible(False)
    axes.set_xlabel("predicted")
    axes.set_ylabel("true")


def _short(word: str) -> str:
    return word if len(word) <= 14 else f"{word[:13]}…"


def _bins(off: NDArray[np.float64]) -> tuple[NDArray[np.float64], list[str]]:
    """Edges of bins for distances above 0, and a word for each bin."""
    values = np.unique(off[off > 0])
    if not len(values):
        return np.array([0.5, 1.5]), ["1"]
    if len(values) <= _MOST_VALUES:
        between = (values[1:] + values[:-1]) / 2
        return np.array([values[0] / 2, *between, np.inf]), [f"{value:.3g}" for value in values]
    edges = np.linspace(values[0], values[-1], _BINS + 1)
    words = [f"{low:.3g}–{high:.3g}" for low, high in pairwise(edges)]
    return np.array([values[0] / 2, *edges[1:-1], np.inf]), words
