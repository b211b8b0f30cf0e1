"""Costs from every label to the nearest label of a set."""

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
    """The minimum of the cost columns of each set, `(n, K)`, for a mask `(n, K)` of its labels."""
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
    """The same with shapes that do not depend on the sizes of the sets, for tracing."""
    (n, size), device = allowed.shape, metric.device
    found = torch.full(allowed.shape, math.inf, dtype=metric.dtype, device=device)
    for part in pieces(size, n * size, largest_block(device)):
        columns = metric.unchecked_cost_columns(torch.arange(size, device=device)[part])
        own = torch.where(allowed[:, part, None], columns, math.inf)  # (n, part, K)
        found = torch.minimum(found, own.amin(1))
    return found


def between_ends(before: Tensor, after: Tensor, first: Tensor, last: Tensor) -> Tensor:
    """Costs `(n, K)` to ranges, from two cost columns each.

    Args:
        before: costs to the label of each range that is nearest to all labels before it, `(n, K)`.
        after: costs to the label that is nearest to all labels after it, `(n, K)`.
        first: first place of each range in the order of the columns, `(n,)`.
        last: last place, inclusive, `(n,)`.
    """
    place = torch.arange(before.shape[1], device=before.device)
    outside = torch.where(place < first.unsqueeze(1), before, after)
    inside = (place >= first.unsqueeze(1)) & (place <= last.unsqueeze(1))
    return outside.masked_fill(inside, 0.0)
