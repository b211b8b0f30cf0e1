"""Choose several labels, so that one of them is near the truth."""

from __future__ import annotations

from typing import Any, SupportsIndex

import torch
from torch import Tensor

from wassloss._checks import check_count
from wassloss.decisions import _inputs
from wassloss.decisions._argmin import argmin_over_labels, least_expected
from wassloss.ground import GroundMetric
from wassloss.ground._cost import blocks
from wassloss.ground.matrix import AnyMetric, as_ground_metric
from wassloss.scores import _inputs as inputs
from wassloss.scores._inputs import Numbers


@torch.no_grad()
def least_cost_labels(probabilities: Numbers, metric: AnyMetric, k: SupportsIndex) -> Any:
    r"""A set of `k` labels with a small expected cost to the nearest of them.

    .. math:: E(S) = \sum_j p_j \min_{i \in S} M_{ij}

    Labels are chosen greedily: each one lowers :math:`E` the most. This takes time
    `k × batch × labels²`. Finding the best set is NP-hard (k-medoids), but the saving
    :math:`\max M - E(S)` is monotone and submodular, so that the greedy set saves at least
    :math:`1 - 1/e`, or 63 %, of what the best set does. Unlike the most probable labels, the set
    spreads out: near-synonyms of a chosen label save nothing.

    Returns:
        Integers `(batch, k)`, in the order of choice.

    >>> import wassloss as wl
    >>> p = [[0.3, 0.3, 0.2, 0.0, 0.0, 0.1, 0.1]]
    >>> least_cost_labels(p, wl.ground.Ordinal(7), k=2), wl.decisions.top_labels(p, k=2)
    (array([[1, 5]]), array([[0, 1]]))
    """
    metric = as_ground_metric(metric)
    p = inputs.read_probabilities(_inputs.in_label_order(probabilities, metric), metric)
    (count,) = inputs.read_ks(check_count("k", k), metric.size)
    metric = inputs.tabulated(metric, pairs=count * metric.size**2)  # each step reads every cost
    p = p.to(torch.promote_types(p.dtype, metric.dtype))
    with torch.autocast(p.device.type, enabled=False):
        chosen = [least_expected(p, metric)]
        nearest = metric.cost_rows(chosen[0]).to(p.dtype)  # (batch, labels)
        while len(chosen) < count:
            chosen.append(_next_label(p, nearest, torch.stack(chosen, dim=1), metric))
            nearest = torch.minimum(nearest, metric.cost_rows(chosen[-1]).to(p.dtype))
    return _inputs.given_back(torch.stack(chosen, dim=1), probabilities)


def _next_label(p: Tensor, nearest: Tensor, taken: Tensor, metric: GroundMetric) -> Tensor:
    """The label that lowers the expected cost the most, given the `nearest` cost so far."""
    every = torch.arange(len(p), device=p.device)

    def expected(block: Tensor, costs: Tensor) -> Tensor:
        parts = [
            torch.minimum(nearest[rows, None], costs).matmul(p[rows, :, None]).squeeze(2)
            for rows in blocks(every, costs.numel())
        ]
        held = (taken[:, :, None] == block).any(1)
        return torch.cat([p.new_empty(0, len(block)), *parts]).masked_fill(held, torch.inf)

    return argmin_over_labels(p, metric, expected)
