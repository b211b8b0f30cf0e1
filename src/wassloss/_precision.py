"""Numbers in a narrower dtype, or an error that names the first one that it cannot hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def single_precision(name: str, array: NDArray[Any]) -> Tensor:
    """An array `(n, columns)` as a float32 tensor of its own; errors as in :func:`narrowed`."""
    if array.dtype == np.float32:
        return torch.from_numpy(np.array(array, order="C"))
    return narrowed(name, torch.from_numpy(np.array(array, np.float64, order="C")), torch.float32)


def narrowed(
    name: str,
    values: Tensor,
    dtype: torch.dtype,
    rows: Sequence[int] | None = None,
    shuffled: bool = False,
) -> Tensor:
    """A matrix in another floating dtype.

    Args:
        name: the user's name for it, for the error.
        values: numbers `(n, columns)`.
        dtype: the other dtype.
        rows: the user's numbers of the rows; by default they are counted.
        shuffled: whether the rows have no number that the user would know.

    Raises:
        ValueError: a finite number would become infinite.

    >>> narrowed("features", torch.tensor([[1.5]]), torch.float64)
    tensor([[1.5000]], dtype=torch.float64)
    """
    narrow = values.to(dtype)
    index = overflowed(values, narrow)
    if index is None or len(index) != 2:  # other shapes are for the caller to refuse
        return narrow
    row, column = index
    number = None if shuffled else row if rows is None else rows[row]
    raise too_large(name, dtype, values[index].item(), number, column)


def too_large(
    name: str, dtype: torch.dtype, value: float, row: int | None, column: int
) -> ValueError:
    """The error for a number that a dtype cannot hold; `row` is None where it has no number."""
    where = f"column {column}" if row is None else f"row {row}, column {column}"
    return ValueError(
        f"{name} must fit {dtype}, got {value:g} in {where}; divide that column by its size"
    )


def overflowed(values: Tensor, narrow: Tensor) -> tuple[int, ...] | None:
    """The index of the first finite number that became infinite, or None."""
    if narrow is values or not values.is_floating_point():
        return None
    lost = narrow.isinf() & values.isfinite()
    return tuple(int(i) for i in lost.nonzero()[0]) if lost.any() else None
