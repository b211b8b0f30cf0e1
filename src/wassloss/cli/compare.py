"""`wassloss compare`: what would a Wasserstein loss gain on this table?"""

from __future__ import annotations

import difflib
import json
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import numpy as np
import torch
import typer

from wassloss import __version__
from wassloss._files import write_file
from wassloss.cli._comparison_report import write_comparison
from wassloss.cli._terminal import option, say, table
from wassloss.cli.metric import label_list
from wassloss.data.raw_table import RawTable, read_raw_table
from wassloss.estimators import Comparison, WassersteinClassifier, compare
from wassloss.estimators.base import FitWarning
from wassloss.ground import GroundMetric, load

if TYPE_CHECKING:
    import pyarrow

EXAMPLE = "Example: wassloss compare wine.csv --label-column grade --metric ordinal --out cmp"
TABLE, MODEL, REPORT, FOUND = "table.json", "model.safetensors", "report.html", "comparison.json"


def compare_table(
    data: Annotated[Path, typer.Argument(help="A CSV or Parquet file with a row per example.")],
    label_column: Annotated[str, option("The column of the labels.")] = "label",
    metric: Annotated[
        str, option("ordinal, discrete, or a file of `wassloss metric build`.")
    ] = "discrete",
    order: Annotated[
        str | None, option("The labels in their order, for --metric ordinal: poor,fair,good.")
    ] = None,
    features: Annotated[str | None, option("The columns to learn from; by default all.")] = None,
    drop: Annotated[str | None, option("Columns that are no features.")] = None,
    group: Annotated[str | None, option("A column whose equal rows must stay together.")] = None,
    model: Annotated[Literal["linear", "mlp"], option("mlp has one hidden layer.")] = "linear",
    test: Annotated[float, option("The share of rows to hold out.", min=0.01, max=0.9)] = 0.25,
    missing: Annotated[
        Literal["impute", "error"], option("impute: the median, and a feature that says so.")
    ] = "impute",
    jobs: Annotated[int, option("Processes; -1 for one per core.")] = -1,
    seed: Annotated[int, option("Of the split.", min=0)] = 0,
    out: Annotated[Path, option("Directory for the model and the report.", "--out", "-o")] = Path(
        "wassloss-compare"
    ),
) -> None:
    """Tune losses and decisions alike, score them on rows held out, and keep the best model."""
    torch.set_num_threads(1)  # processes share the cores
    read = read_raw_table(data)
    _check_columns(read, [label_column, *_names(features), *_names(drop), *_names(group)])
    labels = np.array(read[label_column].to_pylist(), dtype=object)
    if any(label is None for label in labels):
        raise ValueError(f"column {label_column!r} must name every row's label, got gaps")
    if metric == "ordinal" and order is None and isinstance(labels[0], str):
        words = sorted(set(labels.tolist()))
        raise ValueError(
            f"labels in words have no order of their own: say it with --order, such as "
            f"--order {','.join(words[:6])}{',…' if len(words) > 6 else ''}"
        )
    unused = {label_column, *_names(drop), *_names(group)}
    kept = [n for n in _names(features) or read.column_names if n not in unused]
    raw = RawTable.of(read.select(kept), missing)
    x = raw.features(read)
    y = labels if isinstance(labels[0], str) else labels.astype(type(labels[0]))
    say(f"{read.num_rows} rows, {len(raw.feature_names)} features, {len(set(y.tolist()))} labels")
    say("tuning cross-entropy, W + KL and softened labels, eight settings each")
    groups = None if group is None else np.array([str(v) for v in read[group].to_pylist()])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # of a penalty that does not suit
        found = compare(
            x,
            y,
            _metric(metric),
            classes=label_list(order) if order else None,
            model=model,
            test=test,
            groups=groups,
            n_jobs=jobs,
            random_state=seed,
        )
    _keep(found, raw, label_column, out)
    write_comparison(found, raw, x, out / REPORT)
    header, rows = found.table()
    say(f"\n{found.answer}\n")
    say(table("", header, rows, numbers=0, gap=1))
    say(f"\nModel: wassloss predict {out} NEW.csv")
    say(f"Report: {(out / REPORT).resolve()}")


def read_model(path: Path) -> tuple[WassersteinClassifier, RawTable, str]:
    """The best model of a comparison, how to make its features, and its label's column."""
    kept = json.loads((path / TABLE).read_text(encoding="utf-8"))
    model = WassersteinClassifier.load(path / MODEL)
    return model, RawTable.from_state(kept["columns"]), kept["label_column"]


def _keep(found: Comparison, raw: RawTable, label_column: str, out: Path) -> None:
    out.mkdir(parents=True, exist_ok=True)
    found.best.save(out / MODEL)
    state = {"version": __version__, "label_column": label_column, "columns": raw.state()}
    write_file(out / TABLE, json.dumps(state, indent=1).encode())
    header, rows = found.table()
    write_file(
        out / FOUND,
        json.dumps({"answer": found.answer, "header": header, "rows": rows}, indent=1).encode(),
    )


def _metric(name: str) -> GroundMetric | str | None:
    return name if name == "ordinal" else None if name == "discrete" else load(name)


def _names(listed: str | None) -> list[str]:
    return [name.strip() for name in listed.split(",")] if listed else []


def _check_columns(read: pyarrow.Table, names: list[str]) -> None:
    for name in names:
        if name not in read.column_names:
            near = difflib.get_close_matches(name, read.column_names, 1)
            advice = f"did you mean {near[0]!r}? " if near else ""
            shown = ", ".join(read.column_names[:8])
            where = " (--label-column)" if name == names[0] else ""
            raise ValueError(f"there is no column {name!r}{where}: {advice}columns are {shown}")
