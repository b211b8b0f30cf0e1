"""The six tables of ``ordinal/``, whose labels are ordered."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from experiments.corpora.lookup import find

FILES = {
    "abalone": "abalone_ord.csv",
    "boston": "bostonhousing_ord.csv",
    "california": "californiahousing.csv",
    "cement": "cement_strength.csv",
    "machine": "machine_ord.csv",
    "stock": "stock_ord.csv",
}


def ordered_table(name: str) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Features `(n, d)` and labels from 0, of a table by name.

    The files are looked up in ``ordinal/`` of ``$WASSLOSS_DATA`` and the user's cache.
    """
    if name not in FILES:
        raise ValueError(f"name must be one of {', '.join(FILES)}, got {name!r}")
    path = find("ordinal", FILES[name])
    rows = np.loadtxt(path, delimiter=",", skiprows=1, ndmin=2)
    labels = rows[:, 0].astype(np.int64)
    return rows[:, 1:], labels - labels.min()
