"""Flickr8k: photographs and the nouns in their captions."""

from __future__ import annotations

import os

import numpy as np
import torch
from scipy import sparse

from experiments.corpora.glove import read_vectors
from experiments.corpora.lookup import find, find_optional
from experiments.lab.dataset import Dataset
from experiments.lab.files import read_npz
from experiments.lab.relabel import normalized
from wassloss.ground import Embedding

_ARRAYS = ("features", "split", "vocab", "counts_data", "counts_indices", "counts_indptr")
_PARTS = {"train": "train", "dev": "validation", "test": "test"}


def flickr8k(*, counts: bool = False) -> Dataset:
    """8091 photographs: 1280 features, and 1000 nouns weighted by the number of captions with them.

    A photograph's weights sum to 1; with `counts` they are the numbers of captions, out of five,
    that have each noun. The file ``flickr8k/flickr8k_efflite0_tags.npz`` is looked up in
    ``$WASSLOSS_DATA`` and the user's cache. The suggested ground metric is the distance between
    word vectors if ``glove/words.txt`` and ``glove/glove_100d.npy`` are there too, otherwise None.
    """
    path = find("flickr8k", "flickr8k_efflite0_tags.npz")
    try:
        data = _from_file(path)
    except (ValueError, TypeError) as error:
        raise ValueError(f"{path} is not the Flickr8k tags: {error}") from error
    return data if counts else normalized(data)


def _from_file(path: str | os.PathLike[str]) -> Dataset:
    arrays = read_npz(path)
    missing = [name for name in _ARRAYS if name not in arrays]
    if missing:
        raise ValueError(f"it lacks {', '.join(missing)}")
    names = tuple(arrays["vocab"].tolist())
    shape = (len(arrays["features"]), len(names))
    counts = sparse.csr_array(
        tuple(arrays[f"counts_{part}"] for part in ("data", "indices", "indptr")), shape=shape
    )
    vectors = word_vectors(names)
    return Dataset(
        torch.from_numpy(arrays["features"].astype(np.float32)),
        counts.astype(np.float32),
        label_names=names,
        parts={new: torch.from_numpy(arrays["split"] == old) for old, new in _PARTS.items()},
        metric=None if vectors is None else Embedding(vectors, labels=names),
        name="flickr8k",
        provenance=(
            "Flickr8k (Hodosh, Young, Hockenmaier 2013): EfficientNet-lite0 features; tags are the "
            "captions' nouns, the 1000 most frequent of the train part. 91 photographs belong to "
            "no part."
            + ("" if vectors is not None else " No word vectors for all tags in glove/: no metric.")
        ),
    )


def word_vectors(words: tuple[str, ...]) -> np.ndarray | None:
    """Load the vectors of the words from ``glove/``; None if a file or a word is missing."""
    listed = find_optional("glove", "words.txt")
    table = find_optional("glove", "glove_100d.npy")
    if listed is None or table is None:
        return None
    vectors = read_vectors(table, words)
    return None if vectors.missing(words) else vectors.take(words).vectors
