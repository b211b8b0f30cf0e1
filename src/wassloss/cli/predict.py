"""`wassloss predict`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import typer

from wassloss.cli._encoding import escape_what_is_missing, say
from wassloss.cli._errors import usage
from wassloss.cli._predictions import FORMATS, Prediction, csv_text, write_predictions
from wassloss.cli._runs import opened_run
from wassloss.estimators.model_file import decide
from wassloss.runs.features import features_to_predict

EXAMPLE = "Example: wassloss predict runs/w new.csv --top 3 --out answers.csv"


def predict(
    run: Annotated[Path, typer.Argument(help="The directory of a run.")],
    data: Annotated[
        str, typer.Argument(help="A file or a folder of Parquet, which need no labels, or clipart.")
    ],
    top: Annotated[
        int | None,
        typer.Option("--top", "-k", help="Labels for each example; by default up to 5.", min=1),
    ] = None,
    decision: Annotated[
        Literal["most-probable", "least-cost"],
        typer.Option(
            help="least-cost: the label or, for --top 2 and more, the set of labels of least "
            "expected cost."
        ),
    ] = "most-probable",
    part: Annotated[str | None, typer.Option(help="Which examples; by default all.")] = None,
    label_column: Annotated[
        str | None,
        typer.Option(help="A column that is no feature; by default that of the run, or label."),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help=f"{', '.join(FORMATS)}; by default CSV to the terminal."),
    ] = None,
) -> None:
    """Predict labels with their probabilities."""
    if out is not None and out.suffix.lower() not in FORMATS:
        raise usage(f"--out must end in one of {', '.join(FORMATS)}, got {out}.")
    opened = opened_run(run)
    if top is not None and top > opened.metric.size:
        raise usage(f"--top must be at most {opened.metric.size}, the number of labels, got {top}.")
    k = min(5, opened.metric.size) if top is None else top
    rule = "probable" if decision == "most-probable" else "least_cost"
    predictions = []
    for rows, features in features_to_predict(opened, data, part, label_column):
        p = opened.predict_proba(features)
        labels = decide(p, opened.metric, k, rule)
        chances = p.gather(1, labels)
        own = zip(rows, labels.tolist(), chances.tolist(), strict=True)
        predictions += [
            Prediction(row, [opened.label(i) for i in ids], chance) for row, ids, chance in own
        ]
    if out is None:
        escape_what_is_missing()
        sys.stdout.write(csv_text(predictions))
        return
    write_predictions(predictions, out)
    say(f"{len(predictions)} predictions: {out}", err=True)
