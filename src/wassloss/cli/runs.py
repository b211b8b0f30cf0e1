"""`wassloss evaluate`, `predict` and `report`: what can be done with a run."""

from __future__ import annotations

import csv
import io
import json
import sys
from itertools import chain
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
import typer

from wassloss._files import replacing, write_file
from wassloss.cli._options import name_list
from wassloss.cli._terminal import option, say, score_table, set_missing_characters
from wassloss.data._arrow import import_pyarrow
from wassloss.data.files import columns, read_features
from wassloss.data.labels import plain
from wassloss.data.table import Wanted
from wassloss.report import runs_report, write_report
from wassloss.runs import evaluation
from wassloss.runs.trained import open_run

EVALUATE_EXAMPLE = "Example: wassloss evaluate runs/w clipart --json"
PREDICT_EXAMPLE = "Example: wassloss predict runs/w new.csv --top 3 --out answers.csv"
REPORT_EXAMPLE = "Example: wassloss report runs/kl runs/w --out report.html"
_FORMATS = (".csv", ".jsonl", ".parquet")
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
    out: Annotated[Path | None, option("Also write the JSON to a file.", "--out", "-o")] = None,
) -> None:
    """Score a run: how often it is right, and how far off it is."""
    opened = open_run(run)
    given, part, seen = evaluation.data_for(opened, data, part, label_column)
    if seen:
        say("warning: these are the examples that the run was trained on", err=True)
    if opened.model.decision == "least_cost":
        say(
            "note: guesses are the most probable labels; predict answers by least expected cost",
            err=True,
        )
    found = evaluation.evaluate(opened, given)
    text = json.dumps({"run": str(run), "part": part, **found.to_json()}, indent=1)
    if out is not None:
        write_file(out, f"{text}\n".encode())
    if as_json:
        say(text)
    else:
        say(score_table(found, f"{run}, {part or 'all'}: {len(found)} examples"))


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
    label_column: Annotated[
        str | None, option("A column that is no feature; by default that of the run, or label.")
    ] = None,
    keep: Annotated[
        str | None, option("Columns of the table to copy to the answers, such as id,name.")
    ] = None,
    out: Annotated[
        Path | None,
        option(f"{', '.join(_FORMATS)}; by default CSV to the terminal.", "--out", "-o"),
    ] = None,
) -> None:
    """Predict labels with their probabilities."""
    kept = name_list(keep)
    if clash := sorted({"row", "labels", "probabilities"} & set(kept)):
        raise typer.BadParameter(f"--keep must not name {clash[0]}, which the answers have.")
    if out is not None and out.suffix.lower() not in _FORMATS:
        raise typer.BadParameter(f"--out must end in one of {', '.join(_FORMATS)}, got {out}.")
    copies = columns(data, kept) if kept else {}
    k, predictions = _predicted(run, data, top, decision, part, label_column)
    predictions = _with_columns(predictions, copies)
    if out is None:
        set_missing_characters("backslashreplace")
        sys.stdout.write(_csv(predictions, k))
        return
    _write(predictions, k, out)
    say(f"{len(predictions)} predictions: {out}", err=True)


def _predicted(
    path: Path,
    data: str,
    top: int | None,
    decision: str | None,
    part: str | None,
    label_column: str | None,
) -> tuple[int, list[dict[str, Any]]]:
    """How many labels each row gets, and the rows."""
    opened = open_run(path)
    model = opened.model
    if decision is not None:
        model.decision = "probable" if decision == "most-probable" else "least_cost"
    names = [plain(label) for label in model.classes_.tolist()]
    if top is not None and top > len(names):
        raise typer.BadParameter(
            f"--top must be at most {len(names)}, the number of labels, got {top}."
        )
    k = top or min(5, len(names))
    rows, features = read_features(data, part, Wanted.like(opened.columns, label_column))
    x = opened.checked(features)
    chosen = model._chosen(x, k)
    chances = np.take_along_axis(model.predict_proba(x), chosen, axis=1)
    return k, [
        {"row": row, "labels": [names[i] for i in ids], "probabilities": own}
        for row, ids, own in zip(rows.tolist(), chosen.tolist(), chances.tolist(), strict=True)
    ]


def _with_columns(
    predictions: list[dict[str, Any]], kept: dict[str, list[Any]]
) -> list[dict[str, Any]]:
    """Answers with values of their rows, after the rows' numbers."""
    return [
        {"row": answer["row"]}
        | {name: values[answer["row"]] for name, values in kept.items()}
        | answer
        for answer in predictions
    ]


def report(
    runs: Annotated[list[Path], typer.Argument(help="What train or compare wrote.")],
    out: Annotated[Path, option("The page.", "--out", "-o")] = Path("report.html"),
    data: Annotated[str | None, option("What to judge them on; by default their own data.")] = None,
    part: Annotated[str | None, option("Which examples; by default test, or validation.")] = None,
) -> None:
    """Compare runs on one page that needs nothing else: mistakes, scores, training, settings."""
    found = runs_report([open_run(run) for run in runs], data=data, part=part)
    write_report(found, out)
    say(f"{found.answer}\n")
    say(f"Report: {out.resolve()}")


def _write(predictions: list[dict[str, Any]], k: int, path: Path) -> None:
    if path.suffix.lower() == ".csv":
        write_file(path, _csv(predictions, k).encode())
    elif path.suffix.lower() == ".jsonl":
        lines = (json.dumps(row, ensure_ascii=False, default=str) + "\n" for row in predictions)
        write_file(path, "".join(lines).encode())
    else:
        pa = import_pyarrow()
        with replacing(path) as temporary:
            pa.parquet.write_table(pa.Table.from_pylist(predictions), temporary)


def _csv(predictions: list[dict[str, Any]], k: int) -> str:
    """The row's number, columns that are kept, then a label and its probability, `k` times."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    own = [name for name in predictions[0] if name not in ("labels", "probabilities")]
    answers = (f"{w}_{i + 1}" for i in range(k) for w in ("label", "probability"))
    writer.writerow([*own, *answers])
    for p in predictions:
        pairs = zip(p["labels"], (f"{chance:.6g}" for chance in p["probabilities"]), strict=True)
        writer.writerow([*(p[name] for name in own), *chain.from_iterable(pairs)])
    return text.getvalue()
