"""A small data set for the tag pipeline: words, vectors, metadata. As a script, to be killed.

python tag_pipeline.py METADATA FOLDER WORKERS
"""

import sys
from pathlib import Path
from typing import Any

import numpy as np

from experiments.corpora.tagging import TagSample, yfcc_tags
from experiments.corpora.word_vectors import WordVectors
from experiments.corpora.wordnet import WordNet

CATEGORIES = ("noun.animal", "noun.artifact", "noun.location", "noun.time", "verb.motion")
LETTERS = "abcdefghij"
WORDS = tuple(f"{a}{b}{c}" for a in "klmno" for b in LETTERS for c in LETTERS)
NET = WordNet({word: CATEGORIES[i % 5] for i, word in enumerate(WORDS)}, {})
# Every eleventh word has no vector.
TABLE = WordVectors(
    tuple(word for i, word in enumerate(WORDS) if i % 11),
    np.random.default_rng(0)
    .normal(size=(sum(1 for i in range(len(WORDS)) if i % 11), 8))
    .astype(np.float32),
)


def small_run(metadata: Path | list[Path], folder: Path, **options: Any) -> TagSample:
    settings: dict[str, Any] = {
        "tags": 100,
        "train": 300,
        "test": 200,
        "wordnet": NET,
        "stop_words": ("kaa",),
        "workers": 1,
        "block_bytes": 20_000,
    }
    return yfcc_tags(metadata, TABLE, folder, **{**settings, **options})


if __name__ == "__main__":
    small_run(Path(sys.argv[1]), Path(sys.argv[2]), workers=int(sys.argv[3]), save_seconds=0.0)
