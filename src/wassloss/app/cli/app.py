"""The application with all commands, and the command `demo`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from wassloss import __version__
from wassloss.app.cli import compare, metric, model, train
from wassloss.app.cli._interrupt import loading
from wassloss.app.cli._terminal import OneLineErrors, one_thread, option, say, table

app = typer.Typer(
    cls=OneLineErrors,
    help="Supervised learning when some mistakes are worse than others: train with a Wasserstein "
    "loss, and see how bad the mistakes are.",
    epilog="Example: wassloss demo. Every command has --help.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode="rich",
)


def _version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"wassloss {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool,
        option("Show the version and exit.", "--version", callback=_version, is_eager=True),
    ] = False,
) -> None:
    pass


app.command(epilog=compare.EXAMPLE)(compare.compare)
app.command(epilog=train.EXAMPLE)(train.train)
app.command(epilog=model.PREDICT_EXAMPLE)(model.predict)
app.command(epilog=model.EVALUATE_EXAMPLE)(model.evaluate)
app.command(epilog=model.REPORT_EXAMPLE)(model.report)
app.command(epilog=model.EXPORT_EXAMPLE)(model.export)
app.add_typer(metric.app, name="metric")


@app.command(epilog="Example: wassloss demo --out wassloss-demo")
def demo(
    out: Annotated[Path, option("The folder for the report.", "--out", "-o")] = Path(
        "wassloss-demo"
    ),
    seeds: Annotated[int, option("How many times to train each model.", min=1)] = 5,
    quick: Annotated[bool, option("Take only a few steps, as a check.", "--quick")] = False,
) -> None:
    """Classify WordNet's definitions with and without a Wasserstein loss (takes a minute)."""
    with loading():
        from wassloss.app.demo import run_demo

    with one_thread():  # for batches this small, threads only add overhead
        found, report = run_demo(out, seeds, quick, say)
    say(f"\n{found.answer}")
    say(table("", list(found.header), [list(row) for row in found.rows], numbers=2, gap=1))
    for title, mistakes in (("Milder mistakes", found.mended), ("Worse mistakes", found.made)):
        say(f"\n{title}, where both are wrong:")
        for mistake in mistakes:
            ce, w = mistake.guesses
            say(f"  {mistake.text} ({mistake.truth}): cross-entropy says {ce}, Wasserstein {w}")
    for note in (*found.warnings, *found.notes):
        say(f"\n{note}")
    say(f"\nReport: {report.resolve()}")
