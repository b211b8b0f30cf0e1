"""Ground metrics in .npz archives, without pickle."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wassloss.files import read_npz

if TYPE_CHECKING:
    from wassloss.ground.base import GroundMetric

KINDS: dict[str, type[GroundMetric]] = {}  # by name; each class registers itself
_FORMAT = 1
_HEADER = ("kind", "format", "dtype", "power", "scale", "labels")
_SINGLE = {*_HEADER[:-1], "size", "norm", "far"}  # single values; all others are arrays
_DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64)
}


def to_arrays(metric: GroundMetric) -> dict[str, NDArray[Any]]:
    """The arrays that represent ``metric`` in a file.

    They are ``kind``, ``format``, ``dtype``, ``power``, ``scale``, ``labels`` (empty if there are
    none) and the arguments of the constructor. NumPy has no bfloat16, so such tensors are written
    as float32, which holds them exactly.
    """
    kind, dtype = type(metric).__name__, str(metric.dtype).removeprefix("torch.")
    if KINDS.get(kind) is not type(metric) or dtype not in _DTYPES:
        raise TypeError(
            f"only the metrics of wassloss.ground in {', '.join(_DTYPES)} can be saved, got {kind} "
            f"in {dtype}"
        )
    names = np.array(metric.labels or (), dtype=np.str_)
    if metric.labels is not None and tuple(names.tolist()) != metric.labels:
        raise ValueError("labels that end in a NUL character cannot be saved")
    header = (kind, _FORMAT, dtype, metric.power, metric.scale, names)
    arrays = {name: np.array(value) for name, value in zip(_HEADER, header, strict=True)}
    return arrays | {name: _to_numpy(field) for name, field in metric._fields().items()}


def _to_numpy(field: Any) -> NDArray[Any]:
    if not isinstance(field, Tensor):
        return np.asarray(field)
    plain = field.detach().cpu()
    return (plain.float() if plain.dtype == torch.bfloat16 else plain).numpy()


def load(path: str | os.PathLike[str]) -> GroundMetric:
    """Read a ground metric; see :meth:`GroundMetric.load`."""
    try:
        return from_arrays(read_npz(path))
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RuntimeError) as error:
        reason = " ".join(str(error).split())  # torch's error about memory has several lines
        raise ValueError(f"{os.fspath(path)} is not a saved ground metric: {reason}") from error


def from_arrays(arrays: dict[str, NDArray[Any]]) -> GroundMetric:
    """Rebuild a metric from the arrays of ``to_arrays``."""
    given: dict[str, Any] = {}
    for name, array in arrays.items():
        if (array.ndim == 0) != (name in _SINGLE):
            wanted = "a single value" if name in _SINGLE else "a list"
            raise ValueError(f"{name} must be {wanted}, got shape {array.shape}")
        given[name] = array.item() if name in _SINGLE else array
    _require(given, _HEADER)
    kind, version, dtype, power, scale = (given[name] for name in _HEADER[:-1])
    if version != _FORMAT:
        raise ValueError(f"format {version} is unknown, this version reads format {_FORMAT}")
    for name, known in (("kind", KINDS), ("dtype", _DTYPES)):
        if given[name] not in known:
            raise ValueError(
                f"{name} {given[name]!r} is unknown, expected one of {', '.join(known)}"
            )
    labels = arrays["labels"]
    if labels.ndim != 1 or (labels.size > 0 and labels.dtype.kind != "U"):
        raise ValueError(f"labels must be a list of names, got {labels.dtype} of {labels.shape}")
    cls = KINDS[kind]
    _require(given, cls._FIELDS)
    fields = {name: given[name] for name in (*cls._FIELDS, *cls._OPTIONAL) if name in given}
    names = labels.tolist() or None
    return cls._from_fields(fields, power=power, scale=scale, labels=names).to(dtype=_DTYPES[dtype])


def _require(given: dict[str, Any], names: Sequence[str]) -> None:
    missing = [name for name in names if name not in given]
    if missing:
        raise ValueError(f"it lacks {', '.join(missing)}")
