"""Ground metrics read from files: .npz archives that never need pickle."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from wassloss._files import read_npz
from wassloss.ground._saving import DTYPES, FORMAT
from wassloss.ground.base import GroundMetric
from wassloss.ground.cost import Cost
from wassloss.ground.discrete import Discrete
from wassloss.ground.embedding import Embedding
from wassloss.ground.graph import Graph
from wassloss.ground.grid import Grid
from wassloss.ground.matrix import Matrix
from wassloss.ground.ordinal import Ordinal
from wassloss.ground.tree import Tree

_KINDS: dict[str, type[GroundMetric]] = {
    kind.__name__: kind for kind in (Discrete, Ordinal, Grid, Embedding, Tree, Graph, Matrix, Cost)
}
_HEADER = ("kind", "format", "dtype", "power", "scale", "labels")


def load(path: str | os.PathLike[str]) -> GroundMetric:
    """Read a ground metric that :meth:`GroundMetric.save` wrote.

    Raises:
        ValueError: the file is damaged, holds something else, or would need pickle; the message
            says which file and what is wrong with it.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     Ordinal(5, power=2, labels=list("abcde")).save(f"{folder}/grades.npz")
    ...     load(f"{folder}/grades.npz")
    Ordinal(5, power=2)
    """
    try:
        return from_arrays(read_npz(path))
    except (ValueError, TypeError, KeyError, OverflowError) as error:
        raise ValueError(f"{os.fspath(path)} is not a saved ground metric: {error}") from error


def from_arrays(arrays: dict[str, NDArray[Any]]) -> GroundMetric:
    """The metric that ``to_arrays`` was given."""
    _require(arrays, _HEADER)
    version, kind, dtype_name = (_scalar(arrays, name) for name in ("format", "kind", "dtype"))
    if version != FORMAT:
        raise ValueError(f"format {version} is unknown, this version reads format {FORMAT}")
    if kind not in _KINDS:
        raise ValueError(f"kind {kind!r} is unknown, expected one of {', '.join(_KINDS)}")
    if dtype_name not in DTYPES:
        raise ValueError(f"dtype {dtype_name!r} is unknown, expected one of {', '.join(DTYPES)}")
    cls, dtype = _KINDS[kind], DTYPES[dtype_name]
    _require(arrays, cls._FIELDS)
    labels = arrays["labels"]
    if labels.ndim != 1 or (labels.size > 0 and labels.dtype.kind != "U"):
        raise ValueError(f"labels must be a list of names, got {labels.dtype} of {labels.shape}")

    narrow = dtype == torch.bfloat16
    metric = cls._from_fields(
        {
            name: torch.tensor(arrays[name], dtype=dtype)
            if narrow and arrays[name].dtype == np.float32
            else arrays[name]
            for name in cls._FIELDS
        },
        power=_scalar(arrays, "power"),
        scale=_scalar(arrays, "scale"),
        labels=labels.tolist() or None,
    )
    return metric.to(dtype=dtype)


def _require(arrays: dict[str, NDArray[Any]], names: tuple[str, ...]) -> None:
    missing = [name for name in names if name not in arrays]
    if missing:
        raise ValueError(f"it lacks {', '.join(missing)}")


def _scalar(arrays: dict[str, NDArray[Any]], name: str) -> Any:
    if arrays[name].ndim != 0:
        raise ValueError(f"{name} must be a single value, got shape {arrays[name].shape}")
    return arrays[name].item()
