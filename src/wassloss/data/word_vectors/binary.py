"""The binary format of word2vec: ``words dimensions``, then a word, a space, float32s, each."""

from __future__ import annotations

from typing import IO

import numpy as np

from wassloss.data.word_vectors import text
from wassloss.data.word_vectors.rows import Rows

_BLOCK = 4 << 20
_LONGEST_WORD = 1 << 16


def read(file: IO[bytes], rows: Rows, size: int | None) -> None:
    """Read vectors into ``rows``; ``size`` is that of the file, where known."""
    first = file.readline(100)
    header = text.header(first)
    if header is None:
        raise ValueError("it must begin with a line of two integers: words and dimensions")
    count, dimensions = header
    wide = 4 * dimensions
    # A vector has at least a space before it, and a word of a byte.
    if size is not None and size < len(first) + count * (wide + 2):
        raise ValueError(
            f"it is cut short: {count} vectors of {dimensions} need at least "
            f"{len(first) + count * (wide + 2)} bytes, it has {size}"
        )
    rows.expect(count, dimensions)
    buffer, done = b"", 0
    while done < count:
        block = file.read(_BLOCK)
        if not block:
            raise ValueError(f"it is cut short: its first line says {count} words, it has {done}")
        buffer += block
        position, starts, n = 0, [], len(buffer)
        while done < count:
            space = buffer.find(b" ", position)
            if space < 0 or space + 1 + wide > n:
                break
            # The original tool ends vectors with a newline, some others do not.
            word = buffer[position:space].lstrip(b"\n")
            if rows.add(word.decode("utf-8", "backslashreplace")):
                starts.append(space + 1)
            position = space + 1 + wide
            done += 1
        if space < 0 and n - position > _LONGEST_WORD:
            raise ValueError(f"word {done} has no end: the file is not of this format")
        if starts:
            windows = np.lib.stride_tricks.sliding_window_view(
                np.frombuffer(buffer, np.uint8), wide
            )
            rows.fill(windows[starts].view("<f4"))
        buffer = buffer[position:]
    if buffer.strip(b"\n") or file.read(2).strip(b"\n"):
        raise ValueError(f"it goes on after the {count} words that its first line says")
