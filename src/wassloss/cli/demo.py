"""`wassloss demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import torch
import typer
from rich.table import Table

from wassloss.cli._tables import console

EXAMPLE = "Example: wassloss demo --out wassloss-demo"


def demo(
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Directory for the runs and the report.")
    ] = Path("wassloss-demo"),
    seeds: Annotated[int, typer.Option(help="How often to train each.", min=1)] = 5,
    quick: Annotated[
        bool, typer.Option("--quick", help="Few steps, to see that it works: not a result.")
    ] = False,
) -> None:
    """Train on clip art with and without a Wasserstein loss, and compare: a minute or so."""
    from wassloss.demo import run_demo

    screen = console()
    torch.set_num_threads(1)  # batches this small only make threads wait for each other
    found = run_demo(out, seeds=seeds, quick=quick, say=screen.print)
    table = Table(title=f"\n{found.comparison.title}", box=None, padding=(0, 1, 0, 0))
    table.title_justify = "left"
    for i, name in enumerate(found.comparison.header):
        table.add_column(name, justify="right" if 0 < i < 5 else "left", no_wrap=True)
    for row in found.comparison.rows:
        table.add_row(*(cell.replace("[", r"\[") for cell in row))
    screen.print(table)
    for note in found.comparison.notes:
        screen.print(f"\n{note}")
    screen.print(f"\nReport: {found.report.resolve()}")
