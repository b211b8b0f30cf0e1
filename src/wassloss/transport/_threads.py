"""Examples of a batch shared out among threads, for compiled code that lets go of Python's lock."""

from __future__ import annotations

import os
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from itertools import count
from typing import TypeVar

import torch

S = TypeVar("S")

PORTIONS = 8  # for each thread: examples differ in iterations, and so do portions in time


def spread(
    work: Callable[[int, int, S], None],
    batch: int,
    new_scratch: Callable[[], S],
    most_threads: int,
) -> None:
    """Call `work(first, last, scratch)` for all examples, on as many threads as torch may use.

    The calling thread does its share, and waits for no helper that has not begun: on a busy
    machine that would take longer than the work. Numba's own threads would come on top of torch's,
    and their simplest kind aborts the process when two Python threads solve at once.

    Args:
        work: what to do with the examples `first` to `last − 1`.
        batch: the number of examples.
        new_scratch: makes the memory that one thread works in.
        most_threads: how many the work is worth.
    """
    threads = min(torch.get_num_threads(), batch, most_threads)
    if threads <= 1:
        work(0, batch, new_scratch())
        return
    size = max(1, batch // (PORTIONS * threads))
    starts = count(0, size)  # shared: whoever is free takes the next portion

    def run() -> None:
        scratch = new_scratch()
        while (first := next(starts)) < batch:
            work(first, min(batch, first + size), scratch)

    helpers = [_pool(os.getpid()).submit(run) for _ in range(threads - 1)]
    run()
    for helper in helpers:
        if not helper.cancel():
            helper.result()


@cache
def _pool(process: int) -> ThreadPoolExecutor:
    """Helpers of one process: a fork inherits the memory of threads but not the threads."""
    return ThreadPoolExecutor(os.cpu_count(), thread_name_prefix="wassloss")
