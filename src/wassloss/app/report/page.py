"""The content of a report, and its page: one HTML file without external resources."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wassloss import __version__
from wassloss.app._files import begins, check_replaceable
from wassloss.app.columns import GAPS
from wassloss.app.comparison import Candidate
from wassloss.app.report import figures
from wassloss.files import write_file
from wassloss.ground import GroundMetric

if TYPE_CHECKING:
    import pandas as pd

_HERE = Path(__file__).parent
_SHOWN = 5  # mistakes shown of each kind
_COLUMNS = 4  # columns shown of a row
_LONG = 40  # most characters shown of a value
_NAMED = 8  # labels listed that are never predicted
_GROUPS = 24  # most rows of a matrix; more labels are grouped with their neighbours


def described(row: pd.Series[Any]) -> str:
    """The first columns of a row as text; empty if the columns have no names."""
    words = []
    for name, value in row.iloc[:_COLUMNS].items():
        if not isinstance(name, str):
            return ""
        number = isinstance(value, (float, np.floating))
        text = f"{value:.4g}" if number else str(value).strip()
        text = text if len(text) <= _LONG else f"{text[: _LONG - 1]}…"
        words.append(f"{name} {'missing' if text in GAPS else text}")
    return ", ".join(words)


@dataclass(frozen=True)
class Mistake:
    """An example, its true labels, and the predictions of the models."""

    name: str
    text: str
    truth: str
    guesses: Sequence[str]


@dataclass(frozen=True, kw_only=True)
class Report:
    """The content of the page.

    Attributes:
        answer: the finding in a sentence.
        warnings: caveats shown below it.
        models, names: the models to compare; mistakes are shown for the first two.
        candidates: each loss or model with each decision rule, for the plot of accuracy against
            distance.
        metric, labels: the ground metric, and the names of its labels.
        truth: the true label of each prediction, `(predictions,)`; None if there may be several.
        far_from: what distances are measured from.
        header, rows: the table of scores.
        meanings: an explanation of the first cell of each row, if needed.
        notes: how the result was obtained.
        unit: a word for an example.
        mended, made: mistakes of the first model that the second corrects, and vice versa; for a
            single model, `mended` holds its worst mistakes.
    """

    answer: str
    warnings: Sequence[str] = ()
    models: Sequence[Candidate]
    names: Sequence[str]
    candidates: Sequence[Candidate]
    metric: GroundMetric
    labels: Sequence[str]
    truth: NDArray[np.int64] | None
    far_from: str = "the truth"
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    meanings: Sequence[str] = ()
    notes: Sequence[str]
    unit: str
    mended: Sequence[Mistake] = ()
    made: Sequence[Mistake] = ()


def most_mended(before: NDArray[np.floating], after: NDArray[np.floating]) -> NDArray[np.int64]:
    """At most five examples whose distance decreases most, the worst mistakes first.

    >>> most_mended(np.array([3.0, 0.0, 4.0, 2.0]), np.array([1.0, 1.0, 2.0, 2.0])).tolist()
    [2, 0]
    """
    gain = before - after
    order = np.lexsort((-before, -gain))[:_SHOWN]
    return order[gain[order] > 0]


def check_page(path: str | os.PathLike[str]) -> None:
    """Refuse to replace a file that is not a report by wassloss."""
    check_replaceable(path, "a report", begins(b"<!doctype html>.*<title>wassloss: "))


def write_report(report: Report, path: str | os.PathLike[str]) -> None:
    """Write the page atomically.

    Raises:
        ValueError: the path is a file that is not a report by wassloss.
    """
    check_page(path)
    write_file(path, render(report).encode())


def render(report: Report) -> str:
    """The HTML text of the page."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    environment = Environment(
        loader=FileSystemLoader(_HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    disc = Markup('<span class="dot" style="color:{}">●</span>\u00a0')
    groups = []
    if report.truth is not None:
        order = figures.neighbour_order(report.metric)
        groups = np.array_split(order, min(_GROUPS, len(order)))
    matrices = [
        (
            f"confusion-{i}",
            f"Confusion matrix of {name}",
            partial(figures.draw_confusion, report, groups, i),
        )
        for i, name in enumerate(report.names if groups else ())
    ]
    return environment.get_template("page.html.jinja").render(
        report=report,
        style=(_HERE / "style.css").read_text(encoding="utf-8"),
        version=__version__,
        dot=lambda i: disc.format(figures.color(i)),
        distances=figures.svg(
            "distances", "Distances of mistakes", partial(figures.draw_distances, report)
        ),
        frontier=figures.svg(
            "frontier", "Accuracy and mean distance", partial(figures.draw_frontier, report)
        ),
        groups=groups,
        never=_never_answered(report),
        matrices=[figures.svg(*matrix, height=5.0) for matrix in matrices],
    )


def _never_answered(report: Report) -> list[str]:
    """A sentence for each model that never predicts some of the true labels."""
    said = []
    for name, model in zip(report.names, report.models, strict=True):
        missed = np.setdiff1d([] if report.truth is None else report.truth, model.guess)
        if len(missed):
            shown = ", ".join(report.labels[i] for i in missed.astype(int)[:_NAMED])
            more = f" and {len(missed) - _NAMED} more" if len(missed) > _NAMED else ""
            said.append(f"{name} never predicts {shown}{more}.")
    return said
