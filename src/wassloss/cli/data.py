"""`wassloss data show` and `data get`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from wassloss import data
from wassloss.cli._tables import HELP, PARSERS
from wassloss.cli._terminal import option, say
from wassloss.data.downloads import DOWNLOADS
from wassloss.data.files import BUILT_IN, column_names
from wassloss.data.labels import shown
from wassloss.data.raw_table import RawTable

app = typer.Typer(
    help="Look at data sets, and download word vectors.",
    epilog="Example: wassloss data show clipart",
    no_args_is_help=True,
)


@app.command(epilog="Example: wassloss data show clipart, or wassloss data show my.parquet")
def show(
    name: Annotated[
        str,
        typer.Argument(help="clipart, definitions, or a file of yours (.npz, .parquet, .csv)."),
    ],
    label_column: Annotated[str | None, option(HELP["label_column"])] = None,
    order: Annotated[str | None, option(HELP["order"])] = None,
    features: Annotated[str | None, option(HELP["features"])] = None,
    drop: Annotated[str | None, option(HELP["drop"])] = None,
    examples: Annotated[int, option("How many labels to show.", min=1)] = 5,
) -> None:
    """Show examples, labels and columns: how many, which are frequent, what becomes of them."""
    if name == "definitions":
        say(_definitions(examples))
        return
    if name not in BUILT_IN and not Path(name).is_file():
        raise ValueError(f"NAME must be clipart, definitions or a file, got {name!r}")
    found = data.read(
        name,
        label_names=PARSERS["order"](order),
        label_column=label_column,
        feature_names=PARSERS["features"](features),
        drop=PARSERS["drop"](drop),
    )
    say(found.summary(examples))
    if found.raw is not None:
        say("\n".join(_columns(found.raw, column_names(name))))


def _columns(raw: RawTable, names: list[str]) -> list[str]:
    """What becomes of each column of a table."""
    lines = ["columns:"]
    for column in raw.columns:
        if column.kind == "category":
            what = f"category, {len(column.levels)} levels: {shown(column.levels)}"
        else:
            what = f"number, {column.fill:g} in gaps" if column.gaps else "number"
        lines.append(f"  {column.name}: {what}")
    others = [name for name in names if name not in {column.name for column in raw.columns}]
    return [*lines, f"  no features: {', '.join(others)}"] if others else lines


def _definitions(examples: int) -> str:
    """The texts and their largest classes."""
    found = data.definitions()
    counts = found.classes.bincount()
    lines = [f"{len(found)} definitions of nouns in {len(found.paths)} classes of WordNet"]
    for i in counts.argsort(descending=True, stable=True)[:examples].tolist():
        near = ", ".join(f"{label} {d:.3g}" for label, d in found.metric.nearest(i, 3))
        lines.append(f"  {found.paths[i][-1]} ({counts[i]}), nearest to it: {near}")
    return "\n".join(lines)


@app.command(epilog="Example: wassloss data get glove")
def get(
    name: Annotated[str, typer.Argument(help=f"One of: {', '.join(DOWNLOADS)}.")],
) -> None:
    """Download word vectors, and check them against their published checksum."""
    for path in data.get(name, progress=sys.stderr.isatty()):
        say(str(path))
    say(DOWNLOADS[name].licence)
