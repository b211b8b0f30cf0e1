"""`wassloss export`: a model for where wassloss is not."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wassloss.cli._terminal import option, say
from wassloss.estimators import export_onnx
from wassloss.runs.trained import open_run

EXAMPLE = "Example: wassloss export cmp --onnx model.onnx"


def export(
    run: Annotated[Path, typer.Argument(help="What train or compare wrote, or a saved estimator.")],
    onnx: Annotated[Path, option("The file to write.")],
) -> None:
    """Write a model as an ONNX file that standardises, predicts and decides by itself."""
    export_onnx(open_run(run).model, onnx)
    say(f"{onnx}: features in, probabilities, label and least_cost_label out")
