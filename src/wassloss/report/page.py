"""The page: a report as one HTML file that fetches nothing."""

from __future__ import annotations

import os
from functools import partial
from pathlib import Path

from wassloss import __version__
from wassloss._files import write_file
from wassloss.report import figures
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
    groups = [] if report.truth is None else figures.neighbours(report.metric)
    matrices = [
        (f"confusion-{i}", f"Answers of {name}", partial(figures.draw_confusion, report, groups, i))
        for i, name in enumerate(report.names if groups else ())
    ]
    return environment.get_template("page.html.jinja").render(
        report=report,
        style=(_HERE / "style.css").read_text(encoding="utf-8"),
        version=__version__,
        dot=lambda i: disc.format(figures.color(i)),
        distances=figures.svg(
            "distances", "How far off answers are", partial(figures.draw_distances, report)
        ),
        frontier=figures.svg(
            "frontier", "Accuracy and mean distance", partial(figures.draw_frontier, report)
        ),
        groups=groups,
        matrices=[figures.svg(*matrix, height=5.0) for matrix in matrices],
    )
