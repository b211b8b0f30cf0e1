"""Errors in one line that say what to do, and exit codes.

1 is a failure, 2 wrong usage, 130 Ctrl-C, as shells have it.
"""

from __future__ import annotations

import os
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import typer
from typer.core import TyperGroup

from wassloss.cli._encoding import spell_what_is_missing

_EXPECTED = (ValueError, TypeError, OSError, ImportError, ArithmeticError, MemoryError)


class OneLineErrors(TyperGroup):
    """A group of commands whose errors are one line on standard error."""

    def main(self, args: Sequence[str] | None = None, *rest: Any, **options: Any) -> Any:
        given = list(sys.argv[1:] if args is None else args)
        debug = "--debug" in given
        given = [word for word in given if word != "--debug"]
        options["standalone_mode"] = False
        spell_what_is_missing()
        with _plain_warnings():
            try:
                code = super().main(given, *rest, **options)
            except typer.Abort:
                code = 1
            except Exception as error:
                if debug:
                    raise
                code = _said(error)
        sys.exit(code if isinstance(code, int) else 0)

    def invoke(self, context: Any) -> Any:
        try:
            return super().invoke(context)
        except KeyboardInterrupt:
            _write("Interrupted.")
            raise typer.Exit(130) from None


def usage(message: str) -> typer.BadParameter:
    """The error for options that do not go together."""
    return typer.BadParameter(message)


def _said(error: Exception) -> int:
    """Say what went wrong, and return the exit code."""
    format_message = getattr(error, "format_message", None)
    if format_message is not None:  # wrong usage, from Typer
        context = getattr(error, "ctx", None)
        if type(error).__name__ == "NoArgsIsHelpError":
            return 2  # the help has been shown
        command = context.command_path if context is not None else "wassloss"
        _write(f"error: {format_message().rstrip('.')}. See {command} --help.")
        return int(getattr(error, "exit_code", 2))
    message = str(error) or type(error).__name__
    if isinstance(error, MemoryError):
        message = f"out of memory: {message}; a folder of Parquet files is read in batches"
    elif isinstance(error, OSError) and error.filename and error.strerror:
        message = f"{os.fspath(error.filename)}: {error.strerror.lower()}"
    elif not isinstance(error, _EXPECTED):
        message = f"{type(error).__name__}: {message}; --debug shows where it is from"
    _write(f"error: {message}")
    return 1


def _write(message: str) -> None:
    sys.stderr.write(" ".join(message.split()) + "\n")


@contextmanager
def _plain_warnings() -> Iterator[None]:
    """Warnings in one line too, where they are shown at all."""
    with warnings.catch_warnings():

        def show(message: Warning | str, *where: Any) -> None:
            _write(f"warning: {message}")

        warnings.showwarning = show  # type: ignore[assignment]
        yield
