"""The page: a report's numbers and figures as one HTML file that fetches nothing."""

from __future__ import annotations

import io
import os
import re
from collections.abc import Callable, Iterable, Iterator
from html import escape
from itertools import cycle
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from wassloss import __version__
from wassloss._files import write_file
from wassloss.losses.modules import EPSILON, KL_WEIGHT
from wassloss.models import describe
from wassloss.report.content import Report
from wassloss.runs import TrainedRun
from wassloss.runs.evaluation import MEANING
from wassloss.training.log import Record

if TYPE_CHECKING:
    from jinja2 import Environment
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HERE = Path(__file__).parent
WIDTH = 5.6  # inches of a figure; on a telephone its letters are then as large as in print
_T = TypeVar("_T")

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


def environment() -> Environment:
    """The templates next to this file, with what all pages share."""
    from jinja2 import Environment, FileSystemLoader, StrictUndefined
    from markupsafe import Markup

    made = Environment(
        loader=FileSystemLoader(HERE),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        keep_trailing_newline=True,
    )
    made.globals["style"] = (HERE / "style.css").read_text(encoding="utf-8")
    made.globals["version"] = __version__
    disc = Markup('<span class="dot" style="color:{}">●</span>\u00a0')
    made.globals["dot"] = lambda i: disc.format(COLORS[i % len(COLORS)])
    return made


def render(report: Report) -> str:
    """The page as text."""
    means = {name: [s.mean(name) for s in report.scores] for name in report.scores[0].values}
    configs = [_settings(run) for run in report.runs]
    names = dict.fromkeys(name for config in configs for name in config)
    settings = [(name, [config.get(name, "–") for config in configs]) for name in names]
    return (
        environment()
        .get_template("page.html.jinja")
        .render(
            report=report,
            meanings=MEANING,
            metrics={repr(run.metric.with_cost(power=1.0, scale=None)) for run in report.runs},
            best={name: max(own) if MEANING[name][0] else min(own) for name, own in means.items()},
            figures=_figures(report),
            differing=[(name, values) for name, values in settings if len(set(values)) > 1],
            shared=[(name, values) for name, values in settings if len(set(values)) == 1],
        )
    )


def _settings(run: TrainedRun) -> dict[str, str]:
    """Settings, model, metric and versions of a run as words; parameters of other classifiers."""
    config, params = run.config, run.model.get_params(deep=False)
    shown: dict[str, Any] = dict(config.get("settings", params))
    shown.pop("classes", None)
    if shown.get("loss") == "wasserstein":
        for name, default in (("epsilon", EPSILON), ("kl_weight", KL_WEIGHT)):
            if shown[name] is None:
                shown[name] = f"{default:g} (default)"
    shown["model"] = ", ".join(f"{k} {v}" for k, v in (describe(run.model.model_) or {}).items())
    shown["metric"] = repr(run.metric)
    shown |= {f"{name} version": value for name, value in config.get("versions", {}).items()}
    shown |= {"started": config.get("started"), "finished": run.finished}
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
    """The figures as SVG; that of validation scores only if runs that have them watch the same."""
    panels = 2.6 * -(-len(report.runs) // 2)
    figures = {
        "topk": svg(report, "topk", "Top-k cost of each run for k = 1 and more", draw_top_k),
        "mass": svg(report, "mass", "Predicted mass by distance from the truth", draw_mass),
        "loss": svg(report, "loss", "Training loss of each run", draw_losses, panels),
    }
    watched = {run.settings.score for run in report.runs if run.settings and _validated(run)}
    if len(watched) == 1 and watched != {"loss"}:
        title = "Validation score of each run while it trained"
        figures["validation"] = svg(report, "validation", title, draw_validation)
    return figures


def draw_top_k(report: Report, figure: Figure) -> None:
    """Curves of top-k cost, with bands of one standard error over examples."""
    axes = figure.subplots()
    k = np.arange(1, report.scores[0].curve.shape[1] + 1)
    for color, name, scores in _runs(report, report.scores):
        curve = scores.curve.mean(0)
        _line(axes, k, curve, color, name)
        if len(scores) > 1:
            half = scores.curve.std(0, ddof=1) / len(scores) ** 0.5
            axes.fill_between(k, curve - half, curve + half, color=color, alpha=0.15, lw=0)
    axes.set_xticks(k if len(k) <= 10 else [1, *range(5, len(k) + 1, 5)])
    finish(axes, "k, number of guesses", "mean distance to the nearest true label")


def draw_mass(report: Report, figure: Figure) -> None:
    """A bar for each distance from the truth and each run; grey lines are mass spread evenly."""
    axes, mass = figure.subplots(), report.mass
    places, width = np.arange(len(mass.ticks)), 0.8 / len(report.runs)
    left = places - (len(report.runs) - 1) / 2 * width
    for color, name, shares in _runs(report, mass.shares):
        axes.bar(left, 100 * shares, width * 0.92, color=color, label=name)
        left = left + width
    sides = (places - 0.44, places + 0.44)
    axes.hlines(100 * mass.even, *sides, colors=GREY, linewidth=1.6, label="spread evenly")
    axes.set_xticks(places, mass.ticks, fontsize=8 if len(mass.ticks) > 8 else 10)
    finish(axes, "distance to the nearest true label", "% of the predicted mass")


def draw_losses(report: Report, figure: Figure) -> None:
    """The loss of each run in a panel of its own, because their units differ."""
    count = len(report.runs)
    panels = figure.subplots(-(-count // 2), min(2, count), squeeze=False).reshape(-1)
    for axes in panels[count:]:
        axes.set_visible(False)
    for axes, (color, name, run) in zip(panels, _runs(report, report.runs), strict=False):
        log = run.log()
        _line(axes, [r.step for r in log], [r.loss for r in log], color, name)
        axes.set_title(name, fontsize=10, loc="left")
        finish(axes, "iteration", "loss", legend=False)


def draw_validation(report: Report, figure: Figure) -> None:
    """Validation scores over the steps, of the runs that have them."""
    axes = figure.subplots()
    for color, name, run in _runs(report, report.runs):
        if run.settings and (log := _validated(run)):
            _line(axes, [r.step for r in log], [r.score for r in log], color, name)
            finish(axes, "iteration", f"validation {run.settings.score}")


def _runs(report: Report, values: Iterable[_T]) -> Iterator[tuple[str, str, _T]]:
    """The colour and the name of each run, with a value of its own."""
    return zip(cycle(COLORS), report.names, values, strict=False)


def _validated(run: TrainedRun) -> list[Record]:
    return [record for record in run.log() if record.score is not None]


def _line(axes: Axes, x: Any, y: Any, color: str, name: str) -> None:
    style = "o-" if len(x) <= 20 else "-"  # a single point needs a mark to be seen
    axes.plot(x, y, style, color=color, ms=3.5, lw=1.6, label=name)


def finish(axes: Axes, x: str, y: str, legend: bool = True) -> None:
    """Name the axes and clear away what a page does not need."""
    axes.set_xlabel(x)
    axes.set_ylabel(y)
    axes.spines[["top", "right"]].set_visible(False)
    axes.grid(axis="y", alpha=0.25)
    axes.set_axisbelow(True)
    if legend:
        axes.legend(frameon=False)


def svg(
    report: _T,
    name: str,
    title: str,
    draw: Callable[[_T, Figure], None],
    height: float = 3.4,
) -> str:
    """A figure as an element of a page: its own ids, the page's ink, no fixed size."""
    import matplotlib as mpl
    from matplotlib.figure import Figure

    buffer = io.StringIO()
    nothing = {"Date": None, "Creator": None, "Format": None, "Type": None}
    with mpl.rc_context(_STYLE):
        figure = Figure(figsize=(WIDTH, height), layout="constrained")
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
