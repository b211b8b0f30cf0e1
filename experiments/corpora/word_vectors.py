"""Words, their vectors, and the ground metric that these give to labels that are words."""

from __future__ import annotations

import gzip
import os
import zlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from wassloss.ground import Embedding

Missing = Literal["error", "drop"]
_CONTROL = set(range(32)) - set(b"\t\n\r")  # characters that no text has


@dataclass(frozen=True, repr=False, eq=False)
class WordVectors:
    """Words and a vector for each.

    Attributes:
        words: all different.
        vectors: float32 `(words, dimensions)`, finite.

    >>> table = WordVectors(("cat", "dog"), np.eye(2, dtype=np.float32))
    >>> table
    WordVectors(2 words, 2 dimensions)
    >>> table.metric(["dog", "cat", "qzx"], missing="drop").labels
    ('dog', 'cat')
    """

    words: tuple[str, ...]
    vectors: NDArray[np.float32]

    def __post_init__(self) -> None:
        words, vectors = tuple(self.words), np.asarray(self.vectors)
        if vectors.ndim != 2 or vectors.dtype.kind not in "fiu":
            raise ValueError(
                "vectors must be numbers of shape (words, dimensions), got "
                f"{vectors.dtype} of shape {vectors.shape}"
            )
        if len(words) != len(vectors) or len(set(words)) < len(words):
            raise ValueError(f"words must differ, one for each of {len(vectors)} vectors")
        with np.errstate(over="ignore"):  # refused below
            vectors = vectors.astype(np.float32, copy=False)
        infinite = ~np.isfinite(vectors)
        if infinite.any():
            at, place = np.argwhere(infinite)[0]
            raise ValueError(
                f"vectors must be finite in float32, got {vectors[at, place]} for the word "
                f"{words[at]!r}"
            )
        object.__setattr__(self, "words", words)
        object.__setattr__(self, "vectors", vectors)

    @cached_property
    def _row(self) -> dict[str, int]:
        return {word: i for i, word in enumerate(self.words)}

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self._row

    def __repr__(self) -> str:
        return f"WordVectors({len(self)} words, {self.vectors.shape[1]} dimensions)"

    def missing(self, words: Iterable[str]) -> list[str]:
        """The words without a vector, or with one of length zero, which has no direction."""
        row = self._row
        return [word for word in words if word not in row or not self.vectors[row[word]].any()]

    def take(self, words: Sequence[str], missing: Missing = "error") -> WordVectors:
        """Select the vectors of these words, in this order.

        Args:
            words: all different.
            missing: what to do with words that have no vector: ``"error"`` names them, ``"drop"``
                leaves them out.
        """
        if missing not in ("error", "drop"):
            raise ValueError(f"missing must be 'error' or 'drop', got {missing!r}")
        if isinstance(words, str):
            raise TypeError(f"words must be a sequence of words, got the single string {words!r}")
        words = list(words)
        absent = dict.fromkeys(self.missing(words))
        if absent and missing == "error":
            raise ValueError(
                f"words must all have a vector, but {len(absent)} of {len(words)} have none: "
                f"{', '.join(map(repr, list(absent)[:10]))}; missing='drop' leaves them out"
            )
        kept = [word for word in words if word not in absent]
        if not kept:
            raise ValueError(f"words must have vectors, but none of the {len(words)} has one")
        return WordVectors(tuple(kept), self.vectors[[self._row[word] for word in kept]])

    def metric(
        self, labels: Sequence[str], *, missing: Missing = "error", **options: Any
    ) -> Embedding:
        """The distances between the labels' vectors, scaled to length 1 as in the paper.

        Args:
            labels: words, all different.
            missing: as in :meth:`take`; after ``"drop"``, the metric has the remaining labels.
            options: ``power``, ``scale`` and others of :class:`wassloss.ground.Embedding`.
        """
        chosen = self.take(labels, missing)
        return Embedding(chosen.vectors, labels=chosen.words, **options)


def read_word_vectors(
    path: str | os.PathLike[str], *, words: Collection[str] | None = None
) -> WordVectors:
    r"""Read word vectors: text as GloVe, fastText and word2vec write it.

    Files that end in ``.gz`` are decompressed. The file is streamed: memory holds the vectors that
    are kept and a small block of the file. Of a word that comes twice, the first vector is kept.

    Args:
        path: the file.
        words: the words to keep; by default all.

    Raises:
        ValueError: one line that names the file and, if there is one, the line.

    >>> import tempfile
    >>> from pathlib import Path
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "glove.txt")
    ...     _ = path.write_text("the 0.1 0.2\ncat 1 -1\n")
    ...     read_word_vectors(path, words=["cat"]).vectors
    array([[ 1., -1.]], dtype=float32)
    """
    if isinstance(words, str):
        raise TypeError(f"words must be a collection of words, got the single string {words!r}")
    wanted = None if words is None else set(words)
    opened: Any = gzip.open if Path(path).suffix == ".gz" else open
    try:
        with opened(path, "rb") as file:
            kept, vectors = _read_text(file, wanted)
        if not kept:
            asked = "" if wanted is None else f" of the {len(wanted)} words asked for"
            raise ValueError(f"it has no vectors{asked}")
        return WordVectors(tuple(kept), vectors)
    except (ValueError, EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise ValueError(f"{path} cannot be read as word vectors: {error}") from error


def _read_text(file: Any, wanted: set[str] | None) -> tuple[Collection[str], NDArray[Any]]:
    """Lines of a word and its numbers, which may follow a line of counts."""
    if _CONTROL & set(file.peek(1)):
        raise ValueError(
            "it is not text: WordVectors takes words and an array, from numpy.load or, for binary "
            "word2vec files, gensim's KeyedVectors.load_word2vec_format(path, binary=True)"
        )
    count, dimensions, found = None, 0, 0
    kept: dict[str, None] = {}
    data = bytearray()
    for place, line in enumerate(map(bytes.rstrip, file), start=1):
        if place == 1 and len(line.split()) == 2 and line.replace(b" ", b"").isdigit():
            count, dimensions = map(int, line.split())
            continue
        if not line:
            continue
        dimensions = dimensions or len(line.split()) - 1
        if dimensions < 1:
            raise ValueError("line 1 must be a word and its numbers")
        word, numbers = _divided(line, dimensions, place)
        found += 1
        # Large files have some words twice; all who read them take the first.
        if word not in kept and (wanted is None or word in wanted):
            kept[word] = None
            try:
                with np.errstate(over="ignore"):  # the table checks that vectors are finite
                    data += np.array(numbers.split(), dtype="<f4").tobytes()
            except ValueError as error:
                reason = f"line {place} must hold numbers after the word: {error}"
                raise ValueError(reason) from error
    if count is not None and found != count:
        raise ValueError(f"line 1 says {count} words, but it has {found}")
    return kept, np.frombuffer(data, "<f4").reshape(-1, max(1, dimensions))


def _divided(line: bytes, dimensions: int, place: int) -> tuple[str, bytes]:
    """The word of a line, which may have spaces in it, and its numbers."""
    text, _, numbers = line.partition(b" ")
    if numbers.count(b" ") == dimensions - 1:
        return text.decode("utf-8", "backslashreplace"), numbers
    text, *fields = line.rsplit(maxsplit=dimensions)
    word = text.decode("utf-8", "backslashreplace")
    if len(fields) < dimensions or any(map(_is_number, word.split()[1:])):
        raise ValueError(
            f"line {place} must have {dimensions} numbers after the word, as the others, got "
            f"{len(line.split()) - 1}"
        )
    return word, b" ".join(fields)


def _is_number(word: str) -> bool:
    try:
        float(word)
    except ValueError:
        return False
    return True
