"""Split rows into training and held-out rows."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import train_test_split

Fold = tuple[NDArray[np.int64], NDArray[np.int64]]


def held_out(classes: NDArray[Any] | None, rows: int, share: float, seed: int) -> Fold:
    """Hold out a share of the rows, stratified if every class has enough of them.

    Args:
        classes: `(rows,)`; None if examples have several labels.
        rows: number of rows.
        share: share to hold out, in (0, 1).
        seed: seed of the random split.
    """
    if classes is not None:
        counts = np.unique(classes, return_counts=True)[1]
        if counts.min() < 2 or len(counts) > min(share, 1 - share) * rows - 1:
            classes = None
    try:
        train, held = train_test_split(
            np.arange(rows), test_size=share, random_state=seed, stratify=classes
        )
    except ValueError as error:
        raise ValueError(
            f"validation_fraction must leave rows on both sides, got {share:g} of {rows} rows"
        ) from error
    return np.sort(train), np.sort(held)
