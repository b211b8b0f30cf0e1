"""The command line, assembled in `app.py`.

Commands import torch, pandas and scikit-learn only when they run, so that `--help` is instant.
"""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress

from wassloss.app.cli._interrupt import leave, loading

__all__ = ["main"]


def main() -> None:
    """Entry point of the command `wassloss`."""
    # Busy-waiting threads make small batches slow on a loaded machine. Torch reads this on import.
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
            # Everything is done, so an interrupt during shutdown must not print a traceback.
            with suppress(OSError):
                sys.stdout.flush()
            signal.signal(signal.SIGINT, leave)
