"""`wassloss export`: a model for where wassloss is not."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wassloss import runs
from wassloss.cli._terminal import option, say
from wassloss.cli.compare import read_model
from wassloss.estimators import export_onnx
from wassloss.runs.directory import TABLE

EXAMPLE = "Example: wassloss export cmp --onnx model.onnx"


def export(
    run: Annotated[Path, typer.Argument(help="What train or compare wrote, or a saved estimator.")],
    onnx: Annotated[Path, option("The file to write.")],
) -> None:
    """Write a model as an ONNX file that standardises, predicts and decides by itself."""
    if (run / TABLE).exists():
        model, raw, _ = read_model(run)
        names, state = raw.feature_names, raw.state()
        export_onnx(model, onnx, feature_names=names, preprocessing=state)
    else:
        export_onnx(runs.load(run), onnx)
    say(f"{onnx}: features in, probabilities, label and least_cost_label out")
