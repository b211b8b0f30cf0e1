"""What one loss gains over another, as a page that begins with its answer."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from wassloss import __version__
from wassloss._files import write_file
from wassloss.report.page import COLORS, HERE, environment, finish, svg

if TYPE_CHECKING:
    from matplotlib.figure import Figure


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
        distances: of each, the share of examples by the distance of the first guess.
        milder, worse: mistakes of both models of which the second's is milder, or worse.
    """

    answer: str
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    notes: Sequence[str]
    names: tuple[str, str]
    distances: Mapping[str, Mapping[int, float]]
    milder: Sequence[Mistake]
    worse: Sequence[Mistake]


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
    most = max(max(shares) for shares in gains.distances.values())
    places, width = np.arange(1, most + 1), 0.4
    for i, (name, shares) in enumerate(gains.distances.items()):
        heights = [100 * shares.get(int(place), 0.0) for place in places]
        axes.bar(places + (i - 0.5) * width, heights, 0.92 * width, color=COLORS[i], label=name)
    axes.set_xticks(places)
    finish(axes, "distance of a wrong first guess from the truth", "% of all examples")
