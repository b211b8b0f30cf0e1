"""The figures of a report, as inline SVG in the page's text colour."""

from __future__ import annotations

import io
import re
import warnings
from collections.abc import Callable, Mapping
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from wassloss.ground import GroundMetric, Ordinal

if TYPE_CHECKING:
    from matplotlib.axes import Axes

    from wassloss.app.report.page import Report

_WIDTH = 5.6  # inches; keeps text readable on a phone
_MOST_VALUES = 14  # distinct distances that get a bar each; more are binned
_BINS = 8
_OPTIMAL = 500  # labels up to which optimal leaf ordering takes about a second
_NAMED = 12  # most rows of a matrix with counts, and most label names on an axis

# Distinguishable on white and near-black, and for most colour-blind readers.
_COLORS = ("#2f86d1", "#e0701b", "#2a9d6f", "#b45fc0", "#c2a200", "#d64a4a")
_OF_FONTS = r"Glyph \d+ |Matplotlib currently does not support"
_CONTROL = re.compile("[\0-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_INK = "#010203"  # a placeholder for the page's text colour
_INKED = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # keep text selectable and in the page's font
    "text.parse_math": False,  # names of labels and models may contain dollar signs
    "text.usetex": False,
    "svg.hashsalt": "wassloss",  # reproducible ids
    "font.family": "sans-serif",
    "font.size": 10,
    "grid.color": _INK,
    **dict.fromkeys(_INKED, _INK),
}


def color(model: int) -> str:
    """The colour of a model throughout the report."""
    return _COLORS[model % len(_COLORS)]


def draw_distances(report: Report, axes: Axes) -> None:
    """Draw a bar for each distance above 0 and each model.

    Right answers have distance 0 and are omitted, because they would dwarf the mistakes.
    """
    edges, ticks = _bins(np.concatenate([model.distance for model in report.models]))
    places, width = np.arange(len(edges) - 1), 0.8 / len(report.models)
    left, bars = places - 0.4 + width / 2, dict[str, Any]()
    for i, (name, model) in enumerate(zip(report.names, report.models, strict=True)):
        shares = 100 * np.histogram(model.distance, edges)[0] / len(model.distance)
        bars[name] = axes.bar(left + i * width, shares, 0.92 * width, color=color(i))
    between = len(ticks) > len(places)  # ticks are edges of bins, not their centres
    axes.set_xticks(np.arange(len(ticks)) - 0.5 * between, ticks)
    _finish(axes, f"distance from {report.far_from}", "% of all answers", bars)


def draw_frontier(report: Report, axes: Axes) -> None:
    """Draw a mark for each loss and decision rule, with a line between the marks of a loss.

    Vertical lines are the intervals of the change in mean distance from the first mark.
    """
    losses = list(dict.fromkeys(one.loss for one in report.candidates))
    decisions = list(dict.fromkeys(one.decision for one in report.candidates))
    marks = dict[str, Any]()
    for i, loss in enumerate(losses):
        own = [one for one in report.candidates if one.loss == loss]
        points = [(100 * one.accuracy.mean(), one.distance.mean()) for one in own]
        axes.plot(*zip(*points, strict=True), color=color(i), lw=1.2, alpha=0.6)
        start = report.candidates[0].distance.mean()
        for point, one in zip(points, own, strict=True):
            if one.versus.low < one.versus.high:
                ends = start + one.versus.low, start + one.versus.high
                axes.vlines(point[0], *ends, color=color(i), lw=1.2, alpha=0.4)
            mark = "osD"[decisions.index(one.decision)]
            label = f"{loss}, {one.decision}"
            (marks[label],) = axes.plot(*point, mark, color=color(i), ms=8, label=label)
    axes.margins(0.12)
    _finish(axes, "accuracy, %", "mean distance", marks)


def draw_confusion(report: Report, groups: list[NDArray[np.int64]], model: int, axes: Axes) -> None:
    """Draw a confusion matrix, with darker cells for more frequent predictions."""
    from matplotlib.colors import to_rgba
    from sklearn.metrics import confusion_matrix

    group_of = np.empty(len(report.labels), dtype=np.int64)
    for i, labels in enumerate(groups):
        group_of[labels] = i
    both = group_of[report.truth], group_of[report.models[model].guess]
    counts = confusion_matrix(*both, labels=range(len(groups)))
    shares = counts / np.maximum(counts.sum(1, keepdims=True), 1)
    cells = np.empty((*shares.shape, 4))
    cells[:] = to_rgba(color(model))
    cells[..., 3] = np.sqrt(shares)  # makes rare mistakes visible
    axes.imshow(cells, interpolation="none")
    size = len(counts)
    step = -(-size // _NAMED)
    places = np.arange(0, size, step)
    words = [_short(report.labels[groups[i][0]]) for i in places]
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


def neighbour_order(metric: GroundMetric) -> NDArray[np.int64]:
    """An order of the labels in which similar labels are neighbours.

    It is the order on the line for an ordinal metric, and else that of the leaves of an
    average-linkage clustering.
    """
    if isinstance(metric, Ordinal):
        return np.argsort(metric.positions.numpy(), kind="stable")
    if metric.size < 3:
        return np.arange(metric.size)
    from scipy.cluster.hierarchy import leaves_list, linkage
    from scipy.spatial.distance import squareform

    distance = metric.distance().double().numpy()
    both_ways = (distance + distance.T) / 2  # costs may be asymmetric
    np.fill_diagonal(both_ways, 0)
    tree = linkage(squareform(both_ways), "average", optimal_ordering=metric.size <= _OPTIMAL)
    order: NDArray[np.int64] = leaves_list(tree).astype(np.int64)
    return order


def svg(name: str, title: str, draw: Callable[[Axes], None], height: float = 3.4) -> str:
    """Draw a figure as an SVG element with unique ids, the page's text colour and no fixed size."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    buffer = io.StringIO()
    with mpl.rc_context(_STYLE), warnings.catch_warnings():
        # The reader's browser draws the text, with its own fonts.
        warnings.filterwarnings("ignore", _OF_FONTS, UserWarning)
        figure = Figure(figsize=(_WIDTH, height), layout="constrained")
        draw(figure.subplots())
        figure.savefig(buffer, format="svg", transparent=True)
    text = _CONTROL.sub("\N{REPLACEMENT CHARACTER}", buffer.getvalue())  # invalid in XML
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = text.replace("url(#", f"url(#{name}-").replace('href="#', f'href="#{name}-')
    for size in ("height", "width"):
        text = re.sub(rf'(<svg[^>]*?) {size}="[^"]*"', r"\1", text, count=1)
    text = text.replace(_INK, "currentColor")
    label = f'<svg role="img" aria-label="{escape(title)}" class="figure" id="figure-{name}"'
    return text.replace("<svg", label, 1)


def _finish(axes: Axes, x: str, y: str, shown: Mapping[str, Any]) -> None:
    """Label the axes, put a legend below them, and remove spines."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25)
    axes.set_axisbelow(True)
    # Names are set afterwards, because matplotlib omits entries that begin with an underscore.
    numbers = [str(i) for i in range(len(shown))]
    place: dict[str, Any] = {"loc": "outside lower center", "ncols": 2}
    legend = axes.figure.legend([*shown.values()], numbers, **place, frameon=False, fontsize=9)
    for text, name in zip(legend.get_texts(), shown, strict=True):
        text.set_text(name)


def _short(word: str) -> str:
    return word if len(word) <= 14 else f"{word[:13]}…"


def _bins(off: NDArray[np.float64]) -> tuple[NDArray[np.float64], list[str]]:
    """Bin edges for distances above 0, and tick labels: one per distance, or one per edge."""
    values = np.unique(off[off > 0].round(9))
    if not len(values):
        return np.array([0.5, 1.5]), ["1"]
    if len(values) <= _MOST_VALUES:
        between = (values[1:] + values[:-1]) / 2
        return np.array([values[0] / 2, *between, np.inf]), [f"{value:.3g}" for value in values]
    edges = np.linspace(values[0], values[-1], _BINS + 1)
    return np.array([values[0] / 2, *edges[1:-1], np.inf]), [f"{edge:.3g}" for edge in edges]
