"""Costs from every label to the nearest of a set."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from wassloss import _checks
from wassloss._memory import largest_block, pieces

if TYPE_CHECKING:
    from wassloss.ground.base import GroundMetric


def least_costs(metric: GroundMetric, allowed: Tensor) -> Tensor:
    """The least of the cost columns of each set, `(n, K)`, for a mask `(n, K)`."""
    if _checks.can_read_values():
        return _of_columns_named(metric, allowed)
    return _of_all_columns(metric, allowed)


def _of_columns_named(metric: GroundMetric, allowed: Tensor) -> Tensor:
    row, label = allowed.nonzero(as_tuple=True)
    found = torch.full(allowed.shape, math.inf, dtype=metric.dtype, device=metric.device)
    for part in pieces(len(row), metric.size, largest_block(metric.device)):
        columns = metric.unchecked_cost_columns(label[part])  # (part, K)
        index = row[part].unsqueeze(1).expand_as(columns)
        found = found.scatter_reduce(0, index, columns, "amin")
    return found


def _of_all_columns(metric: GroundMetric, allowed: Tensor) -> Tensor:
    """The same in shapes that do not depend on how many labels the sets have."""
    (n, size), device = allowed.shape, metric.device
    found = torch.full(allowed.shape, math.inf, dtype=metric.dtype, device=device)
    for part in pieces(size, n * size, largest_block(device)):
        columns = metric.unchecked_cost_columns(torch.arange(size, device=device)[part])
        own = torch.where(allowed[:, part, None], columns, math.inf)  # (n, part, K)
        found = torch.minimum(found, own.amin(1))
    return found


def between_ends(before: Tensor, after: Tensor, first: Tensor, last: Tensor) -> Tensor:
    """Costs `(n, K)` to ranges: of the ends that are nearest to what lies on either side.

    All in the order in which the ranges are ranges: columns `before` and `after (n, K)`, and ends
    `(n,)` of the ranges.
    """
    place = torch.arange(before.shape[1], device=before.device)
    outside = torch.where(place < first.unsqueeze(1), before, after)
    inside = (place >= first.unsqueeze(1)) & (place <= last.unsqueeze(1))
    return outside.masked_fill(inside, 0.0)
