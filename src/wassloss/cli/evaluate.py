"""`wassloss evaluate`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from wassloss._files import replacing
from wassloss.cli._encoding import say
from wassloss.cli._runs import opened_run
from wassloss.cli._tables import console, score_table
from wassloss.data._inputs import part_name
from wassloss.runs.evaluation import evaluate as score
from wassloss.runs.judging import inputs_for

EXAMPLE = "Example: wassloss evaluate runs/w clipart --json"


def evaluate(
    run: Annotated[Path, typer.Argument(help="The directory of a run.")],
    data: Annotated[
        str | None, typer.Argument(help="As for train; by default the run's own.")
    ] = None,
    part: Annotated[
        str | None,
        typer.Option(
            help="Which examples; by default test, or validation, or all where the data have no "
            "parts."
        ),
    ] = None,
    label_column: Annotated[
        str | None, typer.Option(help="Of a table; by default that of the run, or label.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
    out: Annotated[
        Path | None, typer.Option("--out", "-o", help="Also write the JSON to a file.")
    ] = None,
) -> None:
    """Score a run: how often it is right, and how far off it is."""
    opened = opened_run(run)
    inputs = inputs_for(opened, data, label_column)
    if part is None and (inputs.parts or data is None):
        part = inputs.held_out()
    part = None if part is None else part_name(part)
    if part is None and inputs.own:
        say("warning: these are the examples that the run was trained on", err=True)
    found = score(opened, inputs.batches(part))
    answer = {"run": str(run), "part": part, "finished": opened.finished, **found.to_json()}
    if out is not None:
        with replacing(out) as temporary:
            temporary.write_text(json.dumps(answer, indent=1) + "\n")
    if as_json:
        say(json.dumps(answer, indent=1))
        return
    which = f"{run}, {part or 'all'}: {len(found)} examples"
    if not opened.finished:
        which += " (stopped before its end; the newest checkpoint)"
    console().print(score_table(found, which))
