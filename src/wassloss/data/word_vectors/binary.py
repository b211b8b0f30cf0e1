"""The binary format of word2vec: ``words dimensions``, then a word, a space, float32s, each."""

from __future__ import annotations

from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from wassloss.data.word_vectors import text
from wassloss.data.word_vectors.rows import Rows

_BLOCK = 1 << 20  # what fits a core's cache: each byte is looked at twice
_LONGEST_WORD = 1 << 16
_SPACE, _NEWLINE = b" \n"


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
    rest, done = b"", 0
    while done < count:
        block = file.read(_BLOCK)
        if not block:
            raise ValueError(f"it is cut short: its first line says {count} words, it has {done}")
        rest += block
        buffer = np.frombuffer(rest, np.uint8)
        spaces = _spaces(buffer, wide, count - done)
        done += len(spaces)
        end = 0
        if len(spaces):
            ends = spaces + (1 + wide)
            end = int(ends[-1])
            words = _words(buffer, np.append(0, ends[:-1]), spaces)
            kept = spaces[rows.add_all(words)] + 1
            windows = np.lib.stride_tricks.sliding_window_view(buffer, wide)
            rows.fill(windows[kept].view("<f4"))
        rest = rest[end:]
        if done < count and len(rest) > _LONGEST_WORD and rest.find(b" ", 0, _LONGEST_WORD) < 0:
            raise ValueError(f"word {done} has no end: the file is not of this format")
    if rest.strip(b"\n") or file.read(2).strip(b"\n"):
        raise ValueError(f"it goes on after the {count} words that its first line says")


def _spaces(buffer: NDArray[np.uint8], wide: int, most: int) -> NDArray[Any]:
    """Where the space after the word is, in each of the records that ``buffer`` holds whole.

    The first space ends the first word, and the first one after its vector the next. All spaces
    are found at once, those within vectors too, and for each the one to go on to; the way along
    them is then walked in steps of one, two, four and so on, with nothing to do for each word.
    """
    found = np.flatnonzero(buffer == _SPACE)
    whole = int(np.searchsorted(found, len(buffer) - wide))  # others lack some of their vector
    onward = np.searchsorted(found, found[:whole] + (1 + wide))
    onward = np.append(np.minimum(onward, whole), whole)  # and there it stays
    way = np.zeros(1, np.intp)
    while way[-1] < whole:
        way = np.append(way, onward[way])
        onward = onward[onward]
    return found[way[way < whole][:most]]


def _words(buffer: NDArray[np.uint8], starts: NDArray[Any], spaces: NDArray[Any]) -> list[str]:
    """The words from ``starts`` to ``spaces``, decoded together."""
    # The original tool ends vectors with a newline, some others do not.
    while (late := buffer[starts] == _NEWLINE).any():
        starts = starts + late
    lengths = spaces - starts + 1  # with the space, which no word has inside
    shifts = starts - (np.cumsum(lengths) - lengths)
    letters: bytes = buffer[np.repeat(shifts, lengths) + np.arange(lengths.sum())].tobytes()
    return letters[:-1].decode("utf-8", "backslashreplace").split(" ")
