"""What a file holds of a ground metric: arrays that never need pickle."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

if TYPE_CHECKING:
    from wassloss.ground.base import GroundMetric

FORMAT = 1
DTYPES = {
    str(dtype).removeprefix("torch."): dtype
    for dtype in (torch.float16, torch.bfloat16, torch.float32, torch.float64)
}


def to_arrays(metric: GroundMetric) -> dict[str, NDArray[Any]]:
    """The arrays that a file holds of ``metric``.

    They are ``kind``, ``format``, ``dtype``, ``power``, ``scale``, ``labels`` (empty where
    there are none) and the arrays that the constructor takes. NumPy has no bfloat16: such tensors
    are written as float32, which holds them exactly.
    """
    kind, dtype = type(metric).__name__, str(metric.dtype).removeprefix("torch.")
    if not type(metric).__module__.startswith("wassloss.ground.") or dtype not in DTYPES:
        raise TypeError(
            f"only the metrics of wassloss.ground in {', '.join(DTYPES)} can be saved, got {kind} "
            f"in {dtype}"
        )
    names = np.array(metric.labels or (), dtype=np.str_)
    if metric.labels is not None and tuple(names.tolist()) != metric.labels:
        raise ValueError("labels that end in a NUL character cannot be saved")
    arrays: dict[str, NDArray[Any]] = {
        "kind": np.array(kind),
        "format": np.array(FORMAT),
        "dtype": np.array(dtype),
        "power": np.array(metric.power),
        "scale": np.array(metric.scale),
        "labels": names,
    }
    arrays |= {name: _to_numpy(field) for name, field in metric._fields().items()}
    return arrays


def _to_numpy(field: Tensor | NDArray[Any]) -> NDArray[Any]:
    if not isinstance(field, Tensor):
        return field
    plain = field.detach().cpu()
    return (plain.float() if plain.dtype == torch.bfloat16 else plain).numpy()
