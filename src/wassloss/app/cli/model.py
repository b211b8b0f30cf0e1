"""`wassloss evaluate`, `predict`, `report` and `export`: the commands for a saved model."""

from __future__ import annotations

import io
import json
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from wassloss.app.cli._interrupt import loading
from wassloss.app.cli._terminal import option, say, score_table

if TYPE_CHECKING:
    from wassloss.app.fingerprints import Overlap

EVALUATE_EXAMPLE = "Example: wassloss evaluate wine.wassloss more.csv --json"
PREDICT_EXAMPLE = "Example: wassloss predict wine.wassloss new.csv --top 3 --out answers.csv"
EXPORT_EXAMPLE = "Example: wassloss export wine.wassloss --onnx wine.onnx"
REPORT_EXAMPLE = "Example: wassloss report ce.wassloss wine.wassloss --out report.html"
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # first characters of a cell that a spreadsheet runs
_Model = Annotated[
    Path, typer.Argument(help="A model from train or compare, or a saved classifier.")
]


def evaluate(
    model: _Model,
    data: Annotated[
        str | None,
        typer.Argument(
            help="The table to score on, as for train; by default the rows that train held out."
        ),
    ] = None,
    part: Annotated[
        str | None,
        option("The part to score on; by default test, else validation, else all rows."),
    ] = None,
    label_column: Annotated[
        str | None, option("The column of the labels; by default that of the model, or label.")
    ] = None,
    as_json: Annotated[bool, option("Print JSON instead of a table.", "--json")] = False,
) -> None:
    """Score a model: its accuracy, and how bad its mistakes are."""
    with loading():
        from wassloss.app import evaluation
        from wassloss.app.model import load_model

    opened = load_model(model)
    judging = evaluation.judge(opened, data, part, label_column)
    seen = judging.overlap
    if seen is not None and seen.seen:
        say(f"warning: {_seen(seen)}", err=True)
    if opened.classifier.decision == "least_cost":
        say(
            "note: scores are for the most probable labels; predict uses least expected cost",
            err=True,
        )
    found = evaluation.evaluate(opened, judging.examples)
    if as_json:
        count = None if seen is None else seen.seen
        about = {"model": str(model), "part": judging.part, "trained_on": count, **found.to_json()}
        say(json.dumps(about, indent=1))
    else:
        say(score_table(found, f"{model}, {judging.part or 'all'}: {found.count} examples"))


def _seen(found: Overlap) -> str:
    if found.by_chance:
        return f"{found} equal training rows of the model, no more than expected by chance"
    return f"{found} are training rows of the model: their scores say little about new rows"


def predict(
    model: _Model,
    data: Annotated[
        str,
        typer.Argument(help="A file, a folder of Parquet files, or clipart; it needs no labels."),
    ],
    top: Annotated[
        int | None, option("Labels per example; by default up to 5.", "--top", "-k", min=1)
    ] = None,
    decision: Annotated[
        Literal["most-probable", "least-cost"] | None,
        option(
            "most-probable, or least-cost: the label, or the set of --top labels, of least "
            "expected cost; by default, the model's own decision.",
            metavar="CHOICE",
        ),
    ] = None,
    part: Annotated[str | None, option("The part to predict; by default all rows.")] = None,
    escape_formulas: Annotated[
        bool,
        option(
            "Put a ' before labels that a spreadsheet would run as a formula, such as =1+1.",
            "--escape-formulas",
        ),
    ] = False,
    out: Annotated[
        Path | None,
        option(
            "The file to write, .csv or .parquet; by default, print CSV to the terminal.",
            "--out",
            "-o",
        ),
    ] = None,
) -> None:
    """Predict labels with their probabilities."""
    if out is not None and out.suffix.lower() not in (".csv", ".parquet"):
        raise typer.BadParameter(f"--out must end in .csv or .parquet, got {out}.")
    with loading():
        import numpy as np
        import pandas as pd

        from wassloss.app._files import check_replaceable
        from wassloss.app.examples import parts_of
        from wassloss.app.labels import plain
        from wassloss.app.model import load_model
        from wassloss.app.tables import read_table
        from wassloss.files import write_file

    if out is not None:
        check_replaceable(out, "a table of predictions", _is_answer)
    opened = load_model(model)
    if decision is not None:
        opened = opened.with_decision("probable" if decision == "most-probable" else "least_cost")
    names = {label: plain(label) for label in opened.classes_.tolist()}
    if top is not None and top > len(names):
        raise typer.BadParameter(
            f"--top must be at most {len(names)}, the number of labels, got {top}."
        )
    if escape_formulas:
        names = {
            label: f"'{name}" if isinstance(name, str) and name.startswith(_FORMULA) else name
            for label, name in names.items()
        }
    given = read_table(data)
    rows = np.arange(len(given))
    if part is not None:
        parts = parts_of(given.frame["part"]) if "part" in given.frame else {}
        if part not in parts:
            known = ", ".join(parts) or "none"
            raise ValueError(f"part must be a part of the data ({known}), got {part!r}")
        rows = parts[part]
    features = opened.features(replace(given, frame=given.frame.iloc[rows]))
    chosen = opened.classifier.predict_top(features, top or min(5, len(names)))
    chances = opened.classifier.predict_proba(features)
    place = {label: i for i, label in enumerate(names)}
    answers: dict[str, Any] = {"row": rows}
    for i, labels in enumerate(chosen.T.tolist(), 1):
        own = chances[np.arange(len(rows)), [place[label] for label in labels]]
        answers[f"label_{i}"] = [names[label] for label in labels]
        answers[f"probability_{i}"] = [float(f"{chance:.6g}") for chance in own]
    frame = pd.DataFrame(answers, dtype=object)  # 1 stays 1 among labels such as 0.5
    if out is None:
        sys.stdout.write(frame.to_csv(index=False, lineterminator="\n"))
        return
    content = io.BytesIO()
    if out.suffix.lower() == ".parquet":
        frame.infer_objects().to_parquet(content, index=False)
    else:
        frame.to_csv(content, index=False, lineterminator="\n")
    write_file(out, content.getvalue())
    say(f"{len(rows)} predictions: {out}", err=True)


def report(
    models: Annotated[list[Path], typer.Argument(help="Models from train or compare.")],
    out: Annotated[Path, option("The page to write.", "--out", "-o")] = Path("report.html"),
    data: Annotated[
        str | None,
        option("The table to score on; by default the rows that all models held out."),
    ] = None,
    part: Annotated[
        str | None, option("The part to score on; by default test, else validation.")
    ] = None,
) -> None:
    """Compare models on a self-contained HTML page: mistakes, scores and settings."""
    with loading():
        from wassloss.app.model import load_model
        from wassloss.app.report import check_page, models_report, write_report

    check_page(out)
    found = models_report([load_model(path) for path in models], data=data, part=part)
    write_report(found, out)
    say(f"{found.answer}\n")
    say(f"Report: {out.resolve()}")


def export(
    model: _Model,
    onnx: Annotated[Path, option("The file to write.")],
) -> None:
    """Export a model to ONNX, with its standardisation and its decision rule."""
    with loading():
        from wassloss.app._files import check_replaceable, is_exported
        from wassloss.app.model import load_model
        from wassloss.estimators import export_onnx

    check_replaceable(onnx, "a model", is_exported)
    export_onnx(load_model(model).classifier, onnx)
    say(f"{onnx}: features in, probabilities and label out")


def _is_answer(path: Path) -> bool:
    """Whether a file is a table that `predict` wrote."""
    from wassloss.app._files import begins

    first = ["row", "label_1", "probability_1"]
    if path.suffix.lower() == ".csv":
        return begins(",".join(first).encode())(path)
    import pyarrow
    import pyarrow.parquet

    try:
        found: list[str] = pyarrow.parquet.read_schema(path).names
    except pyarrow.ArrowInvalid:
        return False
    return found[: len(first)] == first
