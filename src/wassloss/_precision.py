"""Numbers in a narrower dtype; errors name the first that does not fit."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor


def narrowed(
    name: str,
    values: Tensor,
    dtype: torch.dtype,
    rows: Sequence[int] | None = None,
    shuffled: bool = False,
) -> Tensor:
    """Convert a matrix `(n, columns)` to another floating dtype; refuse numbers it cannot hold.

    The error counts rows from 0, or by the user's own numbers, `rows`. It names no row if they are
    `shuffled`, so that numbers mean nothing to the user.

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
    number = row if rows is None else rows[row]
    where = f"column {column}" if shuffled else f"row {number}, column {column}"
    raise ValueError(
        f"{name} must fit {dtype}, got {values[row, column].item():g} in {where}; divide that "
        "column by its size"
    )
