"""The command line; `app.py` puts the commands together."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from types import FrameType

__all__ = ["main"]


def main() -> None:
    """What the command `wassloss` runs."""
    # Until the command begins there is nothing to save: leave at once, without an exception, which
    # some libraries would catch while they are imported.
    unheeded = signal.getsignal(signal.SIGINT) is signal.default_int_handler
    if unheeded:
        signal.signal(signal.SIGINT, _leave)
    # Threads that spin while they wait for each other make small batches slow on a busy machine; it
    # is read when torch is imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError:
        sys.stderr.write('wassloss: the command line needs pip install "wassloss[cli]"\n')
        sys.exit(1)
    from wassloss.app.cli.app import app

    if unheeded:
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        app(prog_name="wassloss")
    finally:
        if unheeded:  # all is said and done: no traceback from the end of the interpreter
            with suppress(OSError):
                sys.stdout.flush()
            signal.signal(signal.SIGINT, _leave)


def _leave(number: int, frame: FrameType | None) -> None:
    os.write(2, b"Interrupted.\n")
    os._exit(130)
