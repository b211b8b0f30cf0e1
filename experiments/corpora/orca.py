"""Ordered labels with ORCA's splits: ``orca/``, its folder ``exampledata/30-holdout``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from experiments.corpora.lookup import find


class Split(NamedTuple):
    """Features `(n, d)` and labels from 0 `(n,)` of the two parts."""

    x_train: NDArray[np.float64]
    y_train: NDArray[np.int64]
    x_test: NDArray[np.float64]
    y_test: NDArray[np.int64]


def orca_splits(name: str, count: int = 30) -> Iterator[Split]:
    """Yield the first `count` train and test splits of a data set, in ORCA's order.

    The files keep ORCA's names, ``tae/matlab/train_tae.0`` and so on, in ``orca/`` of
    ``$WASSLOSS_DATA`` or the user's cache.
    """
    for number in range(count):
        x_train, y_train = _part(name, f"train_{name}.{number}")
        x_test, y_test = _part(name, f"test_{name}.{number}")
        yield Split(x_train, y_train, x_test, y_test)


def _part(name: str, file: str) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    rows = np.loadtxt(find("orca", f"{name}/matlab/{file}"), ndmin=2)
    return rows[:, :-1], rows[:, -1].astype(np.int64) - 1  # ORCA counts labels from 1
