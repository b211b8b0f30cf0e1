"""`wassloss compare`."""

from __future__ import annotations

import json
import sys
import warnings
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from wassloss.app.cli._interrupt import loading
from wassloss.app.cli._options import METRIC, OVERWRITE, TABLE, check_model, parsed, with_options
from wassloss.app.cli._terminal import one_thread, option, say, table

EXAMPLE = (
    "Example: wassloss compare wine.csv --label-column grade --metric ordinal "
    "--order poor,fair,good --out cmp"
)
REPORT, FOUND = "report.html", "comparison.json"


@with_options(Data_and_labels=TABLE)
def compare(
    data: Annotated[
        str, typer.Argument(help="A CSV or Parquet file, or a folder of Parquet files.")
    ],
    metric: Annotated[str, METRIC] = "discrete",
    model: Annotated[
        Literal["linear", "mlp"],
        option("The kind of model; mlp has one hidden layer.", metavar="CHOICE"),
    ] = "linear",
    test: Annotated[
        float,
        option("The share of rows to hold out, unless the table has a part test."),
    ] = 0.25,
    seed: Annotated[int, option("Random seed for the split and the models.", min=0)] = 0,
    jobs: Annotated[int, option("The number of processes; -1 for one per core.")] = -1,
    device: Annotated[str, option("Where to train: cpu, cuda, cuda:1 or mps.")] = "cpu",
    out: Annotated[Path, option("The folder for the model and the report.", "--out", "-o")] = Path(
        "wassloss-compare"
    ),
    overwrite: Annotated[bool, OVERWRITE] = False,
    **options: Any,
) -> None:
    """Tune losses and decisions equally, score them on held-out rows, and save the best model."""
    _check_free(out, overwrite)
    with loading():
        from tqdm import tqdm

        from wassloss.app.comparison import compare_table
        from wassloss.app.examples import ReadOptions
        from wassloss.app.metrics import read_metric
        from wassloss.app.model import NAME
        from wassloss.app.report import comparison_report, write_report
        from wassloss.app.tables import read_table
        from wassloss.estimators import FitWarning
        from wassloss.files import write_file

    reading = ReadOptions(**parsed(TABLE, options))
    read = read_table(data)
    say(f"{len(read.frame)} rows; tuning each loss with eight settings")
    bar = tqdm(unit="fit", dynamic_ncols=True, leave=False, disable=not sys.stderr.isatty())

    def progress(done: int, total: int) -> None:
        bar.total = total
        bar.update(done - bar.n)

    with warnings.catch_warnings(), bar, one_thread():  # processes share the cores
        warnings.simplefilter("ignore", FitWarning)  # expected for unsuitable penalties
        compared = compare_table(
            read,
            read_metric(metric, reading.order),
            options=reading,
            model=model,
            test=test,
            n_jobs=jobs,
            seed=seed,
            device=device,
            progress=progress,
        )
    found = compared.found
    header, rows = found.table()
    kept = found.kept
    saved = {"loss": kept.loss, "decision": kept.decision, "settings": kept.settings}
    about = {"answer": found.answer, "saved": saved, "header": header, "rows": rows}
    _check_free(out, overwrite)  # files may have appeared meanwhile
    out.mkdir(parents=True, exist_ok=True)
    found.best.save(out / NAME)
    write_file(out / FOUND, json.dumps(about, indent=1).encode())
    say(f"\n{found.answer}\n")
    narrow = [name.replace("mean ", "mean\n") for name in header]  # to fit 80 columns
    say(table("", narrow, rows, numbers=0, gap=1))
    say("change: of mean distance from the first row, 95 % interval; unclear: includes 0")
    write_report(comparison_report(compared), out / REPORT)
    say(f"\nModel: {kept.loss}, {kept.decision.replace(' ', '-')} label")
    say(f"Use it: wassloss predict {out} NEW.csv")
    say(f"Report: {(out / REPORT).resolve()}")


def _check_free(out: Path, overwrite: bool) -> None:
    """Refuse a folder with files that must not be replaced."""
    with loading():
        from wassloss.app._files import begins, check_replaceable
        from wassloss.app.model import NAME
        from wassloss.app.report import check_page

    check_replaceable(out / FOUND, "a comparison", begins(rb'\{\s*"answer": '))
    check_page(out / REPORT)
    check_model(out / NAME, overwrite)
