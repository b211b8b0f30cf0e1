"""Examples of a batch shared out among threads, for compiled code that releases Python's lock."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import count
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
    failed = False

    def run() -> None:
        nonlocal failed
        try:
            scratch = new_scratch()
            while not failed and (first := next(starts)) < batch:
                work(first, min(batch, first + size), scratch)
        except BaseException:
            failed = True  # the others stop after their portion
            raise

    def help_with(seat: Future[None]) -> None:
        if not seat.set_running_or_notify_cancel():
            return  # too late
        try:
            run()
            seat.set_result(None)
        except BaseException as error:
            seat.set_exception(error)

    seats: list[Future[None]] = [Future() for _ in range(threads - 1)]
    try:
        _offer(help_with, seats)
        run()
    finally:
        errors = [seat.exception() for seat in seats if not seat.cancel()]
    for error in filter(None, errors):
        raise error


_by_process: dict[int, ThreadPoolExecutor] = {}


def _offer(help_with: Callable[[Future[None]], None], seats: list[Future[None]]) -> None:
    """Have threads take the seats that are still free when they come."""
    process = os.getpid()  # a fork inherits the memory of threads but not the threads
    helpers = _by_process.get(process)
    if helpers is None:
        new = ThreadPoolExecutor(os.cpu_count() or 1, "wassloss")
        helpers = _by_process.setdefault(process, new)
    try:
        for seat in seats:
            helpers.submit(help_with, seat)
    except RuntimeError:  # at the end of the interpreter, or at the system's limit
        _by_process.clear()  # and with them what waits for threads that never started
