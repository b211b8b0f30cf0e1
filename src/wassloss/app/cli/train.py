"""`wassloss train`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

import typer

from wassloss.app.cli._interrupt import loading
from wassloss.app.cli._options import (
    CLASSIFIER,
    METRIC,
    OVERWRITE,
    TABLE,
    check_model,
    parsed,
    with_options,
)
from wassloss.app.cli._terminal import option, say, score_table

EXAMPLE = (
    "Example: wassloss train wine.csv --label-column grade --metric ordinal "
    "--order poor,fair,good --test 0.2 --out wine.wassloss"
)


@with_options(Data_and_labels=TABLE, Classifier=CLASSIFIER)
def train(
    data: Annotated[
        str,
        typer.Argument(
            help="A file (.csv, .parquet), a folder of Parquet files, or clipart, the built-in "
            "drawings."
        ),
    ],
    out: Annotated[Path, option("The model file to write.", "--out", "-o")] = Path(
        "model.wassloss"
    ),
    overwrite: Annotated[bool, OVERWRITE] = False,
    metric: Annotated[str | None, METRIC] = None,
    test: Annotated[
        float,
        option("The share of rows to hold out and score, unless the table has a part test."),
    ] = 0.0,
    seed: Annotated[int, option("Random seed for the split and the model.", min=0)] = 0,
    device: Annotated[
        str, option("Where to train: cpu, cuda, cuda:1 or mps; auto uses a GPU if available.")
    ] = "auto",
    **options: Any,
) -> None:
    """Fit a classifier to a table and write it to one file.

    Nothing is written before the fit is complete: if it is interrupted, run it again.
    """
    check_model(out, overwrite)
    with loading():
        import torch

        from wassloss.app.examples import ReadOptions
        from wassloss.app.tables import read_table
        from wassloss.app.training import fit_table

    if device == "auto":
        device = "cuda" if torch.cuda.is_available() else "cpu"
    fitted = fit_table(
        read_table(data),
        metric,
        options=ReadOptions(**parsed(TABLE, options)),
        params=parsed(CLASSIFIER, options),
        test=test,
        seed=seed,
        device=device,
    )
    check_model(out, overwrite)  # a file may have appeared meanwhile
    fitted.model.save(out)
    for part, scores in list(fitted.scores.items())[-1:]:  # the test part, if there is one
        say(score_table(scores, f"{part}: {scores.count} examples"))
    if not fitted.scores:
        say("No rows were held out to score the model on; --test 0.2 holds out a fifth.")
    say(f"Fitted in {fitted.seconds:.1f} s. Use it: wassloss predict {out} NEW.csv")
