"""Label distributions in MATLAB files, as sets for label distribution learning are published."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from scipy.io import loadmat

from wassloss._precision import single_precision
from wassloss.data.dataset import Dataset


def read_distributions(
    path: str | os.PathLike[str],
    *,
    features: str = "features",
    labels: str = "labels",
    label_names: Sequence[str] | None = None,
) -> Dataset:
    """Read a ``.mat`` file that holds a matrix of features and one of label distributions.

    Args:
        path: the file, of version 4 to 7.2; version 7.3 is HDF5 and must be saved as another.
        features: the variable `(n, features)`.
        labels: the variable `(n, labels)`, rows that sum to 1.
        label_names: the labels' names.
    """
    name = os.fspath(path)
    try:
        arrays = loadmat(name, appendmat=False, variable_names=[features, labels])
    except NotImplementedError as error:
        raise ValueError(f"{name} is a MATLAB 7.3 file: save it with -v7") from error
    except (MemoryError, FileNotFoundError, PermissionError):
        raise
    except Exception as error:  # a damaged file may make SciPy's parser raise anything
        raise ValueError(f"{name} is not a whole MATLAB file: {error}") from error
    for variable in (features, labels):
        if variable not in arrays:
            raise ValueError(f"{name} lacks the variable {variable!r}")
        if not isinstance(arrays[variable], np.ndarray) or arrays[variable].dtype.kind not in "fiu":
            raise ValueError(f"{name}: {variable!r} must be a dense matrix of numbers")
    with np.errstate(over="ignore"):  # then they do not sum to 1
        weights = arrays[labels].astype(np.float32)
    off = np.abs(weights.sum(1) - 1)
    if weights.ndim == 2 and len(off) and off.max() > 1e-3:
        row = int(off.argmax())
        raise ValueError(
            f"{name}: rows of {labels!r} must sum to 1, got {weights[row].sum():.4g} in row {row}"
        )
    try:
        return Dataset(
            single_precision(features, arrays[features]),
            torch.from_numpy(np.ascontiguousarray(weights)),
            label_names=None if label_names is None else tuple(label_names),
            name=Path(path).stem,
            provenance=f"Label distributions read from {Path(path).name}.",
        )
    except (ValueError, TypeError) as error:
        raise ValueError(f"{name}: {error}") from error
