"""Ordered labels as ORCA splits them: ``orca/``, its folder ``exampledata/30-holdout``."""

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
    """The first `count` of a set's splits into train and test, in ORCA's order.

    Looked for as ``orca/`` in ``$WASSLOSS_DATA`` and the user's cache, with the names of ORCA's
    files: ``tae/matlab/train_tae.0`` and so on.
    """
    for number in range(count):
        x_train, y_train = _part(name, f"train_{name}.{number}")
        x_test, y_test = _part(name, f"test_{name}.{number}")
        yield Split(x_train, y_train, x_test, y_test)


def _part(name: str, file: str) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    rows = np.loadtxt(find("orca", f"{name}/matlab/{file}"), ndmin=2)
    return rows[:, :-1], rows[:, -1].astype(np.int64) - 1  # ORCA counts labels from 1
