"""Choose the tags to learn: words of WordNet that are descriptive, frequent and have a vector."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from experiments.corpora.wordnet import WordNet

DROPPED_CATEGORIES = ("noun.location", "noun.time")


@dataclass(frozen=True)
class Vocabulary:
    """The tags, most frequent first.

    Attributes:
        tags: their names.
        photos: number of photos with each tag.
        categories: lexical category of each tag.
        dropped: number of words of photos that were left out, by reason.
    """

    tags: tuple[str, ...]
    photos: tuple[int, ...]
    categories: tuple[str, ...]
    dropped: Mapping[str, int]


def candidates(
    counts: Mapping[str, int],
    wordnet: WordNet,
    *,
    drop_categories: Collection[str] = DROPPED_CATEGORIES,
    stop_words: Collection[str] = (),
    keep: Collection[str] = (),
) -> Vocabulary:
    """Return all words that could be tags, most frequent first, then alphabetically.

    Args:
        counts: number of photos by word.
        wordnet: gives the dominant lexical category of a word.
        drop_categories: categories to leave out.
        stop_words: words to leave out.
        keep: words to keep whatever their category.
    """
    kept, dropped = set(keep), dict.fromkeys([*drop_categories, "stop list", "number"], 0)
    found = []
    for word, count in counts.items():
        category = wordnet.category(word) or ""
        if count <= 0:
            continue
        if word in stop_words:
            dropped["stop list"] += 1
        elif word not in kept and category in drop_categories:
            dropped[category] += 1
        elif word not in kept and any(character.isdigit() for character in word):
            dropped["number"] += 1
        else:
            found.append((-count, word, category))
    found.sort()
    return Vocabulary(
        tuple(word for _, word, _ in found),
        tuple(-negative for negative, _, _ in found),
        tuple(category for _, _, category in found),
        dropped,
    )


def most_frequent(
    vocabulary: Vocabulary, size: int, without_vector: Collection[str] = ()
) -> Vocabulary:
    """Return the ``size`` most frequent tags that have a vector."""
    absent = set(without_vector)
    rows = [i for i, tag in enumerate(vocabulary.tags) if tag not in absent][:size]
    if len(rows) < size:
        raise ValueError(
            f"size must be at most {len(rows)}, the tags that are left with a vector, got {size}"
        )
    passed = sum(tag in absent for tag in vocabulary.tags[: rows[-1]])
    return Vocabulary(
        tuple(vocabulary.tags[i] for i in rows),
        tuple(vocabulary.photos[i] for i in rows),
        tuple(vocabulary.categories[i] for i in rows),
        {**vocabulary.dropped, "no vector, frequent enough otherwise": passed},
    )
