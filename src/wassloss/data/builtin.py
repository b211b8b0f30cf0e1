"""The built-in data sets: drawings with tags, and definitions in a taxonomy."""

from __future__ import annotations

import gzip
from dataclasses import dataclass
from functools import cached_property
from importlib import resources

import numpy as np
import torch
from torch import Tensor

from wassloss._files import read_npz
from wassloss.data._inputs import from_lists
from wassloss.data.dataset import Dataset
from wassloss.ground import Embedding, GroundMetric, Tree

_PROVENANCE = (
    "3159 public-domain drawings of the Open Clip Art Library (Debian openclipart 1:0.18+dfsg-19) "
    "with the tags people gave them, incomplete as such tags are; EfficientNet-lite0 features "
    "brought to 256 dimensions; GloVe vectors of the tags. Use its own train and test parts: "
    "drawings come in variants, and a split of the images at random leaks. "
    "docs/datasheets/clipart.md says more."
)


def clipart() -> Dataset:
    """Load clip art and its tags: 2218 drawings to train on, 941 to test, 256 features, 206 tags.

    The tags of a drawing share a mass of 1. The suggested ground metric is the distance between
    the tags' word vectors. Variants of a drawing share a group.

    >>> import wassloss as wl
    >>> data = wl.data.clipart()
    >>> len(data.part("train")), len(data.part("test"))
    (2218, 941)
    >>> [tag for tag, distance in data.metric.nearest("boat", 2)]
    ['sailing', 'sea']
    """
    file = resources.files("wassloss.data") / "clipart" / "clipart_pca256.npz"
    with resources.as_file(file) as path:
        arrays = read_npz(path)
    names = tuple(arrays["vocab"].tolist())
    train = torch.from_numpy(arrays["train"])
    return Dataset(
        torch.from_numpy(arrays["pca256"].astype(np.float32)),
        from_lists(np.diff(arrays["tags_indptr"]), arrays["tags_indices"]),
        label_names=names,
        parts={"train": train, "test": ~train},
        metric=Embedding(arrays["glove"], labels=names),
        groups=torch.from_numpy(arrays["group"].astype(np.int64)),
        name="clipart",
        provenance=_PROVENANCE,
    )


@dataclass(frozen=True)
class Definitions:
    """Texts with the class of each.

    Attributes:
        texts: definitions in lower case.
        words: the words that each defines, joined by commas.
        classes: of each text, an index into `paths`.
        paths: of each class, the notions from *entity* down to it.
    """

    texts: tuple[str, ...]
    words: tuple[str, ...]
    classes: Tensor
    paths: tuple[tuple[str, ...], ...]

    def __len__(self) -> int:
        return len(self.texts)

    @cached_property
    def metric(self) -> GroundMetric:
        """Heights of lowest common ancestors in WordNet, the classes named by their notions."""
        return Tree.from_paths(self.paths, distance="lca_height")


def definitions() -> Definitions:
    """Load 55 897 definitions of nouns in 339 classes.

    *Any of various small boats propelled by oars* belongs to *craft*. The classes are the largest
    subtrees of WordNet's nouns with at most 400 notions, if they have at least 60. There are no
    variants of a text, so a split at random is fair.

    WordNet 3.0 is © 2006 by Princeton University; its licence lies next to the file.

    >>> import wassloss as wl
    >>> data = wl.data.definitions()
    >>> len(data), len(data.paths)
    (55897, 339)
    >>> i = data.words.index("skiff")
    >>> data.texts[i], data.paths[data.classes[i]][-1]
    ('any of various small boats propelled by oars or by sails or by a motor', 'craft')
    """
    folder = resources.files("wassloss.data") / "wordnet"
    lines = gzip.decompress((folder / "definitions.tsv.gz").read_bytes()).decode().splitlines()
    numbers, words, texts = zip(*(line.split("\t") for line in lines), strict=True)
    paths = (folder / "classes.txt").read_text(encoding="utf-8").splitlines()
    return Definitions(
        texts,
        words,
        torch.tensor([int(number) for number in numbers]),
        tuple(tuple(path.split(" > ")) for path in paths),
    )
