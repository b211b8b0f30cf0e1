"""The report's figures, as SVG to put into a page of any colour."""

from __future__ import annotations

import io
import re
from html import escape
from typing import TYPE_CHECKING, Any

import numpy as np

from wassloss import plots
from wassloss.report.content import Report

if TYPE_CHECKING:
    from matplotlib.figure import Figure

_INK = "#010203"  # no one's colour: it becomes the page's own
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text: selectable, and in the page's font
    "font.family": "sans-serif",
    "font.size": 10,
    "text.color": _INK,
    "axes.labelcolor": _INK,
    "axes.edgecolor": _INK,
    "xtick.color": _INK,
    "ytick.color": _INK,
    "grid.color": _INK,
}


def top_k_figure(report: Report) -> str:
    """Curves of top-k cost, with bands of one standard error."""
    curves = {n: s.curve.mean(0) for n, s in zip(report.names, report.scores, strict=True)}
    errors = {
        n: s.curve.std(0, ddof=1) / len(s) ** 0.5 if len(s) > 1 else np.zeros(s.curve.shape[1])
        for n, s in zip(report.names, report.scores, strict=True)
    }

    def draw(axes: Any) -> None:
        plots.plot_top_k_cost(curves, axes, errors)

    return _drawn("topk", "Top-k cost of each run for k = 1 and more", draw)


def mass_figure(report: Report) -> str:
    """Where predicted mass goes."""
    shares = dict(zip(report.names, report.mass.shares, strict=True))

    def draw(axes: Any) -> None:
        plots.plot_mass_by_distance(report.mass.ticks, shares, axes, report.mass.even)
        if len(report.mass.ticks) > 8:
            axes.tick_params(axis="x", labelsize=8)

    return _drawn("mass", "Share of the predicted mass by distance from the truth", draw)


def training_figure(report: Report) -> str:
    """The loss of each run in a panel of its own, for their units differ."""
    from matplotlib.figure import Figure

    with _styled():
        figure = Figure(figsize=(8, 2.6 * -(-len(report.names) // 2)), layout="constrained")
        columns = min(2, len(report.names))
        panels = figure.subplots(-(-len(report.names) // 2), columns, squeeze=False).reshape(-1)
        for axes in panels[len(report.names) :]:
            axes.set_visible(False)
        for i, (name, log) in enumerate(zip(report.names, report.logs, strict=True)):
            plots.plot_training(
                [record.step for record in log],
                [record.loss for record in log],
                panels[i],
                name=name,
                what="loss",
                color=plots.COLORS[i % len(plots.COLORS)],
            )
            panels[i].set_title(name, fontsize=10, loc="left")
        return _svg(figure, "loss", "Training loss of each run")


def validation_figure(report: Report) -> str | None:
    """Validation scores over the steps, where runs have them and watch the same."""
    logs = [[record for record in log if record.score is not None] for log in report.logs]
    watched = {w for w, log in zip(report.watched, logs, strict=True) if log}
    if len(watched) != 1 or watched == {"loss"}:
        return None

    def draw(axes: Any) -> None:
        for i, (name, log) in enumerate(zip(report.names, logs, strict=True)):
            if log:
                plots.plot_training(
                    [record.step for record in log],
                    [record.score or 0.0 for record in log],
                    axes,
                    name=name,
                    what=f"validation {watched.copy().pop()}",
                    color=plots.COLORS[i % len(plots.COLORS)],
                )
        axes.legend(frameon=False)

    return _drawn("validation", "Validation score of each run while it trained", draw)


def _drawn(name: str, title: str, draw: Any) -> str:
    from matplotlib.figure import Figure

    with _styled():
        figure = Figure(figsize=(8, 3.6), layout="constrained")
        draw(figure.subplots())
        return _svg(figure, name, title)


def _styled() -> Any:
    import matplotlib as mpl

    return mpl.rc_context(_STYLE)


def _svg(figure: Figure, name: str, title: str) -> str:
    """A figure as an element of a page: its own ids, the page's ink, no fixed size."""
    buffer = io.StringIO()
    nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
    figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = text.replace("url(#", f"url(#{name}-").replace('href="#', f'href="#{name}-')
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = text.replace(_INK, "currentColor")
    label = f'<svg role="img" aria-label="{escape(title)}" class="figure" id="figure-{name}"'
    return text.replace("<svg", label, 1)
