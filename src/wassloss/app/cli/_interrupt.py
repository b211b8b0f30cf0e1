"""Handle Ctrl-C while libraries are imported."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


@contextmanager
def loading() -> Iterator[None]:
    """Exit at once on Ctrl-C, because some libraries catch `KeyboardInterrupt` on import.

    A process that ignores interrupts, such as one under `nohup`, still does.
    """
    before = signal.getsignal(signal.SIGINT)
    if before is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, leave)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def leave(number: int, frame: FrameType | None) -> None:
    """Handle SIGINT by ending the process without an exception."""
    os.write(2, b"Interrupted.\n")
    os._exit(130)
