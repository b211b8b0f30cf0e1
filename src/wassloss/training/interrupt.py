"""Ctrl-C in the middle of a step: the step is finished first, so that the run can be saved."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType


class Interrupt:
    """Whether the user has asked to stop."""

    asked = False


@contextmanager
def waiting_for_interrupt(wait: bool) -> Iterator[Interrupt]:
    """Note the first Ctrl-C instead of raising it; a second one raises as usual.

    Nothing changes if `wait` is False, or in a thread, which signals do not reach.
    """
    interrupt = Interrupt()
    previous = signal.getsignal(signal.SIGINT)
    if not wait or threading.current_thread() is not threading.main_thread() or previous is None:
        yield interrupt
        return

    def note(number: int, frame: FrameType | None) -> None:
        interrupt.asked = True
        signal.signal(signal.SIGINT, previous)

    signal.signal(signal.SIGINT, note)
    try:
        yield interrupt
    finally:
        signal.signal(signal.SIGINT, previous)
