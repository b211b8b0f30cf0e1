"""`wassloss reproduce`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wassloss.cli._encoding import say

EXAMPLE = "Example: wassloss reproduce lattice relaxed --out results"


def reproduce(
    names: Annotated[
        list[str] | None, typer.Argument(help="Experiments, or all; nothing to list them.")
    ] = None,
    out: Annotated[
        Path, typer.Option("--out", "-o", help="Folder for JSON, figures and the page.")
    ] = Path("results"),
    full: Annotated[
        bool, typer.Option("--full", help="The paper's own sizes: hours rather than minutes.")
    ] = False,
) -> None:
    """Compute the paper's results again, draw them, and say which claims held."""
    from wassloss.reproduce import EXPERIMENTS
    from wassloss.reproduce import reproduce as run

    if not names:
        for experiment in EXPERIMENTS.values():
            say(f"{experiment.name:10} {experiment.figure:20} {experiment.claim}")
        return
    chosen = "all" if "all" in names else names
    try:
        run(chosen, out, full=full, say=lambda line: say(line, err=True))
    except ValueError as error:
        if not set(names) <= {*EXPERIMENTS, "all"}:
            raise typer.BadParameter(str(error)) from error
        raise
    say(f"Page: {(out / 'index.html').resolve()}")
