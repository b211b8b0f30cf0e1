"""Features brought to mean 0 and variance 1, and into the precision of a model."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.preprocessing import StandardScaler
from torch import Tensor

from wassloss._precision import narrowed


def fit_scaler(
    X: NDArray[Any], weight: NDArray[Any] | None = None, before: StandardScaler | None = None
) -> StandardScaler:
    """Learn the means and scales of features, in addition to what `before` has learned.

    Raises:
        ValueError: a variance is not finite; `before` is unchanged.
    """
    scaler = StandardScaler() if before is None else copy.deepcopy(before)
    with np.errstate(over="ignore", invalid="ignore"):  # reported below
        scaler.partial_fit(X, sample_weight=weight)
    wrong = np.flatnonzero(~np.isfinite(scaler.var_))
    if len(wrong):
        column, largest = wrong[0], np.abs(X[:, wrong[0]]).max()
        raise ValueError(
            f"X must have a finite variance in {X.dtype}, got numbers up to {largest:g} in "
            f"column {column}; divide that column by its size"
        )
    return scaler


def model_features(X: Any, scaler: StandardScaler | None, dtype: torch.dtype) -> Tensor:
    """Features as a model takes them: standardised, on the CPU.

    Raises:
        ValueError: a number does not fit the precision of the model.
    """
    if scaler is None:
        # A copy in torch's memory, which is aligned: on NumPy's, matrix products may differ in
        # their last bits from one call to the next, and a fit would not repeat exactly.
        own = X if isinstance(X, Tensor) else torch.tensor(X)
        return narrowed("X", own, dtype)
    return narrowed("X, standardized,", torch.tensor(scaler.transform(np.asarray(X))), dtype)


def check_squares(features: Tensor) -> None:
    """Refuse features too large to train on: optimisers square gradients, which hold them."""
    wrong = features.abs() > torch.finfo(features.dtype).max ** 0.5
    if wrong.any():
        row, column = wrong.nonzero()[0].tolist()
        raise ValueError(
            f"X must have features whose squares fit {features.dtype}, got "
            f"{features[row, column].item():g} in row {row}, column {column}; pass "
            "standardize=True, or divide that column by its size"
        )
