"""`wassloss report`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wassloss.cli._options import checked_seed
from wassloss.cli._runs import opened_run
from wassloss.cli._tables import console
from wassloss.report import build_report, write_report

EXAMPLE = "Example: wassloss report runs/kl runs/w --out report.html"


def report(
    runs: Annotated[list[Path], typer.Argument(help="Directories of runs.")],
    out: Annotated[Path, typer.Option("--out", "-o", help="The page.")] = Path("report.html"),
    data: Annotated[
        str | None, typer.Option(help="What to judge them on; by default their own data.")
    ] = None,
    part: Annotated[
        str | None, typer.Option(help="Which examples; by default test, or validation.")
    ] = None,
    examples: Annotated[int, typer.Option(help="Examples to show side by side.", min=0)] = 12,
    seed: Annotated[
        int, typer.Option(help="Of the choice of examples.", callback=checked_seed)
    ] = 0,
) -> None:
    """Compare runs on one page that needs nothing else: curves, scores, log, examples, settings."""
    opened = [opened_run(run) for run in runs]
    page = build_report(opened, data=data, part=part, examples=examples, seed=seed)
    write_report(page, out)
    console().print(f"Report: {out.resolve()}")
