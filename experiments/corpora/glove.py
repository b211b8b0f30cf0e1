"""Read word vectors from an array, ``glove_100d.npy``, and its words, ``words.txt``."""

from __future__ import annotations

import os
from collections.abc import Collection
from pathlib import Path

import numpy as np

from experiments.corpora.word_vectors import WordVectors, read_word_vectors


def read_vectors(path: str | os.PathLike[str], words: Collection[str]) -> WordVectors:
    """Read the vectors of the given words, as far as they have one, from such an array or text."""
    if Path(path).suffix != ".npy":
        return read_word_vectors(path, words=words)
    names = Path(path).with_name("words.txt").read_text(encoding="utf-8").split("\n")
    wanted, rows = set(words), dict[str, int]()
    for row, word in enumerate(names):
        if word in wanted:
            rows.setdefault(word, row)
    vectors = np.load(path, mmap_mode="r", allow_pickle=False)
    return WordVectors(tuple(rows), vectors[list(rows.values())])
