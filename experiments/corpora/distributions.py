"""Label distributions: data sets of PyLDL, in ``ldl/``."""

from __future__ import annotations

import numpy as np
import scipy.io
from numpy.typing import NDArray

from experiments.corpora.lookup import find

FILES = {
    "s-jaffe": "SJAFFE.mat",
    "s-bu-3dfe": "SBU_3DFE.mat",
    "emotion6": "emotion6.mat",
    "fg-net": "FG-Net.mat",
    "yeast-alpha": "Yeast_alpha.mat",
    "yeast-cdc": "Yeast_cdc.mat",
    "yeast-spo": "Yeast_spo.mat",
}
# The labels are ages, and points of time in the life of a cell.
ORDERED = ("fg-net", "yeast-alpha", "yeast-cdc", "yeast-spo")


def label_distributions(name: str) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return features `(n, d)` and distributions `(n, labels)`, whose rows sum to 1."""
    if name not in FILES:
        raise ValueError(f"name must be one of {', '.join(FILES)}, got {name!r}")
    read = scipy.io.loadmat(find("ldl", FILES[name]))
    features = np.asarray(read["features"], np.float64)
    labels = np.asarray(read["labels"], np.float64)
    return features, labels / labels.sum(1, keepdims=True)
