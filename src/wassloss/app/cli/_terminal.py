"""Output that commands share: text, tables and one-line errors.

An error is one line that says what to do; only bugs in wassloss print a traceback. The exit code is
1 for a failure, 2 for wrong usage and 130 for Ctrl-C, as in shells. Characters that the terminal's
encoding lacks are escaped.
"""

from __future__ import annotations

import math
import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Literal

import typer
from typer.core import TyperGroup

if TYPE_CHECKING:
    from rich.table import Table

    from wassloss.app.evaluation import ExampleScores

_EXPECTED = (
    *(ValueError, TypeError, OSError, ImportError, ArithmeticError, MemoryError),
    RuntimeError,  # from torch, about devices and their memory
)


class OneLineErrors(TyperGroup):
    """A command group that prints errors and warnings on standard error, one line each."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, **options: Any) -> Any:
        options["standalone_mode"] = False
        with warnings.catch_warnings(), _escaping(sys.stdout), _escaping(sys.stderr):
            shown = set[str]()
            warnings.showwarning = lambda message, *_: _warn_once(str(message), shown)
            try:
                code = super().main(args, *rest, **options)
            except typer.Abort:
                code = 1
            except Exception as error:
                if not (isinstance(error, _EXPECTED) or hasattr(error, "format_message")):
                    raise
                code = _explain(error)
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, context: Any) -> Any:
        try:
            return super().invoke(context)
        except KeyboardInterrupt:
            _complain("Interrupted.")
            raise typer.Exit(130) from None


@contextmanager
def _escaping(stream: Any) -> Iterator[None]:
    """Escape characters that a stream's encoding lacks, unless the caller replaced the stream."""
    if not hasattr(stream, "reconfigure"):
        yield
        return
    before = stream.errors
    stream.reconfigure(errors="backslashreplace")
    try:
        yield
    finally:
        if not stream.closed:
            stream.reconfigure(errors=before)


@contextmanager
def one_thread() -> Iterator[None]:
    """Run torch in one thread within the block."""
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _explain(error: Exception) -> int:
    """Print an error, and return the exit code."""
    format_message = getattr(error, "format_message", None)
    if format_message is not None:  # wrong usage, from Typer
        if type(error).__name__ == "NoArgsIsHelpError":
            return 2  # the help has been shown
        context = getattr(error, "ctx", None)
        command = context.command_path if context is not None else "wassloss"
        message = format_message().rstrip(".")
        _complain(f"error: {message}{'' if message.endswith('?') else '.'} See {command} --help.")
        return int(getattr(error, "exit_code", 2))
    message = str(error) or type(error).__name__
    if isinstance(error, MemoryError):
        message = f"out of memory: {message}"
    elif isinstance(error, OSError) and error.filename and error.strerror:
        message = f"{os.fspath(error.filename)}: {error.strerror.lower()}"
    _complain(f"error: {message}")
    return 1


def _warn_once(message: str, shown: set[str]) -> None:
    """Print a warning once, although a table may be encoded more than once."""
    if message not in shown:
        shown.add(message)
        _complain(f"warning: {message}")


def _complain(message: str) -> None:
    sys.stderr.write(" ".join(message.split()) + "\n")


def option(text: str | None = None, *names: str, **more: Any) -> Any:
    """An option with its help, and its names if they differ from the parameter's."""
    return typer.Option(*names, help=text, **more)


def say(what: str | Table, err: bool = False) -> None:
    """Print text verbatim, or a table."""
    from rich.console import Console

    Console(stderr=err, highlight=False, markup=False, emoji=False, soft_wrap=True).print(what)


def table(
    title: str, header: Sequence[str], rows: Sequence[Sequence[str]], numbers: int, gap: int = 2
) -> Table:
    """A table with a column of names, `numbers` columns of numbers, and columns of words."""
    from rich.table import Table

    made = Table(title=title, title_justify="left", box=None, padding=(0, gap, 0, 0))
    for i, name in enumerate(header):
        justify: Literal["left", "right"] = "right" if 0 < i <= numbers else "left"
        made.add_column(name, justify=justify, no_wrap=i <= numbers)
    for row in rows:
        made.add_row(*row)
    return made


def score_table(found: ExampleScores, title: str) -> Table:
    """Scores with standard errors; ↑ marks scores for which higher is better, ↓ lower."""
    from wassloss.app.score_kinds import SCORES

    rows = []
    for name in found.values:
        score = SCORES[name]
        numbers = (found.mean(name), found.standard_error(name))
        cells = ["–" if math.isnan(number) else f"{number:.4f}" for number in numbers]
        arrow = "↑" if score.more_is_better else "↓"
        rows.append([f"{name} {arrow}", *cells, score.meaning])
    return table(title, ["score", "mean", "± s.e.", ""], rows, numbers=2)
