r"""From predicted probabilities to labels.

The most probable label is the right answer where all mistakes are equally bad. Where they are not,
a label between two rivals may be the better bet: the decisions here minimise the expected cost.
They charge the metric's *cost*, as training does; pass ``metric.with_cost(power=1)`` to charge the
distance.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, SupportsIndex

import torch
from torch import Tensor

from wassloss._checks import check_count
from wassloss.ground import GroundMetric, Ordinal
from wassloss.ground._cost import blocks
from wassloss.ground.matrix import AnyMetric, as_ground_metric
from wassloss.scores import _inputs as inputs
from wassloss.scores._inputs import Numbers


@torch.no_grad()
def top_labels(scores: Numbers, k: SupportsIndex = 1) -> Any:
    """The `k` labels of highest score, best first; equal scores go to the smaller label.

    Returns:
        Integers `(batch, k)`.

    >>> top_labels([[0.2, 0.5, 0.3], [0.4, 0.2, 0.4]], k=2)
    array([[1, 2],
           [0, 2]])
    """
    x = inputs.read_scores(scores)
    (count,) = inputs.read_ks(check_count("k", k), x.shape[1])
    return inputs.given_back(top(x, count), scores)


def top(x: Tensor, k: int) -> Tensor:
    """`top_labels` of checked scores."""
    if k == 1:
        return x.argmax(1, keepdim=True)  # the first of equals
    values, labels = x.topk(k, dim=1)
    # topk is several times faster than sorting, but breaks ties as it likes: put equal scores in
    # order, and sort the rows in which a label left out has the score of the last one taken.
    labels, order = labels.sort(dim=1)
    values, order = values.gather(1, order).sort(dim=1, descending=True, stable=True)
    labels = labels.gather(1, order)
    tied = (x >= values[:, -1:]).sum(1) > k
    if tied.any():
        labels[tied] = x[tied].argsort(dim=1, descending=True, stable=True)[:, :k]
    return labels


@torch.no_grad()
def least_cost_label(probabilities: Numbers, metric: AnyMetric) -> Any:
    r"""The label of least expected cost, the Bayes decision under the ground metric.

    .. math:: \hat\kappa = \arg\min_i \sum_j p_j M_{ij}

    Under the 0-1 metric it is the most probable label; on a line it is the median for ``power=1``
    and the label nearest to the mean for ``power=2``. Among labels of equal expected cost (up to
    rounding) any may be returned. Time is `batch × labels²`; on a line with ``power=1``,
    `batch × labels`.

    Returns:
        Integers `(batch,)`.

    >>> import wassloss as wl
    >>> p = [[0.4, 0.0, 0.25, 0.35]]  # 0 is most probable, and a bad bet
    >>> least_cost_label(p, wl.ground.Ordinal(4)), least_cost_label(p, wl.ground.Discrete(4))
    (array([2]), array([0]))
    """
    metric = as_ground_metric(metric)
    p = inputs.read_probabilities(probabilities, metric)
    if isinstance(metric, Ordinal) and metric.power == 1:
        return inputs.given_back(_median(p, metric.positions), probabilities)
    p = p.to(torch.promote_types(p.dtype, metric.dtype))
    return inputs.given_back(_first_label(p, metric), probabilities)


@torch.no_grad()
def least_cost_labels(probabilities: Numbers, metric: AnyMetric, k: SupportsIndex) -> Any:
    r"""A set of `k` labels with a small expected cost to the nearest of them.

    .. math:: E(S) = \sum_j p_j \min_{i \in S} M_{ij}

    Labels are chosen greedily, each the one that lowers :math:`E` the most, in time
    `k × batch × labels²`. Finding the best set is hard (k-medoids); the saving
    :math:`\max M - E(S)` is monotone and submodular, so the greedy set saves at least
    :math:`1 - 1/e`, 63 %, of what the best set does. Unlike the most probable labels the set
    spreads out: near-synonyms of a label chosen already save nothing.

    Returns:
        Integers `(batch, k)`, in the order of choice.

    >>> import wassloss as wl
    >>> p = [[0.3, 0.3, 0.2, 0.0, 0.0, 0.1, 0.1]]
    >>> least_cost_labels(p, wl.ground.Ordinal(7), k=2), top_labels(p, k=2)
    (array([[1, 5]]), array([[0, 1]]))
    """
    metric = as_ground_metric(metric)
    p = inputs.read_probabilities(probabilities, metric)
    (count,) = inputs.read_ks(check_count("k", k), metric.size)
    metric = inputs.tabulated(metric, pairs=count * metric.size**2)  # each step reads every cost
    p = p.to(torch.promote_types(p.dtype, metric.dtype))
    chosen = [_first_label(p, metric)]
    nearest = metric.cost_rows(chosen[0]).to(p.dtype)  # (batch, labels)
    while len(chosen) < count:
        chosen.append(_next_label(p, nearest, torch.stack(chosen, dim=1), metric))
        nearest = torch.minimum(nearest, metric.cost_rows(chosen[-1]).to(p.dtype))
    return inputs.given_back(torch.stack(chosen, dim=1), probabilities)


def _median(p: Tensor, positions: Tensor) -> Tensor:
    order = positions.argsort(stable=True)
    below = p[:, order].double().cumsum(1)
    return order[(below < below[:, -1:] / 2).sum(1)]


def _first_label(p: Tensor, metric: GroundMetric) -> Tensor:
    """The label of least expected cost, `(batch,)`."""
    return _least(p, metric, lambda _, costs: p @ costs.T)


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

    return _least(p, metric, expected)


def _least(p: Tensor, metric: GroundMetric, expected: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """The label of least `expected(block, costs)`, `(batch, block)` for `costs (block, labels)`."""
    least = p.new_full((len(p),), torch.inf)
    label = torch.zeros(len(p), dtype=torch.long, device=p.device)
    for block in blocks(torch.arange(metric.size, device=p.device), metric.size):
        value, place = expected(block, metric.cost_rows(block).to(p.dtype)).min(1)
        label = torch.where(value < least, block[place], label)
        least = torch.minimum(least, value)
    return label
