"""One file from the web: in pieces if need be, and under its own name only once it is whole."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from http.client import HTTPException
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import Request, urlopen

Progress = Callable[[int, int | None], None]
_BLOCK = 1 << 20
_SECONDS = 60.0  # without a byte, after which a server counts as gone
_NOTHING_LEFT = 416  # what a server says when asked for bytes after the last


def fetch(url: str, path: Path, checksum: str, progress: Progress | None = None) -> Path:
    """Download to ``path`` unless it is there and whole; go on where an earlier call stopped.

    Bytes go to a file beside ``path`` that stays when the connection breaks, and is asked to be
    continued (HTTP's Range) the next time. It is renamed when its checksum is the expected one,
    and removed when it is another.

    Args:
        url: of the file.
        path: where it goes.
        checksum: ``algorithm:digits``, as pooch writes it.
        progress: called with the bytes done and all there are, where the server says.

    Raises:
        OSError: it could not be downloaded whole; one line says why, and whether a part is kept.
    """
    hash_of = _hash_of(checksum)
    expected = checksum.rpartition(":")[2].lower()
    if path.is_file() and hash_of(path) == expected:
        return path
    path.parent.mkdir(parents=True, exist_ok=True)
    # Named by the checksum: the beginning of another version is never gone on with.
    partial = path.with_name(f".{path.name}.{expected[:16]}.partial")
    resumed = _download(url, path, partial, progress)
    if hash_of(partial) != expected and resumed:  # the server may have changed its file
        partial.unlink()
        _download(url, path, partial, progress)
    found = hash_of(partial)
    if found != expected:
        partial.unlink()
        raise OSError(
            f"{url} is not the file that was expected: its checksum is {found}, not {expected}; "
            f"nothing was written to {path}"
        )
    os.replace(partial, path)
    return path


def _hash_of(checksum: str) -> Callable[[Path], str]:
    try:
        import pooch
    except ImportError as error:
        raise ImportError("downloads need pooch: pip install 'wassloss[data]'") from error
    algorithm = checksum.rpartition(":")[0] or "sha256"
    return lambda path: str(pooch.file_hash(path, alg=algorithm)).lower()


def _download(url: str, path: Path, partial: Path, progress: Progress | None) -> bool:
    """Bring ``partial`` to its full length; whether some of it was there before."""
    try:
        before = partial.stat().st_size if partial.exists() else 0
        before = _append(url, partial, before, progress)
    except (OSError, HTTPException) as error:
        kept = partial.stat().st_size if partial.exists() else 0
        if not kept:
            partial.unlink(missing_ok=True)
        advice = f"; {kept} bytes are kept, the same command goes on from there" if kept else ""
        said = " ".join(str(error).split()) or type(error).__name__
        raise OSError(f"{url} could not be downloaded to {path}: {said}{advice}") from error
    return before > 0


def _append(url: str, partial: Path, before: int, progress: Progress | None) -> int:
    """Write what is missing; how many bytes of ``before`` were of use."""
    # Compressed on the way, the bytes could not be counted.
    headers = {"Accept-Encoding": "identity"}
    if before:
        headers["Range"] = f"bytes={before}-"
    try:
        # Addresses are those of downloads.py, all of http.
        response = urlopen(Request(url, headers=headers), timeout=_SECONDS)  # nosec B310
    except HTTPError as error:
        error.close()
        if error.code != _NOTHING_LEFT or not before:
            raise
        return before  # it seems whole; its checksum tells
    with response:
        start, total = _place(response, before)
        with open(partial, "r+b" if start else "wb") as file:
            file.seek(start)
            done = start
            while block := response.read(_BLOCK):
                file.write(block)
                done += len(block)
                if progress is not None:
                    progress(done, total)
            file.truncate()
            file.flush()
            os.fsync(file.fileno())
    if total is not None and done != total:
        raise OSError(f"the connection broke after {done} of {total} bytes")
    return start


def _place(response: Any, before: int) -> tuple[int, int | None]:
    """Where the response begins in the file, and the length of the file, where it says so."""
    length = response.headers.get("Content-Length")
    if response.status == 206:
        span = re.fullmatch(r"bytes (\d+)-\d+/(\d+|\*)", response.headers.get("Content-Range", ""))
        if span is None or int(span[1]) != before:
            raise OSError(f"the server was asked for bytes from {before} and sent others")
        return before, None if span[2] == "*" else int(span[2])
    return 0, None if length is None else int(length)  # the whole file: Range was passed over
