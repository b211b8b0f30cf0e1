"""One process at a time per directory: a lock that names its owner and ends with its process."""

from __future__ import annotations

import json
import os
import socket
import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from wassloss._files import write_file

LOCK, OWNER = ".lock", ".owner.json"
_PATIENCE = 1.0  # seconds for a new owner to write down who it is

_held: ContextVar[frozenset[Path]] = ContextVar("_held", default=frozenset())


class DirectoryInUseError(OSError):
    """Another process, or another thread of this one, is writing to the directory."""


@contextmanager
def owned(directory: Path) -> Iterator[None]:
    """Own a directory, which is created if necessary, until the block ends.

    The lock is the operating system's and ends with its process, however that ends, so a dead
    process leaves nothing to clean up. Blocks can be nested. The empty file ``.lock`` stays:
    removing it could let two processes lock two files of the same name.
    """
    place = directory.resolve()
    if place in _held.get():
        yield
        return
    place.mkdir(parents=True, exist_ok=True)
    lock = _locked(directory)
    token = _held.set(_held.get() | {place})
    try:
        now = datetime.now(timezone.utc).isoformat(timespec="seconds")
        owner = {"pid": os.getpid(), "host": socket.gethostname(), "since": now}
        write_file(place / OWNER, json.dumps(owner).encode())
        yield
    finally:
        _held.reset(token)
        (place / OWNER).unlink(missing_ok=True)
        lock.release()


def check_not_in_use(directory: Path) -> None:
    """Raise the error of `owned` if another process owns a directory; nothing is written."""
    if directory.resolve() not in _held.get() and (directory / LOCK).exists():
        _locked(directory).release()


def _locked(directory: Path) -> Any:
    """The lock of a directory, acquired; the error of `owned` waits for its owner's name."""
    from filelock import FileLock, Timeout

    lock, path = FileLock(directory.resolve() / LOCK, thread_local=False), directory / OWNER
    try:
        lock.acquire(timeout=0)
        return lock
    except Timeout:
        deadline = time.monotonic() + _PATIENCE
    while not path.exists() and time.monotonic() < deadline:
        time.sleep(0.02)
    try:
        owner = json.loads(path.read_text())
        who = f"process {owner['pid']} on {owner['host']} since {owner['since']}"
    except (OSError, ValueError, KeyError, TypeError):  # it has just ended, or is not ours
        who = "another process"
    raise DirectoryInUseError(
        f"{directory} is in use by {who}: wait until it ends, or choose another directory"
    )
