"""Compute expected costs and minimise them over labels, without the K x K cost matrix."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from wassloss.ground import GroundMetric
from wassloss.ground._cost import blocks

Expected = Callable[[Tensor, Tensor], Tensor]


def argmin_over_labels(p: Tensor, metric: GroundMetric, expected: Expected) -> Tensor:
    """The label of least expected cost, `(batch,)`.

    `expected` takes a block of labels and their costs `(block, labels)`, and returns their expected
    costs `(batch, block)`.
    """
    least = p.new_full((len(p),), torch.inf)
    label = torch.zeros(len(p), dtype=torch.long, device=p.device)
    for block in blocks(torch.arange(metric.size, device=p.device), metric.size):
        value, place = expected(block, metric.cost_rows(block).to(p.dtype)).min(1)
        label = torch.where(value < least, block[place], label)
        least = torch.minimum(least, value)
    return label


def least_expected(p: Tensor, metric: GroundMetric) -> Tensor:
    """The label `i` that minimises `Σ_j p_j M_ij`, `(batch,)`."""
    return argmin_over_labels(p, metric, lambda _, costs: p @ costs.T)


def expected_cost(p: Tensor, labels: Tensor, metric: GroundMetric) -> Tensor:
    """`Σ_j p_j M_ij` of one label `i` per row, `(batch,)`."""
    rows = torch.arange(len(p), device=p.device)
    parts = [(p[some] * metric.cost_rows(labels[some])).sum(1) for some in blocks(rows, p.shape[1])]
    return torch.cat([p.new_empty(0), *parts])
