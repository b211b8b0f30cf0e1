"""Numbers in a narrower dtype; errors name the first that does not fit."""

from __future__ import annotations

import torch
from torch import Tensor


def narrowed(name: str, values: Tensor, dtype: torch.dtype) -> Tensor:
    """Convert a matrix `(n, columns)` to another floating dtype; refuse numbers it cannot hold.

    >>> narrowed("features", torch.tensor([[1.5]]), torch.float64)
    tensor([[1.5000]], dtype=torch.float64)
    """
    narrow = values.to(dtype)
    if narrow is values or not values.is_floating_point():
        return narrow
    lost = narrow.isinf() & values.isfinite()
    if values.dim() != 2 or not lost.any():  # the caller refuses other shapes
        return narrow
    row, column = lost.nonzero()[0].tolist()
    raise ValueError(
        f"{name} must fit {dtype}, got {values[row, column].item():g} in row {row}, column "
        f"{column}; divide that column by its size"
    )
