"""A small text corpus: the definitions of WordNet's nouns, with GloVe's distances between words."""

from __future__ import annotations

import os
import re
from collections import Counter
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from experiments.corpora.definitions import definition
from experiments.corpora.glove import read_vectors
from experiments.corpora.hypernyms import read_taxonomy
from experiments.corpora.lookup import find
from wassloss.ground import Embedding

_WORD = re.compile(r"[a-z]+(?:['-][a-z]+)*")


@dataclass(frozen=True)
class Glosses:
    """Definitions as words.

    Attributes:
        metric: of the words to predict, which have ids 0, 1, … from the most frequent on.
        ids: `(texts, 1 + length)`. Ids of `metric.size` and more are read but never predicted:
            frequent words without a vector, all rare words, the start of each text, and what
            follows its end.
        tokens: different ids.
    """

    metric: Embedding
    ids: NDArray[np.int64]
    tokens: int


def glosses(
    vocabulary: int, length: int, folder: str | os.PathLike[str] | None = None, seed: int = 0
) -> Glosses:
    """Different definitions in random order.

    Args:
        vocabulary: how many of the most frequent words are known.
        length: words of a text; longer texts are cut.
        folder: of ``data.noun``, gzipped or not; by default ``wordnet/`` of ``$WASSLOSS_DATA`` or
            of the user's cache.
        seed: of the order.

    Raises:
        FileNotFoundError: WordNet or the vectors are not there; the message says where they go.
    """
    found = (_WORD.findall(definition(n.gloss)) for n in read_taxonomy(folder).values())
    texts = [text for text in dict.fromkeys(map(tuple, found)) if text]
    counts = Counter(word for text in texts for word in text)
    frequent = [word for word, _ in counts.most_common(vocabulary)]
    vectors = read_vectors(find("glove", "glove_100d.npy"), frequent)
    missing = vectors.missing(frequent)
    known = [word for word in frequent if word not in set(missing)]
    place = {word: index for index, word in enumerate([*known, *missing])}
    rare, start = len(place), len(place) + 1
    ids = np.full((len(texts), 1 + length), rare)
    ids[:, 0] = start
    for row, text in zip(ids, texts, strict=True):
        cut = text[:length]
        row[1 : 1 + len(cut)] = [place.get(word, rare) for word in cut]
    order = np.random.default_rng(seed).permutation(len(ids))
    metric = Embedding(vectors.take(known).vectors, labels=known)
    return Glosses(metric, ids[order], len(place) + 2)
