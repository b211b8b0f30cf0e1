"""The first pass: count the photos that have each word of WordNet as a tag."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from experiments.corpora.tagging.metadata import photos
from experiments.corpora.tagging.tag_ids import UNDECODABLE, TagIds
from experiments.corpora.wordnet import WordNet


class CountWords:
    """Number of photos by word, and a report on the lines; see `block_reader.Pass`.

    Only words of WordNet are counted, so memory does not grow with invented tags. A photo that
    repeats a tag, for example in capitals, counts once.
    """

    hint = None

    def __init__(self, wordnet: WordNet, merge_plurals: bool) -> None:
        self.words = tuple(wordnet.categories)
        self._ids = TagIds(
            {word: i for i, word in enumerate(self.words)}, wordnet if merge_plurals else None
        )
        self.counts: NDArray[np.int64] = np.zeros(len(self.words), np.int64)
        self.report: Counter[str] = Counter()

    def read(
        self, lines: list[bytes], place: int, hint: Any
    ) -> tuple[NDArray[np.int64], NDArray[np.int64], Counter[str]]:
        report: Counter[str] = Counter()
        found: list[int] = []
        of = self._ids.of
        for photo in photos(lines, report):
            found.extend(of(photo.tags))
        report["photos with a tag that is not UTF-8"] += found.count(UNDECODABLE)
        words, times = np.unique(np.array(found, np.int64), return_counts=True)
        return words[words >= 0], times[words >= 0].astype(np.int64), report

    def add(self, found: tuple[NDArray[np.int64], NDArray[np.int64], Counter[str]]) -> None:
        words, times, report = found
        self.counts[words] += times
        self.report.update(report)

    def to_arrays(self) -> dict[str, NDArray[Any]]:
        return {
            "counts": self.counts,
            "report_names": np.array(sorted(self.report), np.str_),
            "report_counts": np.array([self.report[k] for k in sorted(self.report)], np.int64),
        }

    def from_arrays(self, arrays: dict[str, NDArray[Any]]) -> None:
        self.counts = arrays["counts"]
        names, counts = arrays["report_names"].tolist(), arrays["report_counts"].tolist()
        self.report = Counter(dict(zip(names, counts, strict=True)))
