"""`wassloss predict`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Literal

import torch
import typer
from torch import Tensor

from wassloss import data as data_sets
from wassloss import scores
from wassloss.cli._errors import usage
from wassloss.cli._predictions import FORMATS, Prediction, csv_text, write_predictions
from wassloss.runs import TrainedRun, open_run
from wassloss.runs.inputs import BUILT_IN, padded_features, rows_at_once

EXAMPLE = "Example: wassloss predict runs/w new.csv --top 3 --out answers.csv"


def predict(
    run: Annotated[Path, typer.Argument(help="The directory of a run.")],
    data: Annotated[str, typer.Argument(help="A file, which needs no labels, or clipart.")],
    top: Annotated[int, typer.Option("--top", "-k", help="Labels for each example.", min=1)] = 5,
    decision: Annotated[
        Literal["most-probable", "least-cost"],
        typer.Option(
            help="least-cost: the label or, for --top 2 and more, the set of labels of least "
            "expected cost."
        ),
    ] = "most-probable",
    part: Annotated[str | None, typer.Option(help="Which examples; by default all.")] = None,
    label_column: Annotated[
        str | None, typer.Option(help="A column that is no feature; by default label.")
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option("--out", "-o", help=f"{', '.join(FORMATS)}; by default CSV to the terminal."),
    ] = None,
) -> None:
    """Predict labels with their probabilities."""
    if out is not None and out.suffix.lower() not in FORMATS:
        raise usage(f"--out must end in one of {', '.join(FORMATS)}, got {out}.")
    opened = open_run(run)
    if top > opened.metric.size:
        raise usage(f"--top must be at most {opened.metric.size}, the number of labels, got {top}.")
    features, rows = _features(opened, data, part, label_column)
    predictions = []
    step = rows_at_once(opened.metric.size)
    for start in range(0, len(features), step):
        p = opened.logits(features[start : start + step]).softmax(1)
        labels = _decided(p, opened, top, decision)
        chances = p.gather(1, labels)
        own = zip(rows[start : start + step], labels.tolist(), chances.tolist(), strict=True)
        predictions += [
            Prediction(row, [opened.label(i) for i in ids], chance) for row, ids, chance in own
        ]
    if out is None:
        sys.stdout.write(csv_text(predictions))
        return
    write_predictions(predictions, out)
    typer.echo(f"{len(predictions)} predictions: {out}", err=True)


def _decided(p: Tensor, run: TrainedRun, k: int, decision: str) -> Tensor:
    if decision == "most-probable":
        return torch.as_tensor(scores.top_labels(p, k))
    metric = run.metric.to(dtype=p.dtype)
    if k == 1:
        return torch.as_tensor(scores.least_cost_label(p, metric)).unsqueeze(1)
    return torch.as_tensor(scores.least_cost_labels(p, metric, k))


def _features(
    run: TrainedRun, source: str, part: str | None, label_column: str | None
) -> tuple[Tensor, list[int]]:
    """Features, and the number of each row in the file."""
    column = label_column or run.settings.label_column
    if source not in BUILT_IN and part is None:
        features = data_sets.read_features(source, label_column=column)
        rows = list(range(len(features)))
    else:
        known = (
            BUILT_IN[source]()
            if source in BUILT_IN
            else data_sets.read(source, label_column=column)
        )
        rows = list(range(len(known)))
        if part is not None:
            known.part(part)  # for its error
            rows = known.parts[part].tolist()
        features = known.features[rows]
    return padded_features(features, run.features, source), rows
