"""What `X`, `y` and `sample_weight` may be, and the features and targets that they become.

Of `y`, that is class ids, an indicator matrix, or weights over labels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from sklearn.preprocessing import StandardScaler
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import column_or_1d
from torch import Tensor

from wassloss._checks import narrowed
from wassloss.estimators.sparse_rows import SparseRows
from wassloss.targets import Target, padded


def is_matrix(y: Any) -> bool:
    """Whether `y` is weights over labels rather than class ids."""
    return bool(sparse.issparse(y) or (y.ndim == 2 and y.shape[1] > 1))


def read_classes_or_weights(y: Any, listed: bool = False) -> Any:
    """Checked class ids `(n,)`, or weights over labels `(n, labels)`, as CSR or dense floats.

    Classes that are `listed` may be any numbers; others must be whole, as in scikit-learn.
    """
    if not is_matrix(y):
        y = column_or_1d(y, warn=True)
        if not listed:
            try:
                check_classification_targets(y)
            except ValueError as error:
                raise ValueError(
                    f"{error} If these numbers are labels, as half stars are, pass "
                    "classes=np.unique(y)."
                ) from error
        return y
    values = y.data if sparse.issparse(y) else y
    if values.dtype.kind in "iu" and values.size and values.max() > 1:
        raise ValueError(
            f"y must be an indicator of 0 and 1 where it is a matrix of integers, got "
            f"{values.max()}; pass weights as floats"
        )
    return _read_measures(y, "give every example a label")


def read_masses(y: Any) -> NDArray[np.float64]:
    """Checked masses `(n, labels)`."""
    if y.ndim != 2:
        raise ValueError(f"y must have shape (n, labels), got {y.shape}; y[:, None] for one label")
    masses = _read_measures(y, "have some mass in every row")
    dense: NDArray[np.float64] = masses.toarray() if sparse.issparse(masses) else masses
    return dense


def _read_measures(y: Any, wanted: str) -> Any:
    """Rows that are not negative, nor without any weight, as CSR or dense floats."""
    values = y.data if sparse.issparse(y) else y
    if values.dtype.kind not in "fiub":
        raise ValueError(f"y must hold numbers where it has several columns, got {values.dtype}")
    if values.size and values.min() < 0:
        raise ValueError(f"y must not be negative, got {values.min()}")
    weights = sparse.csr_array(y) if sparse.issparse(y) else np.asarray(y)
    weights = weights.astype(np.float64)
    empty = np.flatnonzero(np.asarray(weights.sum(axis=1)) == 0)
    if len(empty):
        raise ValueError(f"y must {wanted}, got none in row {empty[0]}")
    return weights


def target_of_weights(weights: Any) -> Target:
    """Checked weights as the losses take them, each row divided by its sum.

    Sparse where that is shorter, and as class ids where each row has one label, so that the same
    content in another form trains the same model.
    """
    rows = sparse.csr_array(weights)
    rows.sum_duplicates()
    rows.eliminate_zeros()
    counts = np.diff(rows.indptr)
    if counts.max() == 1:
        return torch.from_numpy(rows.indices.astype(np.int64))
    share = rows.data / np.repeat(rows.sum(axis=1), counts)
    if 2 * counts.max() > rows.shape[1]:
        dense = sparse.csr_array((share, rows.indices, rows.indptr), shape=rows.shape)
        return torch.from_numpy(dense.toarray())
    example = torch.from_numpy(np.repeat(np.arange(len(counts)), counts))
    label = torch.from_numpy(rows.indices.astype(np.int64))
    return padded(example, label, torch.from_numpy(share), len(counts))


def read_weight(sample_weight: Any, examples: int) -> NDArray[np.float64]:
    """One weight per example: finite, not negative, not all zero."""
    weight = np.array(sample_weight, dtype=np.float64)
    if weight.shape != (examples,):
        raise ValueError(f"sample_weight must have shape ({examples},), got {weight.shape}")
    wrong = ~(np.isfinite(weight) & (weight >= 0))
    if wrong.any():
        raise ValueError(f"sample_weight must be finite and not negative, got {weight[wrong][0]}")
    if not weight.any():
        raise ValueError("sample_weight must have a positive weight, got only zeros")
    return weight


def fit_scaler(X: Any, weight: NDArray[np.float64] | None) -> StandardScaler:
    """Learn means and scales of features.

    Those of sparse features too: their zeros stay, as `SparseRows` subtracts from products.
    """
    # It learns means of sparse features only where it is not to subtract them itself.
    scaler = StandardScaler(with_mean=not sparse.issparse(X))
    with np.errstate(over="ignore", invalid="ignore"):  # reported below
        scaler.fit(X, sample_weight=weight)
    scaler.set_params(with_mean=True)
    wrong = np.flatnonzero(~np.isfinite(scaler.var_))
    if len(wrong):
        column, largest = wrong[0], abs(X[:, [wrong[0]]]).max()
        raise ValueError(
            f"X must have a finite variance in {X.dtype}, got numbers up to {largest:g} in "
            f"column {column}; divide that column by its size"
        )
    return scaler


def model_features(X: Any, scaler: StandardScaler | None, dtype: torch.dtype) -> Any:
    """Features as a model takes them: standardised, in its precision, on the CPU.

    A tensor, or :class:`~wassloss.estimators.sparse_rows.SparseRows`.
    """
    if sparse.issparse(X):
        return _sparse_features(sparse.csr_array(X), scaler, dtype)
    if scaler is None:
        # A copy in torch's memory, which is aligned: on NumPy's, matrix products may differ in
        # their last bits from one call to the next, and a fit would not repeat exactly.
        return narrowed("X", torch.tensor(X), dtype)
    # Doubles: the same for the same numbers in any precision. In place, where the scaler's own
    # `transform` would make copies of all features.
    wide = torch.tensor(np.asarray(X, dtype=np.float64))
    wide.sub_(torch.from_numpy(scaler.mean_)).div_(torch.from_numpy(scaler.scale_))
    return narrowed("X, standardized,", wide, dtype)


def _sparse_features(
    X: sparse.csr_array, scaler: StandardScaler | None, dtype: torch.dtype
) -> SparseRows:
    values, means = torch.tensor(X.data), None
    if scaler is not None:
        values = values / torch.from_numpy(scaler.scale_)[X.indices]
        means = narrowed("X", torch.from_numpy(scaler.mean_ / scaler.scale_), dtype)
    values = narrowed("X" if scaler is None else "X, standardized,", values, dtype)
    scaled = sparse.csr_array((values.numpy(), X.indices, X.indptr), shape=X.shape)
    return SparseRows(scaled, means)


def check_squares(features: Any) -> None:
    """Refuse features too large to train on: optimisers square gradients, which hold them."""
    listed = isinstance(features, SparseRows)
    values: Tensor = torch.from_numpy(features.matrix.data) if listed else features
    limit = torch.finfo(values.dtype).max ** 0.5
    if values.numel() and max(-values.min(), values.max()) > limit:
        wrong = values.abs() > limit
        row, column = (
            [int(each[wrong.numpy()][0]) for each in features.matrix.tocoo().coords]
            if listed
            else wrong.nonzero()[0].tolist()
        )
        raise ValueError(
            f"X must have features whose squares fit {values.dtype}, got "
            f"{values[wrong][0].item():g} in row {row}, column {column}; pass "
            "standardize=True, or divide that column by its size"
        )
