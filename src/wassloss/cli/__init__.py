"""The command line: one command a file, put together in `app.py`."""

from __future__ import annotations

import sys

__all__ = ["main"]


def main() -> None:
    """What the command `wassloss` runs."""
    try:
        import rich  # noqa: F401
        import typer  # noqa: F401
    except ImportError:
        sys.stderr.write('wassloss: the command line needs pip install "wassloss[cli]"\n')
        sys.exit(1)
    from wassloss.cli.app import app

    app(prog_name="wassloss")
