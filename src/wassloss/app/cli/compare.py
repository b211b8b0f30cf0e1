"""`wassloss compare`: what would a Wasserstein loss gain on this table?"""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from tqdm import tqdm

from wassloss._files import begins, check_replaceable, write_file
from wassloss.app.cli._options import TABLE, parsed, with_options
from wassloss.app.cli._terminal import one_thread, option, say, table
from wassloss.estimators import compare
from wassloss.estimators.base import FitWarning
from wassloss.estimators.model_file import is_model
from wassloss.app.report import check_page, comparison_report, write_report
from wassloss.runs.directory import CONFIG, MODEL
from wassloss.runs.task import Task
from wassloss.targets import is_class_ids
from wassloss.training.directory_lock import owned

EXAMPLE = (
    "Example: wassloss compare wine.csv --label-column grade --metric ordinal "
    "--order poor,fair,good --out cmp"
)
REPORT, FOUND = "report.html", "comparison.json"


@with_options(Data_and_labels=TABLE)
def compare_table(
    data: Annotated[Path, typer.Argument(help="A CSV or Parquet file with a row per example.")],
    metric: Annotated[
        str, option("ordinal, discrete, or a file of `wassloss metric build`.")
    ] = "discrete",
    model: Annotated[Literal["linear", "mlp"], option("mlp has one hidden layer.")] = "linear",
    test: Annotated[
        float,
        option("The share of rows to hold out, if none are of a part test.", min=0.01, max=0.9),
    ] = 0.25,
    jobs: Annotated[int, option("Processes; -1 for one per core.")] = -1,
    device: Annotated[str, option("Where to train: cpu, cuda, cuda:1, mps.")] = "cpu",
    out: Annotated[Path, option("Directory for the model and the report.", "--out", "-o")] = Path(
        "wassloss-compare"
    ),
    overwrite: Annotated[
        bool, option("Replace the comparison that is in --out.", "--overwrite")
    ] = False,
    **options: Any,
) -> None:
    """Tune losses and decisions alike, score them on rows held out, and keep the best model."""
    _check_free(out, overwrite)
    task = Task(data=str(data), metric=metric, test=test, **parsed(options))
    given, ground, classes = task.examples()
    if not is_class_ids(given.target):
        raise ValueError(
            "data must have one label per example to be compared: `wassloss train` takes several"
        )
    X, y, held = given.features.numpy(), given.y, given.parts["test"]
    say(f"{len(given)} rows, {X.shape[1]} features, {len(set(y.tolist()))} labels")
    say(f"{len(held)} rows are held out, and all others learned from")
    with owned(out):
        _check_free(out, overwrite)  # something may have come there since
        say("tuning cross-entropy, W + KL and softened labels, eight settings each")
        bar = tqdm(unit="part", dynamic_ncols=True, leave=False, disable=not sys.stderr.isatty())

        def progress(done: int, total: int) -> None:
            bar.total = total
            bar.update(done - bar.n)

        with warnings.catch_warnings(), bar, one_thread():  # processes share the cores
            warnings.simplefilter("ignore", FitWarning)  # of a penalty that does not suit
            found = compare(
                X,
                y,
                ground,
                classes=classes,
                model=model,
                test=held.numpy(),
                groups=given.groups,
                n_jobs=jobs,
                random_state=task.seed,
                device=device,
                progress=progress,
            )
        found.best.table_ = task.columns_of(given)
        header, rows = found.table()
        kept = found.kept
        saved = {"loss": kept.loss, "decision": kept.decision, "settings": kept.settings}
        about = {"answer": found.answer, "saved": saved, "header": header, "rows": rows}
        found.best.save(out / MODEL)
        write_file(out / FOUND, json.dumps(about, indent=1).encode())
        say(f"\n{found.answer}\n")
        narrow = [name.replace("mean ", "mean\n") for name in header]  # to fit 80 columns
        say(table("", narrow, rows, numbers=0, gap=1))
        say("change: in mean distance, from the first row, 95 % interval; unclear: 0 inside")
        say(f"\nModel: {kept.loss}, {kept.decision.replace(' ', '-')} label")
        write_report(comparison_report(found, found.best.table_, X), out / REPORT)
        say(f"Use it: wassloss predict {out} NEW.csv")
        say(f"Report: {(out / REPORT).resolve()}")


def _check_free(out: Path, overwrite: bool) -> None:
    """Refuse a directory in which something would be lost."""
    if (out / CONFIG).exists():
        raise ValueError(f"{out} holds a run: choose another directory with --out")
    check_replaceable(out / MODEL, "a model", is_model)
    check_replaceable(out / FOUND, "a comparison", begins(rb'\{\s*"answer": '))
    check_page(out / REPORT)
    if not overwrite and any((out / name).exists() for name in (MODEL, FOUND)):
        raise ValueError(
            f"{out} holds a model already: choose another directory with --out, or replace it "
            "with --overwrite"
        )
