"""Tables in the terminal."""

from __future__ import annotations

import math

from rich.console import Console
from rich.table import Table

from wassloss.runs.evaluation import MEANING, ExampleScores


def console() -> Console:
    """Standard output as it is now."""
    return Console(highlight=False, soft_wrap=True)


def score_table(found: ExampleScores, title: str) -> Table:
    """A run's scores with their standard errors; ↑ marks those of which more is better."""
    table = Table(title=title, title_justify="left", box=None, padding=(0, 2, 0, 0))
    table.add_column("score")
    table.add_column("mean", justify="right")
    table.add_column("± s.e.", justify="right")
    table.add_column("", justify="left")
    for name in found.values:
        better, meaning = MEANING[name]
        table.add_row(
            f"{name} {'↑' if better else '↓'}",
            number(found.mean(name)),
            number(found.standard_error(name)),
            meaning,
        )
    return table


def number(value: float) -> str:
    """Four digits after the point, or a dash for none."""
    return "–" if math.isnan(value) else f"{value:.4f}"
