"""Read large files in one pass: in blocks of lines, in several processes, resumable."""

from __future__ import annotations

import hashlib
import json
import multiprocessing
import multiprocessing.context
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor
from contextlib import contextmanager
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from experiments.corpora.tagging.streams import line_blocks, unpacked
from experiments.lab.files import read_npz, write_npz

Progress = Callable[[int, int], None]


class Pass(Protocol):
    """The work done on each block, and the accumulated results.

    The sum must not depend on the order of results, because blocks finish in any order.
    """

    def read(self, lines: list[bytes], place: int, hint: Any) -> Any:
        """Process a block of lines; runs in other processes, without the state."""

    @property
    def hint(self) -> Any:
        """Something small, from the results so far, that saves ``read`` work."""

    def add(self, found: Any) -> None:
        """Add the results of a block."""

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        """The state."""

    def from_arrays(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Resume from this state."""


def walk(
    files: Sequence[Path],
    work: Pass,
    state: Path,
    identity: dict[str, Any],
    *,
    workers: int = 1,
    restart: bool = False,
    progress: Progress | None = None,
    block_bytes: int = 8 << 20,
    save_seconds: float = 2.0,
) -> None:
    """Read all files once, or what remains of them, and accumulate the results in ``work``.

    Args:
        files: plain, gzip or bzip2.
        work: the pass.
        state: the file that the pass is resumed from.
        identity: what the result depends on besides the files; a state with another is refused.
        workers: processes that read lines; with 1, this one. A script that uses more needs an
            ``if __name__ == "__main__":`` guard, because workers import it.
        restart: start again if the state belongs to another run.
        progress: called with the bytes read and the total, both compressed.
        block_bytes: approximate size of a block.
        save_seconds: time between writes of the state.
    """
    files = list(files)
    told = json.dumps({**identity, "files": _describe(files), "block_bytes": block_bytes})
    whole, done = _resume(state, work, told, restart)
    if whole:
        return
    total = sum(file.stat().st_size for file in files)
    pending: deque[tuple[tuple[int, int], int, Future[Any]]] = deque()
    saved = time.monotonic()

    def finish_one() -> None:
        nonlocal saved
        place, position, future = pending.popleft()
        work.add(future.result())
        done.add(place)
        if progress is not None:
            progress(position, total)
        if time.monotonic() - saved >= save_seconds:
            _save(state, work, told, done)
            saved = time.monotonic()

    with _pool(workers, work) as submit:
        before = 0
        for number, path in enumerate(files):
            with open(path, "rb") as raw, unpacked(raw) as file:
                for i, block in enumerate(line_blocks(file, block_bytes)):
                    if (number, i) in done:
                        continue
                    future = submit(block, number << 52 | i << 28, work.hint)
                    pending.append(((number, i), before + raw.tell(), future))
                    while len(pending) > (workers + 1 if workers > 1 else 0):
                        finish_one()
            before += path.stat().st_size
        while pending:
            finish_one()
    _save(state, work, told, done, whole=True)


def _describe(files: list[Path]) -> list[list[Any]]:
    """Identify each file by its name, size, and a digest of its start."""
    described = []
    for file in files:
        with open(file, "rb") as raw:
            start = hashlib.sha256(raw.read(1 << 16)).hexdigest()
        described.append([file.name, file.stat().st_size, start])
    return described


def _save(
    state: Path, work: Pass, told: str, done: set[tuple[int, int]], whole: bool = False
) -> None:
    blocks = np.array(sorted(done), dtype=np.int64).reshape(-1, 2)
    own = {"told": np.array(told), "done": blocks, "whole": np.array(whole)}
    write_npz(state, own | work.to_arrays())


def _resume(state: Path, work: Pass, told: str, restart: bool) -> tuple[bool, set[tuple[int, int]]]:
    """Return whether the pass is finished and, if not, the blocks that have been read."""
    if not state.exists():
        return False, set()
    try:
        arrays = read_npz(state)
        theirs, done = str(arrays["told"]), arrays["done"]
        if theirs == told:
            work.from_arrays(arrays)
            return bool(arrays["whole"]), {(int(file), int(block)) for file, block in done}
        before, now = json.loads(theirs), json.loads(told)
    except (ValueError, KeyError) as error:
        raise ValueError(f"{state} is not the state of a pass, remove it: {error}") from error
    if restart:
        return False, set()
    other = sorted(key for key in now if before.get(key) != now[key])
    raise ValueError(
        f"{state} is the state of another run, whose {', '.join(other)} differ; choose another "
        "folder, or begin anew with restart=True"
    )


@contextmanager
def _pool(workers: int, work: Pass) -> Iterator[Callable[..., Future[Any]]]:
    if workers == 1:

        def here(block: bytes, place: int, hint: Any) -> Future[Any]:
            future: Future[Any] = Future()
            future.set_result(work.read(_lines(block), place, hint))
            return future

        yield here
        return
    pool = ProcessPoolExecutor(
        workers,
        mp_context=_context(),
        initializer=_start_worker,
        initargs=(work,),
    )
    try:
        yield lambda *arguments: pool.submit(_read_in_worker, *arguments)
    finally:
        pool.shutdown(wait=True, cancel_futures=True)


def _context() -> multiprocessing.context.BaseContext:
    """A context whose processes do not copy threads and locks, and import the package once."""
    if "forkserver" not in multiprocessing.get_all_start_methods():
        return multiprocessing.get_context("spawn")
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(["experiments.corpora.tagging"])
    return context


_work: Pass | None = None  # in a worker process


def _start_worker(work: Pass) -> None:
    global _work
    _work = work
    parent = multiprocessing.parent_process()
    if parent is not None:
        # A killed parent cannot notify its workers, which would wait forever.
        def watch() -> None:
            wait([parent.sentinel])
            os._exit(1)

        threading.Thread(target=watch, daemon=True).start()


def _read_in_worker(block: bytes, place: int, hint: Any) -> Any:
    if _work is None:
        raise RuntimeError("the worker was not started")
    return _work.read(_lines(block), place, hint)


def _lines(block: bytes) -> list[bytes]:
    lines = block.split(b"\n")
    if not lines[-1]:
        lines.pop()
    return lines
