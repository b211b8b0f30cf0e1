"""Map tags as Flickr writes them to numbers of words."""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from urllib.parse import unquote_to_bytes

from experiments.corpora.wordnet import WordNet

UNKNOWN, UNDECODABLE = -1, -2
_MOST = 1 << 16  # number of cached tags, less than ten megabytes


def normalize_tag(raw: bytes) -> str | None:
    """Return a tag in lower case, with ``_`` for spaces as in WordNet; None if it is not UTF-8.

    >>> normalize_tag(b"New+York"), normalize_tag(b"caf%C3%A9"), normalize_tag(b"%FF")
    ('new_york', 'café', None)
    """
    try:
        text = unquote_to_bytes(raw.replace(b"+", b" ")).decode("utf-8")
    except UnicodeDecodeError:
        return None
    return "_".join(unicodedata.normalize("NFKC", text).lower().split())


class TagIds(dict[bytes, int]):
    """The number of each raw tag's word, computed on demand.

    Args:
        numbers: by word.
        wordnet: used to reduce plurals to singulars; None keeps them.
    """

    def __init__(self, numbers: Mapping[str, int], wordnet: WordNet | None) -> None:
        super().__init__()
        self._numbers = numbers
        self._wordnet = wordnet

    def __missing__(self, raw: bytes) -> int:
        # Most tags are lower-case letters and digits, which are already normalised.
        plain = raw.isalnum() and raw == raw.lower()
        word = raw.decode("ascii") if plain else normalize_tag(raw)
        if word is None:
            number = UNDECODABLE
        else:
            if self._wordnet is not None:
                word = self._wordnet.singular(word) or word
            number = self._numbers.get(word, UNKNOWN)
        if len(self) >= _MOST:
            self.clear()
        self[raw] = number
        return number

    def __reduce__(self) -> tuple[type[TagIds], tuple[Mapping[str, int], WordNet | None]]:
        return TagIds, (self._numbers, self._wordnet)  # pickle without the cache

    def of(self, tags: bytes) -> set[int]:
        """Return the distinct numbers of a photo's tags; negative for tags that are not words."""
        return set(map(self.__getitem__, tags.split(b",")))
