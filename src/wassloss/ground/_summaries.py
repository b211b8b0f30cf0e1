"""Figures of a whole metric, without K x K memory: largest and median distance, typical cost."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor

if TYPE_CHECKING:
    from wassloss.ground.base import GroundMetric

_EXACT_SIZE = 2048  # up to here the median is over every pair
_COLUMNS = 256  # beyond, over the pairs of this many evenly spaced labels with all
_BLOCK_ENTRIES = 2**22


def blocks(indices: Tensor, width: int) -> Iterator[Tensor]:
    """``indices`` in pieces whose rows of ``width`` entries fit a bounded memory."""
    step = max(1, _BLOCK_ENTRIES // width)
    for start in range(0, len(indices), step):
        yield indices[start : start + step]


def max_distance(metric: GroundMetric) -> Tensor:
    """The largest distance, a detached scalar, by a sweep over all columns."""
    every = torch.arange(metric.size, device=metric.device)
    return torch.stack([columns.max() for columns in _columns(metric, every)]).max()


def median_distance(metric: GroundMetric) -> Tensor:
    """The lower median of the distances between different labels, a detached scalar.

    With one label there is no such distance, and the answer is 0.
    """
    size = metric.size
    every = torch.arange(size, device=metric.device)
    if size == 1:
        return torch.zeros((), dtype=metric.dtype, device=metric.device)
    chosen = every if size <= _EXACT_SIZE else every[:_COLUMNS] * size // _COLUMNS
    columns = torch.cat(list(_columns(metric, chosen)))  # (chosen, K)
    # Some devices lack a median in half precision; float32 holds its values exactly.
    wide = torch.promote_types(metric.dtype, torch.float32)
    return columns[every != chosen[:, None]].to(wide).median().to(metric.dtype)


def in_medians(metric: Metric) -> Metric:
    """The metric with costs in units of the median cost between two different labels.

    If that is 0 the unit is the largest cost, and where all are 0 there is nothing to measure.
    """
    return metric.with_cost(scale=float(median_distance(metric)) or float(max_distance(metric)) or 1.0)


def _columns(metric: GroundMetric, indices: Tensor) -> Iterator[Tensor]:
    for block in blocks(indices, metric.size):
        with torch.no_grad():
            columns = metric.distance_columns(block)
        yield columns  # outside, lest the caller run under no_grad too
