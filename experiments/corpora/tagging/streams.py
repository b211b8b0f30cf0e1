"""Read files that may be compressed, one block at a time."""

from __future__ import annotations

import bz2
import gzip
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from io import BufferedIOBase, BufferedReader
from typing import Any

_OPENERS: dict[bytes, Any] = {b"\x1f\x8b": gzip.open, b"BZh": bz2.open}


@contextmanager
def unpacked(raw: BufferedReader) -> Iterator[BufferedIOBase]:
    """Decompress an open file while reading, if it is compressed."""
    start = raw.peek(4)[:4]
    opener = next((o for magic, o in _OPENERS.items() if start.startswith(magic)), None)
    try:
        if opener is None:
            yield raw
        else:
            with opener(raw) as file:
                yield file
    # bz2 raises an OSError without errno for damaged data; errors of the system have one.
    except (EOFError, zlib.error, gzip.BadGzipFile, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise
        raise ValueError(f"{raw.name} is damaged or cut short: {error}") from error


def line_blocks(file: BufferedIOBase, size: int) -> Iterator[bytes]:
    r"""Yield blocks of whole lines, each of at most twice ``size`` bytes.

    A longer line is cut, so that memory stays bounded.

    >>> import io
    >>> list(line_blocks(io.BytesIO(b"a\nb\ncdefg\nh"), size=4))
    [b'a\nb\n', b'cdefg\n', b'h']
    """
    carry = b""
    while block := file.read(size):
        end = block.rfind(b"\n") + 1
        if not end:
            carry += block if len(carry) < size else b""
            continue
        yield carry + block[:end]
        carry = block[end:]
    if carry:
        yield carry
