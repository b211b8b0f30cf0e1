"""The binary format of word2vec: ``words dimensions``, then a word, a space, float32s, each."""

from __future__ import annotations

import re
from io import BufferedIOBase
from typing import Any

import numpy as np
from numpy.typing import NDArray

from wassloss.data.word_vectors import text
from wassloss.data.word_vectors.rows import Rows

_BLOCK = 1 << 20  # what fits a core's cache: each byte is looked at twice
_LONGEST_WORD = 1 << 16
_WIDEST = 1 << 30  # bytes of a vector; regular expressions repeat up to four times as often
_SPACE = ord(" ")


def read(file: BufferedIOBase, rows: Rows, size: int | None) -> None:
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
    if wide > _WIDEST:
        raise ValueError(f"vectors must have at most {_WIDEST // 4} dimensions, got {dimensions}")
    rows.expect(count, dimensions)
    # The first space ends the first word, and the first one after its vector the next. A regular
    # expression goes that way without looking at the vectors, whatever spaces they hold.
    vector = re.compile(rb" .{%d}" % wide, re.DOTALL)
    # One buffer for all blocks: what is left of one is less than a word, a space and a vector.
    buffer = np.empty(_LONGEST_WORD + 1 + wide + _BLOCK, np.uint8)
    left, done = 0, 0
    while done < count:
        got = file.readinto(buffer.data[left : left + _BLOCK])
        if not got:
            raise ValueError(f"it is cut short: its first line says {count} words, it has {done}")
        block = buffer[: left + got]
        found, whole = vector.subn(b" ", block.data, count=count - done)
        end = 0
        if whole:
            letters, starts = _without_vectors(found, whole, wide)
            end = int(starts[-1]) + wide
            kept = starts[rows.add_all(_words(letters))]
            rows.fill(_vectors(block, kept, dimensions))
            done += whole
        left = len(block) - end
        buffer[:left] = block[end:]
        if done < count and left > _LONGEST_WORD and not (buffer[:_LONGEST_WORD] == _SPACE).any():
            raise ValueError(f"word {done} has no end: the file is not of this format")
    if buffer[:left].tobytes().strip(b"\n") or file.read(2).strip(b"\n"):
        raise ValueError(f"it goes on after the {count} words that its first line says")


def _without_vectors(found: bytes, whole: int, wide: int) -> tuple[bytes, NDArray[Any]]:
    """The words of ``whole`` records, each with its space; and where each vector was."""
    after = np.flatnonzero(np.frombuffer(found, np.uint8) == _SPACE)[:whole] + 1
    return found[: after[-1]], after + wide * np.arange(whole)


def _words(letters: bytes) -> list[str]:
    """The words in a text that has a space after each."""
    # The original tool ends vectors with a newline, some others do not.
    letters = b" " + letters
    while b" \n" in letters:
        letters = letters.replace(b" \n", b" ")
    return letters[1:-1].decode("utf-8", "backslashreplace").split(" ")


def _vectors(block: NDArray[np.uint8], starts: NDArray[Any], dimensions: int) -> NDArray[Any]:
    """The vectors that begin at ``starts``, to which no float32 need be aligned."""
    # Seen as things as wide as a vector, one from every byte on, each is copied in one go.
    wide = 4 * dimensions
    things: NDArray[Any] = np.ndarray((len(block) - wide + 1,), f"V{wide}", block, 0, (1,))
    vectors: NDArray[Any] = things[starts].view("<f4")
    return vectors.reshape(len(starts), dimensions)
