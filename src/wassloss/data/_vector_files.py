"""Files of word vectors: binary word2vec; text as GloVe, fastText and word2vec write; NumPy."""

from __future__ import annotations

import bz2
import gzip
import os
import zlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from io import BufferedIOBase
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
from numpy.typing import NDArray

from wassloss._files import read_npz

Format = Literal["word2vec", "text", "npy", "npz"]
_BLOCK = 1 << 20
_LONGEST_WORD = 1 << 16
_LONGEST_LINE = 1 << 24
_CONTROL = set(range(32)) - set(b"\t\n\r")
_NUMERIC = set(b"0123456789+-.eE \t\rnainfNAINF")
_Table = tuple[tuple[str, ...], NDArray[np.float32]]


def load(
    path: str | os.PathLike[str],
    wanted: set[str] | None,
    format: Format | None,
    names: str | os.PathLike[str] | None,
    first: bool,
) -> _Table:
    """The words and vectors of a file; :func:`wassloss.data.read_word_vectors` says the rest."""
    kind = format or _guess(path)
    if kind not in get_args(Format):
        raise ValueError(f"format must be 'word2vec', 'text', 'npy' or 'npz', got {format!r}")
    if kind in ("npy", "npz"):
        words, vectors = _read_arrays(Path(path), names, kind)
        kept = _Kept(wanted, first, "row")
        rows = [i for i, word in enumerate(words) if kept.add(word, i)]
        found = vectors[rows] if len(rows) < len(words) else np.array(vectors)
    else:
        if names is not None:
            raise ValueError("names is for .npy and .npz, but this file has words of its own")
        kept = _Kept(wanted, first, "line" if kind == "text" else "word")
        with _opened(path) as file:
            found = _read_text(file, kept) if kind == "text" else _read_binary(file, kept)
    if not len(kept.row):
        asked = "" if wanted is None else f" of the {len(wanted)} words asked for"
        raise ValueError(f"it has no vectors{asked}")
    return tuple(kept.row), found


class _Kept:
    """The words that are kept so far."""

    def __init__(self, wanted: set[str] | None, first: bool, unit: str) -> None:
        self.row: dict[str, int] = {}
        self._wanted, self._first, self._unit = wanted, first, unit
        self._places: list[int] = []

    def add(self, word: str, place: int) -> bool:
        """Whether to keep the vector of this word, which stands at this place of the file."""
        if self._wanted is not None and word not in self._wanted:
            return False
        if word in self.row:
            if self._first:
                return False
            before = self._places[self.row[word]]
            raise ValueError(
                f"the word {word!r} comes twice ({self._unit} {before} and {self._unit} {place}); "
                "duplicates='first' allows it"
            )
        self.row[word] = len(self.row)
        self._places.append(place)
        return True


def _read_text(file: BufferedIOBase, kept: _Kept) -> NDArray[np.float32]:
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
        if numbers.count(b" ") != dimensions - 1:
            word, numbers = _split(line, dimensions, number)
        found += 1
        if kept.add(word.decode("utf-8", "backslashreplace"), number):
            data += _parse(numbers.split(), number)
    if counts is not None and found != counts[0]:
        raise ValueError(f"line 1 says {counts[0]} words, but it has {found}")
    return np.frombuffer(data, "<f4").reshape(-1, max(1, dimensions))


def _split(line: bytes, dimensions: int, number: int) -> tuple[bytes, bytes]:
    """The parts of a line whose word has spaces in it, as in GloVe's largest file."""
    fields = line.split()
    inside = fields[1:-dimensions]
    if len(fields) <= dimensions or any(_is_number(field) for field in inside):
        raise ValueError(
            f"line {number} must have {dimensions} numbers after the word, as the others, got "
            f"{len(fields) - 1}"
        )
    return b" ".join(fields[:-dimensions]), b" ".join(fields[-dimensions:])


def _parse(fields: list[bytes], line: int) -> bytes:
    try:
        with np.errstate(over="ignore"):  # the table checks that vectors are finite
            return np.array(fields, dtype="<f4").tobytes()
    except ValueError:
        bad = next((field for field in fields if not _is_number(field)), fields[0])
        shown = bad[:40].decode("utf-8", "backslashreplace")
        raise ValueError(f"line {line} must hold numbers after the word, got {shown!r}") from None


def _read_binary(file: BufferedIOBase, kept: _Kept) -> NDArray[np.float32]:
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
        if kept.add(word, i):
            data += block[space + 1 : start]
    if (block[start:] + file.read(2)).strip(b"\n"):
        raise ValueError(f"it goes on after the {count} words that its first line says")
    return np.frombuffer(data, "<f4").reshape(-1, dimensions)


def _read_arrays(
    path: Path, names: str | os.PathLike[str] | None, kind: str
) -> tuple[Sequence[str], NDArray[Any]]:
    """Words and vectors of NumPy's files."""
    if kind == "npy":
        listed = path.with_name("words.txt") if names is None else Path(names)
        if names is None and path.exists() and not listed.exists():
            raise ValueError(
                f"it does not say which word each row is of: put them into {listed}, one a line"
            )
        vectors = np.load(path, mmap_mode="r", allow_pickle=False)
        words, source = _lines(listed), str(listed)
    else:
        arrays = read_npz(path)
        needed = {"vectors"} if names is not None else {"vectors", "words"}
        if needed - arrays.keys():
            raise ValueError(
                f"it must hold {' and '.join(sorted(needed))}, got {', '.join(sorted(arrays))}"
            )
        vectors = arrays["vectors"]
        if names is None and (arrays["words"].ndim != 1 or arrays["words"].dtype.kind != "U"):
            raise ValueError(f"words must be strings (words,), got {arrays['words'].dtype}")
        words = arrays["words"].tolist() if names is None else _lines(Path(names))
        source = "words" if names is None else os.fspath(names)
    if vectors.ndim != 2 or vectors.dtype.kind != "f":
        raise ValueError(
            f"it must hold floats (words, dimensions), got {vectors.dtype} {vectors.shape}"
        )
    if len(words) != len(vectors):
        raise ValueError(f"{source} must name {len(vectors)} words, got {len(words)}")
    return words, vectors


def _lines(path: Path) -> list[str]:
    with _opened(path) as file:
        text: str = file.read().decode("utf-8")
    return text.replace("\r\n", "\n").removesuffix("\n").split("\n")


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


def _guess(path: str | os.PathLike[str]) -> Format:
    suffix = Path(path).suffix
    if suffix in (".npy", ".npz"):
        return "npy" if suffix == ".npy" else "npz"
    with _opened(path) as file:
        first, _, rest = file.read(1 << 16).partition(b"\n")
    if _counts(first) is None:
        return "text"
    # A word and numbers after the counts are text. Binary data may begin like text, but has
    # control characters further on.
    numbers = rest.partition(b"\n")[0].partition(b" ")[2]
    return "text" if set(numbers) <= _NUMERIC and not set(rest) & _CONTROL else "word2vec"


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
