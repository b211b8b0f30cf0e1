"""Ground metrics in files: .npz archives that never need pickle."""

from __future__ import annotations

import os
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wassloss._files import read_npz, write_npz
from wassloss.ground.base import GroundMetric
from wassloss.ground.cost import Cost
from wassloss.ground.discrete import Discrete
from wassloss.ground.embedding import Embedding
from wassloss.ground.graph import Graph
from wassloss.ground.grid import Grid
from wassloss.ground.matrix import Matrix
from wassloss.ground.ordinal import Ordinal
from wassloss.ground.tree import Tree

_FORMAT = 1
_KINDS: dict[str, type[GroundMetric]] = {
    kind.__name__: kind for kind in (Discrete, Ordinal, Grid, Embedding, Tree, Graph, Matrix, Cost)
}
_DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64)
}
_HEADER = ("kind", "format", "dtype", "power", "scale", "labels")


def save(metric: GroundMetric, path: str | os.PathLike[str]) -> None:
    """Write ``metric`` to ``path``, all or nothing: an old file stays until this is whole."""
    write_npz(path, to_arrays(metric))


def to_arrays(metric: GroundMetric) -> dict[str, NDArray[Any]]:
    """The arrays that a file holds of ``metric``.

    They are ``kind``, ``format``, ``dtype``, ``power``, ``scale``, ``labels`` (empty where
    there are none) and the arrays that the constructor takes. NumPy has no bfloat16: such tensors
    are written as float32, which holds them exactly.
    """
    kind, dtype = type(metric).__name__, str(metric.dtype).removeprefix("torch.")
    if _KINDS.get(kind) is not type(metric) or dtype not in _DTYPES:
        raise TypeError(f"only {', '.join(_KINDS)} in {', '.join(_DTYPES)} can be saved")
    names = np.array(metric.labels or (), dtype=np.str_)
    if metric.labels is not None and tuple(names.tolist()) != metric.labels:
        raise ValueError("labels that end in a NUL character cannot be saved")
    arrays: dict[str, NDArray[Any]] = {
        "kind": np.array(kind),
        "format": np.array(_FORMAT),
        "dtype": np.array(dtype),
        "power": np.array(metric.power),
        "scale": np.array(metric.scale),
        "labels": names,
    }
    arrays |= {name: _to_numpy(field) for name, field in metric._fields().items()}
    return arrays


def load(path: str | os.PathLike[str]) -> GroundMetric:
    """Read a ground metric that ``save`` wrote.

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
    if version != _FORMAT:
        raise ValueError(f"format {version} is unknown, this version reads format {_FORMAT}")
    if kind not in _KINDS:
        raise ValueError(f"kind {kind!r} is unknown, expected one of {', '.join(_KINDS)}")
    if dtype_name not in _DTYPES:
        raise ValueError(f"dtype {dtype_name!r} is unknown, expected one of {', '.join(_DTYPES)}")
    cls, dtype = _KINDS[kind], _DTYPES[dtype_name]
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


def _to_numpy(field: Tensor | NDArray[Any]) -> NDArray[Any]:
    if not isinstance(field, Tensor):
        return field
    plain = field.detach().cpu()
    return (plain.float() if plain.dtype == torch.bfloat16 else plain).numpy()
