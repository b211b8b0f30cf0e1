"""The second pass: a random sample of the photos that have a tag of the vocabulary.

Photo numbers are scrambled one-to-one, depending on the seed, and the smallest results are kept.
Like a reservoir, this draws every set of photos with the same probability. Unlike with a reservoir,
the sample does not depend on the order of photos, so blocks can be read in any order.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.corpora.tagging.metadata import photos
from experiments.corpora.tagging.tag_ids import TagIds
from experiments.corpora.wordnet import WordNet


class Drawn(NamedTuple):
    """A photo of the sample."""

    key: int
    place: int  # in the files, for photos that occur twice
    tags: tuple[int, ...]
    url: bytes


def scramble(numbers: NDArray[np.int64], seed: int) -> NDArray[np.uint64]:
    """Map numbers one-to-one to random-looking ones: splitmix64 from a seeded start."""
    digest = hashlib.blake2b(str(seed).encode(), digest_size=8).digest()
    return splitmix(numbers, int.from_bytes(digest, "little"))


def splitmix(numbers: NDArray[np.int64], start: int) -> NDArray[np.uint64]:
    """The outputs of splitmix64 (Steele, Lea, Flood 2014), of these numbers in its sequence.

    >>> splitmix(np.array([1, 2]), start=0)
    array([16294208416658607535,  7960286522194355700], dtype=uint64)
    """
    x = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + np.uint64(start)
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        x = (x ^ (x >> np.uint64(shift))) * np.uint64(factor)
    return np.asarray(x ^ (x >> np.uint64(31)))


class DrawPhotos:
    """Keep the photos with the ``size`` smallest keys; see `block_reader.Pass`.

    If a photo occurs twice, the first one in the files is kept.
    """

    def __init__(
        self, numbers: Mapping[str, int], wordnet: WordNet | None, size: int, seed: int
    ) -> None:
        self._ids = TagIds(numbers, wordnet)
        self._size = size
        self._seed = seed
        self._drawn: dict[int, Drawn] = {}
        self._highest = 2**64 - 1  # keys above it can no longer be among the smallest
        self.eligible = 0

    @property
    def hint(self) -> int:
        return self._highest

    def read(self, lines: list[bytes], place: int, hint: int) -> tuple[dict[int, Drawn], int]:
        of = self._ids.of
        found = []
        for photo in photos(lines, Counter()):
            tags = of(photo.tags)
            tags.discard(-1)
            tags.discard(-2)
            if tags:
                found.append((photo, tags))
        keys = scramble(np.array([photo.identifier for photo, _ in found], np.int64), self._seed)
        drawn: dict[int, Drawn] = {}
        for i in np.flatnonzero(keys <= np.uint64(hint)).tolist():
            photo, tags = found[i]
            new = Drawn(int(keys[i]), place + photo.line, tuple(sorted(tags)), photo.url)
            drawn.setdefault(photo.identifier, new)
        return self._smallest(drawn), len(found)

    def add(self, found: tuple[dict[int, Drawn], int]) -> None:
        drawn, eligible = found
        self.eligible += eligible
        for photo, new in drawn.items():
            old = self._drawn.get(photo)
            if old is None or new.place < old.place:
                self._drawn[photo] = new
        if len(self._drawn) > 2 * self._size:
            self._drawn = self._smallest(self._drawn)
            self._highest = max(one.key for one in self._drawn.values())

    def _smallest(self, drawn: dict[int, Drawn]) -> dict[int, Drawn]:
        if len(drawn) <= self._size:
            return drawn
        return dict(sorted(drawn.items(), key=lambda item: item[1].key)[: self._size])

    def result(self) -> list[tuple[int, Drawn]]:
        """Photo numbers and photos, in the random order of their keys."""
        return sorted(self._smallest(self._drawn).items(), key=lambda item: item[1].key)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        ordered = self.result()
        urls = b"".join(one.url for _, one in ordered)
        return {
            "photos": np.array([photo for photo, _ in ordered], np.int64),
            "keys": np.array([one.key for _, one in ordered], np.uint64),
            "places": np.array([one.place for _, one in ordered], np.int64),
            "tag_counts": np.array([len(one.tags) for _, one in ordered], np.int64),
            "tags": np.array([tag for _, one in ordered for tag in one.tags], np.int64),
            "url_lengths": np.array([len(one.url) for _, one in ordered], np.int64),
            "urls": np.frombuffer(urls, np.uint8),
            "eligible": np.array(self.eligible),
        }

    def from_arrays(self, arrays: dict[str, NDArray[Any]]) -> None:
        self.eligible = int(arrays["eligible"])
        urls = arrays["urls"].tobytes()
        tag, url = 0, 0
        columns = ("photos", "keys", "places", "tag_counts", "url_lengths")
        for photo, key, place, tags, length in zip(
            *(arrays[name].tolist() for name in columns), strict=True
        ):
            these = tuple(arrays["tags"][tag : tag + tags].tolist())
            self._drawn[photo] = Drawn(key, place, these, urls[url : url + length])
            tag, url = tag + tags, url + length
        if len(self._drawn) >= self._size:
            self._highest = max(one.key for one in self._drawn.values())
