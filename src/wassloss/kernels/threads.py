"""Examples of a batch shared out among threads, for compiled code that releases Python's lock."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from itertools import count
from queue import SimpleQueue
from typing import TypeVar

import torch

S = TypeVar("S")

PORTIONS = 8  # per thread: examples differ in iterations, and so do portions in time


def spread(
    work: Callable[[int, int, S], None], batch: int, new_scratch: Callable[[], S], most_threads: int
) -> None:
    """Call `work(first, last, scratch)` for all examples, on as many threads as torch may use.

    The calling thread does its share, and does not wait for helpers that have not started: on a
    busy machine that would take longer than the work. Numba's own threads would come on top of
    torch's, and their simplest kind aborts the process when two Python threads solve at once.
    """
    threads = min(torch.get_num_threads(), batch, most_threads)
    if threads <= 1:
        work(0, batch, new_scratch())
        return
    size = max(1, batch // (PORTIONS * threads))
    starts = count(0, size)  # shared: whoever is free takes the next portion

    def run() -> None:
        scratch = new_scratch()
        while not task.failed and (first := next(starts)) < batch:
            work(first, min(batch, first + size), scratch)

    task = _Task(run)
    _helpers().offer(task, threads - 1)
    try:
        run()
    except BaseException as error:
        task.failed = error  # the others stop after their portion
    task.close()
    if task.failed:
        raise task.failed


class _Task:
    """Work that helpers may join until it is closed; those that have joined are waited for."""

    def __init__(self, run: Callable[[], None]) -> None:
        self.failed: BaseException | None = None  # the last error of whoever took part
        self._run: Callable[[], None] | None = run
        self._inside = 0
        self._changed = threading.Condition()

    def help(self) -> None:
        """Take part, unless it is too late."""
        with self._changed:
            if (run := self._run) is None:
                return
            self._inside += 1
        try:
            run()
        except BaseException as error:
            self.failed = error
        finally:
            with self._changed:
                self._inside -= 1
                self._changed.notify_all()

    def close(self) -> None:
        """Let nobody else begin, and wait for those who have."""
        with self._changed:
            self._run = None  # pending offers then keep no batch in memory
            self._changed.wait_for(lambda: not self._inside)


class _Helpers:
    """Threads that wait for tasks.

    Executors of `concurrent.futures` refuse work once the main thread has ended, but threads that
    outlive it and hooks at exit may go on training. Helpers are daemons: nothing has to end them.
    """

    def __init__(self) -> None:
        self._tasks: SimpleQueue[_Task] = SimpleQueue()
        self._starting = threading.Lock()
        self._threads = 0

    def offer(self, task: _Task, wanted: int) -> None:
        """Ask so many helpers, or as many as there are, to take part in a task."""
        enough = min(wanted, os.cpu_count() or 1)
        # If another caller is starting them, go on with those there are.
        if self._threads < enough and self._starting.acquire(blocking=False):
            try:
                while self._threads < enough:
                    name = f"wassloss-{self._threads}"
                    threading.Thread(target=self._serve, name=name, daemon=True).start()
                    self._threads += 1
            except RuntimeError:
                pass  # at the end of the interpreter, or at the system's limit
            finally:
                self._starting.release()
        for _ in range(min(wanted, self._threads)):
            self._tasks.put(task)

    def _serve(self) -> None:
        while True:
            self._tasks.get().help()


_by_process: dict[int, _Helpers] = {}


def _helpers() -> _Helpers:
    """The helpers of this process: a fork inherits the memory of threads but not the threads."""
    process = os.getpid()
    return _by_process.get(process) or _by_process.setdefault(process, _Helpers())
