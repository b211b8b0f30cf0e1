"""`wassloss data show`."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from wassloss.cli._options import TABLE, parsed, with_options
from wassloss.cli._terminal import option, say
from wassloss.data.files import read_wanted
from wassloss.data.labels import shown
from wassloss.data.raw_table import RawTable
from wassloss.data.table import Wanted

app = typer.Typer(
    help="Look at data sets.",
    epilog="Example: wassloss data show wine.csv --label-column grade",
    no_args_is_help=True,
)
_READ = ("label_column", "order", "features", "drop")


@app.callback()
def _data() -> None:
    pass


@app.command(epilog="Example: wassloss data show wine.csv --label-column grade")
@with_options(Data_and_labels={name: TABLE[name] for name in _READ})
def show(
    name: Annotated[
        str, typer.Argument(help="clipart, or a file of yours (.csv, .parquet, .npz).")
    ],
    examples: Annotated[int, option("How many labels to show.", min=1)] = 5,
    **options: Any,
) -> None:
    """Show examples, labels and columns: how many, which are frequent, what becomes of them."""
    column, order, features, drop = (parsed(options)[option] for option in _READ)
    found = read_wanted(name, Wanted(order, column, features, drop))
    say(found.summary(examples))
    if found.raw is not None:
        say("\n".join(["columns:", *_columns(found.raw)]))


def _columns(raw: RawTable) -> list[str]:
    """What becomes of each column of a table."""
    lines = []
    for column in raw.columns:
        if column.kind == "category":
            what = f"category, {len(column.levels)} levels: {shown(column.levels)}"
        else:
            what = f"number, {column.fill:g} in gaps" if column.gaps else "number"
        lines.append(f"  {column.name}: {what}")
    return lines
