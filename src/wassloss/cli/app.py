"""All commands, and what becomes of their errors."""

from __future__ import annotations

from typing import Annotated

import typer

import wassloss
from wassloss.cli import data, demo, evaluate, metric, predict, report, train
from wassloss.cli._encoding import say
from wassloss.cli._errors import OneLineErrors

app = typer.Typer(
    cls=OneLineErrors,
    help="Supervised learning when some mistakes are worse than others: train with a Wasserstein "
    "loss, and see how bad the mistakes are.",
    epilog="Example: wassloss demo. Every command has --help; --debug shows where an error is "
    "from.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _version(asked: bool) -> None:
    if asked:
        say(f"wassloss {wassloss.__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_version, is_eager=True, help="Say which.")
    ] = False,
) -> None:
    pass


app.command(epilog=train.EXAMPLE)(train.train)
app.command(epilog=evaluate.EXAMPLE)(evaluate.evaluate)
app.command(epilog=predict.EXAMPLE)(predict.predict)
app.command(epilog=report.EXAMPLE)(report.report)
app.add_typer(metric.app, name="metric")
app.add_typer(data.app, name="data")
app.command(epilog=demo.EXAMPLE)(demo.demo)
