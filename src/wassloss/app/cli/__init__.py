"""The command line; `app.py` puts the commands together.

`wassloss --help` is there at once: commands import torch, pandas and scikit-learn when they run.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress

from wassloss.app.cli._interrupt import leave, loading

__all__ = ["main"]


def main() -> None:
    """What the command `wassloss` runs."""
    # Threads that spin while they wait for each other make small batches slow on a busy machine;
    # torch reads this when it is imported.
    os.environ.setdefault("OMP_WAIT_POLICY", "passive")
    with loading():
        try:
            import rich  # noqa: F401
            import typer  # noqa: F401
        except ImportError:
            sys.stderr.write('wassloss: the command line needs pip install "wassloss[app]"\n')
            sys.exit(1)
        from wassloss.app.cli.app import app
    try:
        app(prog_name="wassloss")
    finally:
        if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
            # Everything is done: an interrupt must not print a traceback of the interpreter's end.
            with suppress(OSError):
                sys.stdout.flush()
            signal.signal(signal.SIGINT, leave)
