"""Words and their vectors."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

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
        words = tuple(self.words)
        row = dict(zip(words, range(len(words)), strict=True))
        self._set(words, self.vectors, row)
        if len(row) != len(words):
            twice = next(word for i, word in enumerate(words) if row[word] != i)
            raise ValueError(f"words must differ, got {twice!r} twice")

    @classmethod
    def _of_rows(cls, row: dict[str, int], vectors: NDArray[np.floating]) -> WordVectors:
        """The table of words that are known to differ, with the row of each, in order."""
        table = cls.__new__(cls)
        table._set(tuple(row), vectors, row)
        return table

    def _set(
        self, words: tuple[str, ...], vectors: NDArray[np.floating], row: dict[str, int]
    ) -> None:
        vectors = np.asarray(vectors)
        if vectors.ndim != 2 or vectors.dtype.kind not in "fiu":
            raise ValueError(
                "vectors must be numbers of shape (words, dimensions), got "
                f"{vectors.dtype} of shape {vectors.shape}"
            )
        if len(words) != len(vectors):
            raise ValueError(f"words must be as many as vectors, {len(vectors)}, got {len(words)}")
        with np.errstate(over="ignore"):  # looked for below
            vectors = vectors.astype(np.float32, copy=False)
        # One sum over everything instead of a mask as large as the table; large numbers may make
        # it overflow.
        with np.errstate(over="ignore", invalid="ignore"):
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
        """Those of ``words`` that have no vector, or one of length zero, which has no direction."""
        return [
            word for word in words if word not in self or not self.vectors[self._row[word]].any()
        ]

    def take(self, words: Sequence[str], missing: Missing = "error") -> WordVectors:
        """The vectors of these words, in this order.

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
        absent = self.missing(words)
        if absent and missing == "error":
            shown = ", ".join(map(repr, absent[:10])) + (", ..." if len(absent) > 10 else "")
            raise ValueError(
                f"words must all have a vector, but {len(absent)} of {len(words)} have none: "
                f"{shown}; missing='drop' leaves them out"
            )
        gone = set(absent)
        kept = [word for word in words if word not in gone]
        if not kept:
            raise ValueError(f"words must have vectors, but none of the {len(words)} has one")
        return WordVectors(tuple(kept), self.vectors[[self._row[word] for word in kept]])

    def metric(
        self, labels: Sequence[str], *, missing: Missing = "error", **options: Any
    ) -> Embedding:
        """Distances between the labels' vectors, brought to length 1, as in the paper.

        Args:
            labels: words, all different.
            missing: as in :meth:`take`; after ``"drop"``, the metric's ``labels`` are those left.
            options: ``power``, ``scale`` and others of :class:`wassloss.ground.Embedding`.
        """
        chosen = self.take(labels, missing)
        return Embedding(chosen.vectors, labels=chosen.words, **options)
