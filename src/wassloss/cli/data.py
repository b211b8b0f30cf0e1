"""`wassloss data show` and `data get`."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated

import typer

from wassloss import data
from wassloss.cli._tables import HELP, name_list
from wassloss.cli._terminal import option, say
from wassloss.data.downloads import DOWNLOADS
from wassloss.data.files import BUILT_IN

app = typer.Typer(
    help="Look at data sets, and download word vectors.",
    epilog="Example: wassloss data show clipart",
    no_args_is_help=True,
)


@app.command(epilog="Example: wassloss data show clipart, or wassloss data show my.parquet")
def show(
    name: Annotated[
        str, typer.Argument(help="clipart, or a file of yours (.npz, .parquet, .csv).")
    ],
    label_column: Annotated[str | None, option(HELP["label_column"])] = None,
    drop: Annotated[str | None, option(HELP["drop"])] = None,
    examples: Annotated[int, option("How many labels to show.", min=1)] = 5,
) -> None:
    """Show how many examples and labels there are, which are frequent, and what is near them."""
    if name not in BUILT_IN and not Path(name).is_file():
        raise ValueError(f"NAME must be clipart or a file, got {name!r}")
    found = data.read(name, label_column=label_column, drop=name_list(drop))
    say(found.summary(examples))


@app.command(epilog="Example: wassloss data get glove")
def get(
    name: Annotated[str, typer.Argument(help=f"One of: {', '.join(DOWNLOADS)}.")],
) -> None:
    """Download word vectors, and check them against their published checksum."""
    for path in data.get(name, progress=sys.stderr.isatty()):
        say(str(path))
    say(DOWNLOADS[name].licence)
