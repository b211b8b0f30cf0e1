"""One process at a time per directory: a lock that names its owner and ends with its process."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from wassloss.files import write_file

LOCK, OWNER = ".wassloss.lock", ".wassloss.owner"


class DirectoryInUseError(OSError):
    """Another process, or another thread of this one, is writing to the directory."""


@contextmanager
def owned(directory: Path) -> Iterator[None]:
    """Own a directory, which is created if necessary, until the block ends.

    The lock is the operating system's and ends with its process, however that ends, so a dead
    process leaves nothing to clean up. Blocks can be nested. The empty file ``.wassloss.lock``
    stays: removing it could let two processes lock two files of the same name.
    """
    place = directory.resolve()
    place.mkdir(parents=True, exist_ok=True)
    lock = _locked(directory)
    try:
        if lock.lock_counter == 1:
            now = datetime.now(timezone.utc).isoformat(timespec="seconds")
            owner = f"process {os.getpid()} on {socket.gethostname()} since {now}"
            write_file(place / OWNER, owner.encode())
        yield
    finally:
        if lock.lock_counter == 1:
            (place / OWNER).unlink(missing_ok=True)
        lock.release()


def check_not_in_use(directory: Path) -> None:
    """Raise the error of `owned` if another process owns a directory; nothing is written."""
    if (directory / LOCK).exists():
        _locked(directory).release()


def _locked(directory: Path) -> Any:
    """The lock of a directory, acquired; the thread that has it may acquire it again."""
    from filelock import FileLock, Timeout

    lock = FileLock(directory.resolve() / LOCK, is_singleton=True)
    try:
        lock.acquire(timeout=0)
    except Timeout:
        try:
            owner = (directory / OWNER).read_text()
        except OSError:  # it has just begun or ended
            owner = "another process"
        raise DirectoryInUseError(
            f"{directory} is in use by {owner}: wait until it ends, or choose another directory"
        ) from None
    return lock
