"""The page: a report's numbers and figures as one HTML file that fetches nothing."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from wassloss import __version__
from wassloss._files import write_file
from wassloss.report.content import Report
from wassloss.runs import TrainedRun
from wassloss.runs.evaluation import MEANING

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HERE = Path(__file__).parent

# Distinguishable on white and on near-black, and by most who do not see all colours.
COLORS = ("#2f86d1", "#e0701b", "#2a9d6f", "#b45fc0", "#c2a200", "#d64a4a")
GREY = "#8a8f98"
_INK = "#010203"  # no one's colour: it becomes the page's own
_INKED = ("text.color", "axes.labelcolor", "axes.edgecolor", "xtick.color", "ytick.color")
_STYLE: dict[Any, Any] = {
    "svg.fonttype": "none",  # text stays text: selectable, and in the page's font
    "font.family": "sans-serif",
    "font.size": 10,
    "grid.color": _INK,
    **dict.fromkeys(_INKED, _INK),
}


def write_report(report: Report, path: str | os.PathLike[str]) -> None:
    """Write the page; if writing fails, a page that was there before stays as it was."""
    write_file(path, render(report).encode())


def render(report: Report) -> str:
    """The page as text."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined

    pages = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    means = {name: [s.mean(name) for s in report.scores] for name in report.scores[0].values}
    configs = [_settings(run) for run in report.runs]
    names = dict.fromkeys(name for config in configs for name in config)
    settings = [(name, [config.get(name, "–") for config in configs]) for name in names]
    return pages.get_template("page.html.jinja").render(
        report=report,
        meanings=MEANING,
        best={name: max(own) if MEANING[name][0] else min(own) for name, own in means.items()},
        figures=_figures(report),
        differing=[(name, values) for name, values in settings if len(set(values)) > 1],
        shared=[(name, values) for name, values in settings if len(set(values)) == 1],
        colors=COLORS,
        style=(HERE / "style.css").read_text(encoding="utf-8"),
        version=__version__,
    )


def _settings(run: TrainedRun) -> dict[str, str]:
    """Settings, model, metric and versions of a run as words."""
    config = run.config
    shown: dict[str, Any] = dict(config["settings"])
    if shown.get("epsilon") is None and config["epsilon"] is not None:
        shown["epsilon"] = f"{config['epsilon']:.4g} (default)"
    shown["model"] = ", ".join(f"{k} {v}" for k, v in config["model"].items())
    shown["metric"] = repr(run.metric)
    shown |= {f"{name} version": value for name, value in config["versions"].items()}
    shown |= {"started": config["started"], "finished": run.finished}
    return {name: _word(value) for name, value in shown.items()}


def _word(value: Any) -> str:
    if value is None or value == []:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        more = [f"… ({len(value)})"] if len(value) > 12 else []
        return ", ".join([*map(str, value[:12]), *more])
    return f"{value:g}" if isinstance(value, float) else str(value)


def _figures(report: Report) -> dict[str, str]:
    """The figures as SVG; that of validation scores only if there are some to compare."""
    lines = -(-len(report.names) // 2)
    figures = {
        "topk": (draw_top_k, 3.6, "Top-k cost of each run for k = 1 and more"),
        "mass": (draw_mass, 3.6, "Share of the predicted mass by distance from the truth"),
        "loss": (draw_losses, 2.6 * lines, "Training loss of each run"),
    }
    if _watched(report) is not None:
        title = "Validation score of each run while it trained"
        figures["validation"] = (draw_validation, 3.6, title)
    return {name: _svg(report, name, *how) for name, how in figures.items()}


def _watched(report: Report) -> str | None:
    """The validation score that runs have, if it is the same and not the loss."""
    watched = {
        run.settings.score
        for run in report.runs
        if any(record.score is not None for record in run.log())
    }
    return watched.pop() if len(watched) == 1 and watched != {"loss"} else None


def draw_top_k(report: Report, figure: Figure) -> None:
    """Curves of top-k cost, with bands of one standard error over examples."""
    axes = figure.subplots()
    for i, (name, scores) in enumerate(zip(report.names, report.scores, strict=True)):
        color, curve = COLORS[i % len(COLORS)], scores.curve.mean(0)
        k = np.arange(1, len(curve) + 1)
        axes.plot(k, curve, color=color, marker="o", markersize=3.5, label=name)
        if len(scores) > 1:
            half = scores.curve.std(0, ddof=1) / len(scores) ** 0.5
            axes.fill_between(k, curve - half, curve + half, color=color, alpha=0.15, lw=0)
    longest = report.scores[0].curve.shape[1]
    axes.set_xticks([1, *range(5, longest + 1, 5)] if longest > 10 else range(1, longest + 1))
    _finish(axes, "k, number of guesses", "mean distance to the nearest true label")
    axes.legend(frameon=False)


def draw_mass(report: Report, figure: Figure) -> None:
    """A bar for each distance from the truth and each run; grey lines are mass spread evenly."""
    axes, mass = figure.subplots(), report.mass
    places, width = np.arange(len(mass.ticks)), 0.8 / len(report.names)
    for i, (name, shares) in enumerate(zip(report.names, mass.shares, strict=True)):
        left = places + (i - (len(report.names) - 1) / 2) * width
        axes.bar(left, 100 * shares, width * 0.92, color=COLORS[i % len(COLORS)], label=name)
    sides = places - 0.44, places + 0.44
    axes.hlines(100 * mass.even, *sides, colors=GREY, linewidth=1.6, label="spread evenly")
    axes.set_xticks(places, mass.ticks, fontsize=8 if len(mass.ticks) > 8 else 10)
    _finish(axes, "distance to the nearest true label", "% of the predicted mass")
    axes.legend(frameon=False)


def draw_losses(report: Report, figure: Figure) -> None:
    """The loss of each run in a panel of its own, because their units differ."""
    count = len(report.names)
    panels = figure.subplots(-(-count // 2), min(2, count), squeeze=False).reshape(-1)
    for axes in panels[count:]:
        axes.set_visible(False)
    for i, (name, run) in enumerate(zip(report.names, report.runs, strict=True)):
        _line(panels[i], i, name, [(record.step, record.loss) for record in run.log()])
        panels[i].set_title(name, fontsize=10, loc="left")
        _finish(panels[i], "iteration", "loss")


def draw_validation(report: Report, figure: Figure) -> None:
    """Validation scores over the steps, of the runs that have them."""
    axes = figure.subplots()
    for i, (name, run) in enumerate(zip(report.names, report.runs, strict=True)):
        points = [(record.step, record.score) for record in run.log() if record.score is not None]
        if points:
            _line(axes, i, name, points)
    _finish(axes, "iteration", f"validation {_watched(report)}")
    axes.legend(frameon=False)


def _line(axes: Axes, i: int, name: str, points: list[tuple[int, float]]) -> None:
    style = "o-" if len(points) <= 20 else "-"  # a single point needs a mark to be seen
    steps, values = np.array(points).reshape(-1, 2).T
    axes.plot(steps, values, style, color=COLORS[i % len(COLORS)], ms=3.5, lw=1.6, label=name)


def _finish(axes: Axes, x: str, y: str) -> None:
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25)
    axes.set_axisbelow(True)


def _svg(
    report: Report, name: str, draw: Callable[[Report, Figure], None], height: float, title: str
) -> str:
    """A figure as an element of a page: its own ids, the page's ink, no fixed size."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    buffer = io.StringIO()
    nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(8, height), layout="constrained")
        draw(report, figure)
        figure.savefig(buffer, format="svg", transparent=True, metadata=nothing)
    text = buffer.getvalue()
    text = text[text.index("<svg") :]
    text = re.sub(r"<metadata>.*?</metadata>", "", text, flags=re.DOTALL)
    text = re.sub(r'\bid="', f'id="{name}-', text)
    text = text.replace("url(#", f"url(#{name}-").replace('href="#', f'href="#{name}-')
    for size in ("height", "width"):
        text = re.sub(rf'(<svg[^>]*?) {size}="[^"]*"', r"\1", text, count=1)
    text = text.replace(_INK, "currentColor")
    label = f'<svg role="img" aria-label="{escape(title)}" class="figure" id="figure-{name}"'
    return text.replace("<svg", label, 1)
