"""Items prepared in a thread while the caller uses those before."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from typing import Any, TypeVar

T = TypeVar("T")


def prefetched(items: Iterator[T], ahead: int) -> Iterator[T]:
    """The same items, ``ahead`` of them ready at most; the thread's error is raised here.

    >>> list(prefetched(iter("abc"), ahead=2))
    ['a', 'b', 'c']
    """
    ready: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
    room = threading.Semaphore(ahead)
    left = threading.Event()

    def work() -> None:
        try:
            for item in items:
                room.acquire()
                if left.is_set():
                    return
                ready.put(("item", item))
            ready.put(("end", None))
        except BaseException as error:  # handed over, to be raised where the items are used
            ready.put(("error", error))

    thread = threading.Thread(target=work, name="wassloss-prefetch", daemon=True)
    try:
        thread.start()
    except RuntimeError:  # at the end of the interpreter, or at the system's limit of threads
        yield from items
        return
    try:
        while True:
            kind, value = ready.get()
            if kind == "end":
                return
            if kind == "error":
                raise value
            room.release()
            yield value
            del value  # lest it be held while the next one is waited for
    finally:  # the caller may have left early: wake the thread, which then ends
        left.set()
        room.release()
        thread.join()
