"""The page: a report as one HTML file that fetches nothing."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from wassloss import __version__
from wassloss._files import write_file
from wassloss.report.figures import (
    color,
    draw_confusion,
    draw_distances,
    draw_frontier,
    draw_losses,
    draw_top_k,
    svg,
)
from wassloss.report.record import Report

_HERE = Path(__file__).parent


def write_report(report: Report, path: str | os.PathLike[str]) -> None:
    """Write the page; if writing fails, a page that was there before stays as it was."""
    write_file(path, render(report).encode())


def render(report: Report) -> str:
    """The page as text."""
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
    settings = report.settings
    return environment.get_template("page.html.jinja").render(
        report=report,
        style=(_HERE / "style.css").read_text(encoding="utf-8"),
        version=__version__,
        dot=lambda i: disc.format(color(i)),
        figures=_figures(report),
        matrices=_matrices(report),
        differing=[(name, values) for name, values in settings if len(set(values)) > 1],
        shared=[(name, values) for name, values in settings if len(set(values)) == 1],
    )


def _figures(report: Report) -> dict[str, str]:
    """The pictures that there is something for, by name."""
    drawn = {"distances": ("How far off answers are", draw_distances)}
    if len(report.candidates) > 1:
        drawn["frontier"] = ("Accuracy and mean distance", draw_frontier)
    if report.curves:
        drawn["topk"] = ("Top-k cost for k = 1 and more", draw_top_k)
    if report.logs:
        drawn["loss"] = ("Training loss", draw_losses)
    return {name: svg(name, title, partial(draw, report)) for name, (title, draw) in drawn.items()}


def _matrices(report: Report) -> list[str]:
    names = report.names if report.truth is not None else ()
    return [
        svg(f"confusion-{i}", f"Answers of {name}", partial(draw_confusion, report, i), height=5.0)
        for i, name in enumerate(names)
    ]
