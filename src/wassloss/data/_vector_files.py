"""Files of word vectors: binary word2vec; text as GloVe, fastText and word2vec write; .npy."""

from __future__ import annotations

import bz2
import gzip
import os
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

_BLOCK = 1 << 20
_LONGEST_WORD = 1 << 16
_LONGEST_LINE = 1 << 24
_CONTROL = set(range(32)) - set(b"\t\n\r")
_NUMERIC = set(b"0123456789+-.eE \t\rnainfNAINF")
_Keep = Callable[[str], bool]  # whether to keep the vector of a word


def load(
    path: str | os.PathLike[str], wanted: set[str] | None, names: str | os.PathLike[str] | None
) -> tuple[tuple[str, ...], NDArray[np.float32]]:
    """The words and vectors of a file; :func:`wassloss.data.read_word_vectors` says the rest."""
    kept: dict[str, None] = {}

    def keep(word: str) -> bool:
        # Large files have some words twice; all who read them take the first.
        new = word not in kept and (wanted is None or word in wanted)
        if new:
            kept[word] = None
        return new

    if Path(path).suffix == ".npy":
        words, vectors = _read_array(Path(path), names)
        rows = [i for i, word in enumerate(words) if keep(word)]
        found = vectors[rows] if len(rows) < len(words) else np.array(vectors)
    elif names is not None:
        raise ValueError("names is for .npy, but this file has words of its own")
    else:
        read = _read_binary if _is_binary(path) else _read_text
        with _opened(path) as file:
            found = read(file, keep)
    if not kept:
        asked = "" if wanted is None else f" of the {len(wanted)} words asked for"
        raise ValueError(f"it has no vectors{asked}")
    return tuple(kept), found


def _read_text(file: BufferedIOBase, keep: _Keep) -> NDArray[np.float32]:
    """Lines of a word and its numbers, which may follow a line of counts."""
    counts: tuple[int, int] | None = None
    dimensions = found = 0
    data = bytearray()
    for number, line in enumerate(iter(lambda: file.readline(_LONGEST_LINE), b""), start=1):
        line = line.rstrip()
        if number == 1 and (counts := _counts(line)):
            dimensions = counts[1]
            continue
        if not line:
            continue
        dimensions = dimensions or len(line.split()) - 1
        if dimensions < 1:
            raise ValueError("line 1 must be a word and its numbers")
        word, _, numbers = line.partition(b" ")
        if numbers.count(b" ") != dimensions - 1:  # a word with spaces in it, if it is one
            word, *fields = line.rsplit(maxsplit=dimensions)
            if len(fields) < dimensions or any(map(_is_number, word.split()[1:])):
                raise ValueError(
                    f"line {number} must have {dimensions} numbers after the word, as the others, "
                    f"got {len(line.split()) - 1}"
                )
            numbers = b" ".join(fields)
        found += 1
        if keep(word.decode("utf-8", "backslashreplace")):
            data += _parse(numbers.split(), number)
    if counts is not None and found != counts[0]:
        raise ValueError(f"line 1 says {counts[0]} words, but it has {found}")
    return np.frombuffer(data, "<f4").reshape(-1, max(1, dimensions))


def _parse(fields: list[bytes], line: int) -> bytes:
    try:
        with np.errstate(over="ignore"):  # the table checks that vectors are finite
            return np.array(fields, dtype="<f4").tobytes()
    except ValueError:
        bad = next((field for field in fields if not _is_number(field)), fields[0])
        shown = bad[:40].decode("utf-8", "backslashreplace")
        raise ValueError(f"line {line} must hold numbers after the word, got {shown!r}") from None


def _read_binary(file: BufferedIOBase, keep: _Keep) -> NDArray[np.float32]:
    """After a line of counts: a word, a space and float32 numbers, over and over."""
    counts = _counts(file.readline(100))
    if counts is None:
        raise ValueError("it must begin with a line of two integers: words and dimensions")
    count, dimensions = counts
    width = 4 * dimensions
    data = bytearray()
    block, start = b"", 0
    for i in range(count):
        space = block.find(b" ", start)
        while space < 0 or len(block) <= space + width:
            if space < 0 and len(block) - start > _LONGEST_WORD:
                raise ValueError(f"word {i} has no end: the file is not of this format")
            more = file.read(_BLOCK)
            if not more:
                raise ValueError(f"it is cut short: its first line says {count} words, it has {i}")
            block, start = block[start:] + more, 0
            space = block.find(b" ")
        # The original tool ends vectors with a newline, some others do not.
        word = block[start:space].lstrip(b"\n").decode("utf-8", "backslashreplace")
        start = space + 1 + width
        if keep(word):
            data += block[space + 1 : start]
    if (block[start:] + file.read(2)).strip(b"\n"):
        raise ValueError(f"it goes on after the {count} words that its first line says")
    return np.frombuffer(data, "<f4").reshape(-1, dimensions)


def _read_array(path: Path, names: str | os.PathLike[str] | None) -> tuple[list[str], NDArray[Any]]:
    """The vectors of an .npy file, and their words from a file next to it."""
    names = path.with_name("words.txt") if names is None else names
    if path.exists() and not Path(names).exists():
        raise ValueError(
            f"it does not say which word each row is of: put them into {names}, one a line"
        )
    vectors = np.load(path, mmap_mode="r", allow_pickle=False)
    with _opened(names) as file:
        text: str = file.read().decode("utf-8")
    words = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    if vectors.ndim != 2 or vectors.dtype.kind != "f":
        raise ValueError(
            f"it must hold floats (words, dimensions), got {vectors.dtype} {vectors.shape}"
        )
    if len(words) != len(vectors):
        raise ValueError(f"{names} must name {len(vectors)} words, got {len(words)}")
    return words, vectors


def _counts(line: bytes) -> tuple[int, int] | None:
    """The numbers of words and dimensions, if the line holds just these."""
    fields = line.split()
    if len(fields) != 2 or not all(field.isdigit() for field in fields):
        return None
    count, dimensions = map(int, fields)
    return (count, dimensions) if count and dimensions else None


def _is_number(field: bytes) -> bool:
    try:
        float(field)
    except ValueError:
        return False
    return True


def _is_binary(path: str | os.PathLike[str]) -> bool:
    with _opened(path) as file:
        first, _, rest = file.read(1 << 16).partition(b"\n")
    if _counts(first) is None:
        return False
    # A word and numbers after the counts are text. Binary data may begin like text, but has
    # control characters further on.
    numbers = rest.partition(b"\n")[0].partition(b" ")[2]
    return not set(numbers) <= _NUMERIC or bool(set(rest) & _CONTROL)


@contextmanager
def _opened(path: str | os.PathLike[str]) -> Iterator[Any]:
    """A file opened for reading, decompressed if its first bytes say that it is compressed."""
    with open(path, "rb") as raw:
        opener: Any = {b"\x1f\x8b": gzip.open, b"BZ": bz2.open}.get(raw.peek(2)[:2])
        try:
            yield raw if opener is None else opener(raw)
        except (EOFError, zlib.error, OSError) as error:
            if isinstance(error, OSError) and error.errno is not None:
                raise
            raise ValueError(f"it is damaged or cut short: {error}") from error
