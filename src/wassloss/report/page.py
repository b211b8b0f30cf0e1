"""The page: a report's numbers and figures as one HTML file that fetches nothing."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

from wassloss import __version__, plots
from wassloss._files import replacing
from wassloss.report.content import Report
from wassloss.report.figures import mass_figure, top_k_figure, training_figure, validation_figure
from wassloss.runs.evaluation import MEANING

HERE = Path(__file__).parent


def write_report(report: Report, path: str | os.PathLike[str]) -> None:
    """Write the page; if writing fails, a page that was there before stays as it was."""
    page = render(report)
    with replacing(path) as temporary:
        temporary.write_text(page, encoding="utf-8")


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
    settings = _settings(report)
    return pages.get_template("page.html.jinja").render(
        report=report,
        scores=[_score(name, report) for name in report.scores[0].values],
        figures={
            "top_k": top_k_figure(report),
            "mass": mass_figure(report),
            "training": training_figure(report),
            "validation": validation_figure(report) or "",
        },
        differing=[(name, values) for name, values in settings if len(set(values)) > 1],
        shared=[(name, values) for name, values in settings if len(set(values)) == 1],
        colors=plots.COLORS,
        style=(HERE / "style.css").read_text(encoding="utf-8"),
        version=__version__,
    )


def _score(name: str, report: Report) -> dict[str, Any]:
    """A row of the table of scores."""
    more, meaning = MEANING[name]
    means = [scores.mean(name) for scores in report.scores]
    return {
        "name": name,
        "meaning": meaning,
        "more": more,
        "arrow": "↑" if more else "↓",
        "best": max(means) if more else min(means),
    }


def _settings(report: Report) -> list[tuple[str, list[str]]]:
    """Each setting with its value in every run."""
    names = dict.fromkeys(name for config in report.configs for name in config)
    return [(name, [config.get(name, "–") for config in report.configs]) for name in names]
