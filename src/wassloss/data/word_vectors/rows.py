"""The table under construction: which words are kept, and where their vectors go."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from wassloss.data.word_vectors.table import WordVectors


class Rows:
    """Collects words and vectors; memory is that of the words which are kept.

    Args:
        words: the only ones to keep, or None for all.
        first: whether to pass over a word that came before, which is otherwise an error.
    """

    def __init__(self, words: set[str] | None, first: bool) -> None:
        self._wanted = words
        self._first = first
        self._row: dict[str, int] = {}
        self._places: list[str] = []  # of each row, where they are told
        self._vectors: NDArray[np.float32] | None = None
        self._filled = 0

    def expect(self, count: int | None, dimensions: int) -> None:
        """How many vectors the file has, where it says so, and how long they are."""
        if self._wanted is not None:
            count = len(self._wanted) if count is None else min(count, len(self._wanted))
        self._vectors = np.empty((1024 if count is None else count, dimensions), np.float32)

    def add(self, word: str, place: str | None = None) -> bool:
        """Whether to keep the vector of this word, which is then to be handed to ``fill``."""
        if self._wanted is not None and word not in self._wanted:
            return False
        if word in self._row:
            if self._first:
                return False
            where = f" ({self._places[self._row[word]]} and {place})" if place else ""
            raise ValueError(f"the word {word!r} comes twice{where}; duplicates='first' allows it")
        self._row[word] = len(self._row)
        if place:
            self._places.append(place)
        return True

    def add_all(self, words: Sequence[str], unit: str | None = None) -> list[int] | slice:
        """Which of these words to keep, in order; as ``add`` for each, but faster.

        With ``unit`` their places are its numbers from 0, so they must be all words of the file.
        """
        if self._wanted is None:
            before = len(self._row)
            after = before + len(words)
            self._row.update(zip(words, range(before, after), strict=True))
            if len(self._row) == after:
                return slice(None)
            # Some came twice: take all back, with the numbers they have changed, and look at each.
            self._row = dict(zip(self._row, range(before), strict=False))
        wanted = self._wanted
        return [
            i
            for i, word in enumerate(words)
            if (wanted is None or word in wanted)
            and self.add(word, f"{unit} {i}" if unit else None)
        ]

    def fill(self, vectors: NDArray[np.floating]) -> None:
        """The vectors of the words added since the last call, in order; kept as float32."""
        if self._vectors is None:
            raise ValueError("it has no vectors")
        end = self._filled + len(vectors)
        if end > len(self._vectors):
            self._resize(max(end, 2 * len(self._vectors)))
        self._vectors[self._filled : end] = vectors
        self._filled = end

    def _resize(self, rows: int) -> None:
        if self._vectors is not None:  # in place, for the table may be most of the memory
            self._vectors.resize((rows, self._vectors.shape[1]), refcheck=False)

    def table(self) -> WordVectors:
        """What has been collected."""
        if self._vectors is None or not self._filled:
            wanted = "" if self._wanted is None else f" of the {len(self._wanted)} words asked for"
            raise ValueError(f"it has no vectors{wanted}")
        if self._filled < len(self._vectors):
            self._resize(self._filled)
        return WordVectors._of_rows(self._row, self._vectors)
