"""Check `X`, `y` and `sample_weight`, and convert them to features and targets.

`y` holds class ids, an indicator matrix, or weights over labels.
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
    """Whether `y` holds weights over labels rather than class ids."""
    return bool(sparse.issparse(y) or (y.ndim == 2 and y.shape[1] > 1))


def read_classes_or_weights(y: Any, listed: bool = False) -> Any:
    """Check class ids `(n,)`, or weights over labels `(n, labels)`, as CSR or dense floats.

    Class ids may be any numbers if the user has `listed` the classes; otherwise they must be whole
    numbers, as in scikit-learn.
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
            f"y must hold only 0 and 1 if it is a matrix of integers, got {values.max()}; pass "
            "weights as floats"
        )
    return _read_measures(y, "give every example a label")


def read_masses(y: Any) -> NDArray[np.float64]:
    """Check masses `(n, labels)`."""
    if y.ndim != 2:
        raise ValueError(f"y must have shape (n, labels), got {y.shape}; y[:, None] for one label")
    masses = _read_measures(y, "have some mass in every row")
    dense: NDArray[np.float64] = masses.toarray() if sparse.issparse(masses) else masses
    return dense


def _read_measures(y: Any, wanted: str) -> Any:
    """Check that rows are non-negative and not all 0, as CSR or dense floats."""
    values = y.data if sparse.issparse(y) else y
    if values.dtype.kind not in "fiub":
        raise ValueError(f"y must hold numbers if it has several columns, got {values.dtype}")
    if values.size and values.min() < 0:
        raise ValueError(f"y must not be negative, got {values.min()}")
    weights = sparse.csr_array(y) if sparse.issparse(y) else np.asarray(y)
    weights = weights.astype(np.float64)
    empty = np.flatnonzero(np.asarray(weights.sum(axis=1)) == 0)
    if len(empty):
        raise ValueError(f"y must {wanted}, got none in row {empty[0]}")
    return weights


def target_of_weights(weights: Any) -> Target:
    """Convert checked weights to a target of the losses, with rows divided by their sums.

    The target is class ids if each row has one label, otherwise sparse if that is shorter. The same
    content in another form therefore trains the same model.
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
    """Check weights per example: finite, non-negative, not all zero."""
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
    """Learn the means and scales of features.

    Sparse features have means, too: they stay sparse, because `SparseRows` subtracts the means from
    products.
    """
    # StandardScaler refuses with_mean=True for sparse features, but computes their means.
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
    """Standardise features and convert them to the model's dtype, on the CPU.

    Returns:
        A tensor, or :class:`~wassloss.estimators.sparse_rows.SparseRows`.
    """
    if sparse.issparse(X):
        return _sparse_features(sparse.csr_array(X), scaler, dtype)
    if scaler is None:
        # Copy to torch's memory, which is aligned: on NumPy's, matrix products may differ in the
        # last bits from call to call, and fits would not be reproducible.
        return narrowed("X", torch.tensor(X), dtype)
    # In float64, so that the same numbers give the same result in any dtype. In place, because the
    # scaler's `transform` would copy all features several times.
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
    """Refuse features whose squares overflow: optimisers square gradients, which contain them."""
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
