"""Minima over intervals of a fixed sequence, two look-ups each."""

from __future__ import annotations

import torch
from torch import Tensor


def minimum_table(values: Tensor) -> Tensor:
    """The sparse table of ``values``, shape (n,): row r holds the minima of windows of 2**r.

    Returns:
        Tensor of shape (1 + floor(log2(n)), n). The last 2**r - 1 entries of row r stand for
        windows that would run over the end, and mean nothing.
    """
    rows = [values]
    width = 1
    while 2 * width <= len(values):
        row = rows[-1].clone()
        row[:-width] = torch.minimum(rows[-1][:-width], rows[-1][width:])
        rows.append(row)
        width *= 2
    return torch.stack(rows)


def range_minimum(table: Tensor, start: Tensor, stop: Tensor) -> Tensor:
    """The minima over start..stop-1, for non-empty intervals of any shape.

    Two windows of the largest power of two that fits cover an interval, one from each end.

    >>> table = minimum_table(torch.tensor([3, 1, 4, 1, 5, 9]))
    >>> range_minimum(table, start=torch.tensor([0, 4, 2]), stop=torch.tensor([6, 6, 3]))
    tensor([1, 5, 4])
    """
    levels, n = table.shape
    widths = 2 ** torch.arange(levels, device=table.device)
    level = torch.bucketize(stop - start, widths, right=True) - 1
    offset = level * n
    entries = table.reshape(-1)
    return torch.minimum(entries[offset + start], entries[offset + stop - widths[level]])
