"""A small text corpus: definitions of WordNet's nouns, with GloVe distances between words."""

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
    """Definitions as sequences of word ids.

    Attributes:
        metric: of the words to predict, whose ids 0, 1, … are sorted by frequency.
        ids: `(texts, 1 + length)`. Ids from `metric.size` on are inputs only, never predicted:
            frequent words without a vector, a token for rare words, and tokens for the start and
            the padding of texts.
        tokens: number of different ids.
    """

    metric: Embedding
    ids: NDArray[np.int64]
    tokens: int


def glosses(
    vocabulary: int, length: int, folder: str | os.PathLike[str] | None = None, seed: int = 0
) -> Glosses:
    """Different definitions in random order.

    Args:
        vocabulary: number of most frequent words to keep.
        length: number of words per text; longer texts are cut.
        folder: folder with ``data.noun``, gzipped or not; default: ``wordnet/`` in
            ``$WASSLOSS_DATA`` or the user's cache.
        seed: of the order.

    Raises:
        FileNotFoundError: WordNet or the vectors are missing; the message says where to put them.
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
