"""The built-in data set: drawings and the tags that people gave them."""

from __future__ import annotations

from importlib import resources

import numpy as np
import torch

from wassloss._files import read_npz
from wassloss.data.dataset import Dataset
from wassloss.data.ragged import from_lists
from wassloss.ground import Embedding

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
    the tags' word vectors. Variants of a drawing share a group, which ``split`` keeps together.

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
