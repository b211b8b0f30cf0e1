"""`wassloss evaluate`, `predict`, `report` and `export`: what can be done with a run."""

from __future__ import annotations

import csv
import io
import json
import sys
from pathlib import Path
from typing import Annotated, Literal

import numpy as np
import typer

from wassloss._files import begins, check_replaceable, write_file
from wassloss.app.cli._terminal import option, say, score_table
from wassloss.data._arrow import import_pyarrow
from wassloss.data.files import read_wanted
from wassloss.data.fingerprints import Overlap
from wassloss.data.labels import plain
from wassloss.data.table import Wanted
from wassloss.estimators import export_onnx
from wassloss.estimators.onnx import is_exported
from wassloss.app.report import check_page, runs_report, write_report
from wassloss.runs import evaluation
from wassloss.runs.directory import open_run

EVALUATE_EXAMPLE = "Example: wassloss evaluate runs/w clipart --json"
PREDICT_EXAMPLE = "Example: wassloss predict runs/w new.csv --top 3 --out answers.csv"
EXPORT_EXAMPLE = "Example: wassloss export cmp --onnx model.onnx"
REPORT_EXAMPLE = "Example: wassloss report runs/kl runs/w --out report.html"
_FORMULA = ("=", "+", "-", "@", "\t", "\r")  # how a cell begins that a spreadsheet may run
_Run = Annotated[Path, typer.Argument(help="What train or compare wrote, or a saved classifier.")]


def evaluate(
    run: _Run,
    data: Annotated[
        str | None,
        typer.Argument(help="As for train; by default what a run of train held out of its own."),
    ] = None,
    part: Annotated[
        str | None,
        option(
            "Which examples; by default test, or validation, or all where the data have no parts."
        ),
    ] = None,
    label_column: Annotated[
        str | None, option("Of a table; by default that of the run, or label.")
    ] = None,
    as_json: Annotated[bool, option("Print JSON instead of a table.", "--json")] = False,
) -> None:
    """Score a run: how often it is right, and how far off it is."""
    opened = open_run(run)
    given, part, *_ = evaluation.data_for(opened, data, part, label_column)
    seen = evaluation.trained_on(opened, given.features.numpy())
    if seen is not None and seen.seen:
        say(f"warning: {_seen(seen)}", err=True)
    if opened.model.decision == "least_cost":
        say(
            "note: guesses are the most probable labels; predict answers by least expected cost",
            err=True,
        )
    found = evaluation.evaluate(opened, given)
    if as_json:
        count = None if seen is None else seen.seen
        about = {"run": str(run), "part": part, "trained_on": count, **found.to_json()}
        say(json.dumps(about, indent=1))
    else:
        say(score_table(found, f"{run}, {part or 'all'}: {found.count} examples"))


def _seen(found: Overlap) -> str:
    if found.by_chance:
        return f"{found} equal ones that the run was trained on, no more than chance explains"
    return f"{found} are ones that the run was trained on: scores on them say little about others"


def predict(
    run: _Run,
    data: Annotated[
        str, typer.Argument(help="A file or a folder of Parquet, which need no labels, or clipart.")
    ],
    top: Annotated[
        int | None, option("Labels for each example; by default up to 5.", "--top", "-k", min=1)
    ] = None,
    decision: Annotated[
        Literal["most-probable", "least-cost"] | None,
        option(
            "least-cost: the label or, for --top 2 and more, the set of labels of least expected "
            "cost. By default most-probable, or what a comparison found better."
        ),
    ] = None,
    part: Annotated[str | None, option("Which examples; by default all.")] = None,
    escape_formulas: Annotated[
        bool,
        option(
            "Put a ' before labels that a spreadsheet would take for a formula, such as =1+1.",
            "--escape-formulas",
        ),
    ] = False,
    out: Annotated[
        Path | None,
        option(".csv or .parquet; by default CSV to the terminal.", "--out", "-o"),
    ] = None,
) -> None:
    """Predict labels with their probabilities."""
    if out is not None and out.suffix.lower() not in (".csv", ".parquet"):
        raise typer.BadParameter(f"--out must end in .csv or .parquet, got {out}.")
    if out is not None:
        check_replaceable(out, "a table of predictions", _is_answer)
    opened = open_run(run)
    model = opened.model
    if decision is not None:
        model.decision = "probable" if decision == "most-probable" else "least_cost"
    names = [plain(label) for label in model.classes_.tolist()]
    if top is not None and top > len(names):
        raise typer.BadParameter(
            f"--top must be at most {len(names)}, the number of labels, got {top}."
        )
    if escape_formulas:
        names = [
            f"'{name}" if isinstance(name, str) and name.startswith(_FORMULA) else name
            for name in names
        ]
    given = read_wanted(data, Wanted.like(opened.columns, labelled=False))
    rows = np.arange(len(given)) if part is None else given._rows_of(part).numpy()
    x = given.features.numpy()[rows]
    chosen = model._chosen(x, top or min(5, len(names)))
    chances = np.take_along_axis(model.predict_proba(x), chosen, axis=1)
    answers = {"row": rows.tolist()}
    for i, (ids, own) in enumerate(zip(chosen.T.tolist(), chances.T.tolist(), strict=True), 1):
        answers[f"label_{i}"] = [names[j] for j in ids]
        answers[f"probability_{i}"] = [float(f"{chance:.6g}") for chance in own]
    if out is not None and out.suffix.lower() == ".parquet":
        pa = import_pyarrow()
        content = pa.BufferOutputStream()
        pa.parquet.write_table(pa.table(answers), content)
        write_file(out, content.getvalue().to_pybytes())
    else:
        text = io.StringIO()
        writer = csv.writer(text, lineterminator="\n")
        writer.writerow(answers)
        writer.writerows(zip(*answers.values(), strict=True))
        if out is None:
            sys.stdout.write(text.getvalue())
            return
        write_file(out, text.getvalue().encode())
    say(f"{len(rows)} predictions: {out}", err=True)


def report(
    runs: Annotated[list[Path], typer.Argument(help="What train or compare wrote.")],
    out: Annotated[Path, option("The page.", "--out", "-o")] = Path("report.html"),
    data: Annotated[str | None, option("What to judge them on; by default their own data.")] = None,
    part: Annotated[str | None, option("Which examples; by default test, or validation.")] = None,
) -> None:
    """Compare runs on one page that needs nothing else: mistakes, scores, training, settings."""
    check_page(out)
    found = runs_report([open_run(run) for run in runs], data=data, part=part)
    write_report(found, out)
    say(f"{found.answer}\n")
    say(f"Report: {out.resolve()}")


def export(
    run: _Run,
    onnx: Annotated[Path, option("The file to write.")],
) -> None:
    """Write a model as an ONNX file that standardises, predicts and decides by itself."""
    check_replaceable(onnx, "a model", is_exported)
    export_onnx(open_run(run).model, onnx)
    say(f"{onnx}: features in, probabilities and label out")


def _is_answer(path: Path) -> bool:
    """Whether a file is a table that `predict` wrote."""
    first = ["row", "label_1", "probability_1"]
    if path.suffix.lower() == ".csv":
        return begins(",".join(first).encode())(path)
    pa = import_pyarrow()
    try:
        found: list[str] = pa.parquet.read_schema(path).names
    except pa.ArrowInvalid:
        return False
    return found[: len(first)] == first
