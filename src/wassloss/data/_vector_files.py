"""Files of word vectors: binary word2vec; text as GloVe, fastText and word2vec write; NumPy."""

from __future__ import annotations

import bz2
import gzip
import os
import zlib
from collections.abc import Callable, Iterator, Sequence
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
_Keep = Callable[[str, int], bool]  # whether to keep the word at a place of the file


def load(
    path: str | os.PathLike[str],
    wanted: set[str] | None,
    format: Format | None,
    names: str | os.PathLike[str] | None,
    first: bool,
) -> tuple[tuple[str, ...], NDArray[np.float32]]:
    """The words and vectors of a file; :func:`wassloss.data.read_word_vectors` says the rest."""
    kind = format or _guess(path)
    if kind not in get_args(Format):
        raise ValueError(f"format must be 'word2vec', 'text', 'npy' or 'npz', got {format!r}")
    unit = {"text": "line", "word2vec": "word"}.get(kind, "row")
    place: dict[str, int] = {}  # of the words that are kept so far

    def keep(word: str, at: int) -> bool:
        if wanted is not None and word not in wanted:
            return False
        if word in place and not first:
            raise ValueError(
                f"the word {word!r} comes twice ({unit} {place[word]} and {unit} {at}); "
                "duplicates='first' allows it"
            )
        return place.setdefault(word, at) == at

    if unit == "row":
        words, vectors = _read_arrays(Path(path), names, kind)
        rows = [i for i, word in enumerate(words) if keep(word, i)]
        found = vectors[rows] if len(rows) < len(words) else np.array(vectors)
    elif names is not None:
        raise ValueError("names is for .npy and .npz, but this file has words of its own")
    else:
        with _opened(path) as file:
            found = (_read_text if kind == "text" else _read_binary)(file, keep)
    if not place:
        asked = "" if wanted is None else f" of the {len(wanted)} words asked for"
        raise ValueError(f"it has no vectors{asked}")
    return tuple(place), found


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
        if keep(word.decode("utf-8", "backslashreplace"), number):
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
        if keep(word, i):
            data += block[space + 1 : start]
    if (block[start:] + file.read(2)).strip(b"\n"):
        raise ValueError(f"it goes on after the {count} words that its first line says")
    return np.frombuffer(data, "<f4").reshape(-1, dimensions)


def _read_arrays(
    path: Path, names: str | os.PathLike[str] | None, kind: str
) -> tuple[Sequence[str], NDArray[Any]]:
    """Words and vectors of NumPy's files."""
    arrays: dict[str, NDArray[Any]] = {}
    if kind == "npy":
        names = path.with_name("words.txt") if names is None else names
        if path.exists() and not Path(names).exists():
            raise ValueError(
                f"it does not say which word each row is of: put them into {names}, one a line"
            )
        vectors = np.load(path, mmap_mode="r", allow_pickle=False)
    else:
        arrays = read_npz(path)
        needed = {"vectors"} if names is not None else {"vectors", "words"}
        if needed - arrays.keys():
            raise ValueError(
                f"it must hold {' and '.join(sorted(needed))}, got {', '.join(sorted(arrays))}"
            )
        vectors = arrays["vectors"]
    if names is not None:
        with _opened(names) as file:
            text: str = file.read().decode("utf-8")
        words = text.replace("\r\n", "\n").removesuffix("\n").split("\n")
    elif arrays["words"].ndim == 1 and arrays["words"].dtype.kind == "U":
        words = arrays["words"].tolist()
    else:
        raise ValueError(f"words must be strings (words,), got {arrays['words'].dtype}")
    if vectors.ndim != 2 or vectors.dtype.kind != "f":
        raise ValueError(
            f"it must hold floats (words, dimensions), got {vectors.dtype} {vectors.shape}"
        )
    if len(words) != len(vectors):
        raise ValueError(f"{names or 'words'} must name {len(vectors)} words, got {len(words)}")
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
