"""Words, their vectors, and the ground metric that these give to labels that are words."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from wassloss._checks import check_choice
from wassloss.data._arrow import one_line
from wassloss.data._vector_files import load
from wassloss.data.labels import shown
from wassloss.ground import Embedding

Missing = Literal["error", "drop"]


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
    _row: dict[str, int] = field(init=False)

    def __post_init__(self) -> None:
        words, vectors = tuple(self.words), np.asarray(self.vectors)
        if vectors.ndim != 2 or vectors.dtype.kind not in "fiu":
            raise ValueError(
                "vectors must be numbers of shape (words, dimensions), got "
                f"{vectors.dtype} of shape {vectors.shape}"
            )
        if len(words) != len(vectors):
            raise ValueError(f"words must be as many as vectors, {len(vectors)}, got {len(words)}")
        row = {word: i for i, word in enumerate(words)}
        if len(row) != len(words):
            twice = next(word for i, word in enumerate(words) if row[word] != i)
            raise ValueError(f"words must differ, got {twice!r} twice")
        with np.errstate(over="ignore", invalid="ignore"):  # checked below
            vectors = vectors.astype(np.float32, copy=False)
            # The sum takes less memory than a mask of the table, but may overflow by itself.
            suspect = not np.isfinite(np.sum(vectors))
        if suspect and len(bad := np.flatnonzero(~np.isfinite(vectors).all(1))):
            got = next(value for value in vectors[bad[0]] if not np.isfinite(value))
            raise ValueError(
                f"vectors must be finite in float32, got {got} for the word {words[bad[0]]!r}"
            )
        for name, value in {"words": words, "vectors": vectors, "_row": row}.items():
            object.__setattr__(self, name, value)

    def __len__(self) -> int:
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        return word in self._row

    def __repr__(self) -> str:
        return f"WordVectors({len(self)} words, {self.vectors.shape[1]} dimensions)"

    def missing(self, words: Iterable[str]) -> list[str]:
        """The words without a vector, or with one of length zero, which has no direction."""
        return [
            word for word in words if word not in self or not self.vectors[self._row[word]].any()
        ]

    def take(self, words: Sequence[str], missing: Missing = "error") -> WordVectors:
        """Select the vectors of these words, in this order.

        Args:
            words: all different.
            missing: what to do with words that have no vector: ``"error"`` names them, ``"drop"``
                leaves them out.
        """
        check_choice("missing", missing, ("error", "drop"))
        if isinstance(words, str):
            raise TypeError(f"words must be a sequence of words, got the single string {words!r}")
        words = list(words)
        absent = dict.fromkeys(self.missing(words))
        if absent and missing == "error":
            raise ValueError(
                f"words must all have a vector, but {len(absent)} of {len(words)} have none: "
                f"{shown(list(absent), 10)}; missing='drop' leaves them out"
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
    path: str | os.PathLike[str],
    *,
    words: Collection[str] | None = None,
    names: str | os.PathLike[str] | None = None,
) -> WordVectors:
    r"""Read word vectors: word2vec (binary or text), GloVe, fastText text, or ``.npy``.

    Files may be compressed with gzip or bzip2. They are streamed: memory holds the vectors that are
    kept and a small block of the file. Of a word that comes twice, the first vector is kept.

    Args:
        path: the file.
        words: the words to keep; by default all.
        names: the file with the words of a ``.npy``, one per line; by default ``words.txt`` next
            to it.

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
    try:
        return WordVectors(*load(path, None if words is None else set(words), names))
    except ValueError as error:
        what = f"{os.fspath(path)} cannot be read as word vectors"
        raise ValueError(f"{what}: {one_line(error)}") from error
