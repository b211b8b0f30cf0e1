"""Data sets that ship with the package: drawings with tags, and definitions in a taxonomy.

As in scikit-learn, each is a ``Bunch`` with ``data``, ``target``, ``target_names``, ``metric`` and
``DESCR``.
"""

from __future__ import annotations

import gzip
from importlib import resources

import numpy as np
import torch
from sklearn.utils import Bunch

from wassloss.files import read_npz
from wassloss.ground import Embedding, Tree
from wassloss.targets import padded

__all__ = ["load_clipart", "load_definitions"]

_CLIPART = (
    "3159 public-domain drawings of the Open Clip Art Library (Debian openclipart 1:0.18+dfsg-19) "
    "with user-supplied tags, which are incomplete; EfficientNet-lite0 features reduced to 256 "
    "dimensions by PCA; GloVe vectors of the tags. Use the given train and test rows: drawings "
    "come in variants, so a random split leaks. See docs/datasheets/clipart.md."
)
_DEFINITIONS = (
    "Definitions of nouns in WordNet 3.0, © 2006 by Princeton University; the licence is next to "
    "the file. The classes are the largest subtrees with at least 60 and at most 400 synsets. See "
    "docs/datasheets/definitions.md."
)


def load_clipart() -> Bunch:
    """Load clip art and its tags: 3159 drawings, 256 features, 206 tags.

    Returns:
        A ``Bunch`` with ``data``, floats `(3159, 256)`; ``target``, a
        :class:`~wassloss.SparseTarget` in which the tags of a drawing share a mass of 1;
        ``target_names``; ``metric``, the distance between the tags' word vectors; ``train`` and
        ``test``, the indices of the 2218 training and the 941 test rows; ``groups``, equal for
        variants of one drawing; and ``DESCR``.

    >>> import wassloss as wl
    >>> clipart = wl.datasets.load_clipart()
    >>> clipart.data[clipart.train].shape
    torch.Size([2218, 256])
    >>> [tag for tag, distance in clipart.metric.nearest("boat", 2)]
    ['sailing', 'sea']
    """
    file = resources.files("wassloss.datasets") / "clipart" / "clipart_pca256.npz"
    with resources.as_file(file) as path:
        arrays = read_npz(path)
    names = tuple(arrays["vocab"].tolist())
    counts = np.diff(arrays["tags_indptr"])
    target = padded(
        torch.from_numpy(np.repeat(np.arange(len(counts)), counts)),
        torch.from_numpy(arrays["tags_indices"].astype(np.int64)),
        torch.from_numpy(np.repeat(1 / np.maximum(counts, 1), counts).astype(np.float32)),
        len(counts),
    )
    return Bunch(
        data=torch.from_numpy(arrays["pca256"].astype(np.float32)),
        target=target,
        target_names=names,
        metric=Embedding(arrays["glove"], labels=names),
        train=torch.from_numpy(np.flatnonzero(arrays["train"])),
        test=torch.from_numpy(np.flatnonzero(~arrays["train"])),
        groups=torch.from_numpy(arrays["group"].astype(np.int64)),
        DESCR=_CLIPART,
    )


def load_definitions() -> Bunch:
    """Load 55 897 definitions of nouns in 339 classes of WordNet's taxonomy.

    *Any of various small boats propelled by oars* belongs to *craft*. There are no variants of a
    text, so a random split is fair.

    Returns:
        A ``Bunch`` with ``data``, the definitions in lower case; ``words``, the defined words,
        joined by commas; ``target``, the class ids `(55897,)`; ``target_names``; ``paths``, the
        synsets from *entity* down to each class; ``metric``, the height of the lowest common
        ancestor of two classes; and ``DESCR``.

    >>> import wassloss as wl
    >>> definitions = wl.datasets.load_definitions()
    >>> i = definitions.words.index("skiff")
    >>> definitions.data[i]
    'any of various small boats propelled by oars or by sails or by a motor'
    >>> definitions.target_names[definitions.target[i]]
    'craft'
    """
    folder = resources.files("wassloss.datasets") / "wordnet"
    lines = gzip.decompress((folder / "definitions.tsv.gz").read_bytes()).decode().splitlines()
    numbers, words, texts = zip(*(line.split("\t") for line in lines), strict=True)
    lines = (folder / "classes.txt").read_text(encoding="utf-8").splitlines()
    paths = tuple(tuple(path.split(" > ")) for path in lines)
    metric = Tree.from_paths(paths, distance="lca_height")
    return Bunch(
        data=texts,
        words=words,
        target=torch.tensor([int(number) for number in numbers]),
        target_names=metric.labels,
        paths=paths,
        metric=metric,
        DESCR=_DEFINITIONS,
    )


def __dir__() -> list[str]:
    return __all__
