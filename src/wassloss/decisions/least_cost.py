"""Choose the label of least expected cost."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from wassloss._checks import check_strength
from wassloss.decisions import _inputs
from wassloss.decisions._argmin import expected_cost, least_expected
from wassloss.ground import GroundMetric, Ordinal
from wassloss.ground.matrix import AnyMetric, as_ground_metric
from wassloss.scores import _inputs as inputs
from wassloss.scores._inputs import Numbers


@torch.no_grad()
def least_cost_label(
    probabilities: Numbers, metric: AnyMetric, *, abstain: float | None = None
) -> Any:
    r"""The label of least expected cost, the Bayes decision under the ground metric.

    .. math:: \hat\kappa = \arg\min_i \sum_j p_j M_{ij}

    Under the 0-1 metric this is the most probable label; on a line it is the median for ``power=1``
    and the label nearest to the mean for ``power=2``. Ties (up to rounding) are broken arbitrarily.
    Time is `batch × labels²`; on a line with ``power=1``, `batch × labels`.

    Args:
        probabilities: `(batch, labels)`: tensor, array or data frame. If both the columns of a
            frame and the metric's labels have names, columns are matched by name.
        metric: the ground metric; a matrix of distances; or costs per row, an array or tensor
            `(batch, answers, labels)` whose entry `[r, i, j]` is the cost of answering `i` in row
            `r` if the truth is `j`.
        abstain: the price of not answering, in the unit of the cost (the distance, for
            ``power=1``). Rows with a higher least expected cost get -1. This minimises the mean of
            costs and prices (Chow, 1970). Probabilities must then sum to 1, and should be
            calibrated: see :class:`Temperature`.

    Returns:
        Integers `(batch,)`.

    >>> import wassloss as wl
    >>> p = [[0.4, 0.0, 0.25, 0.35]]  # label 0 is most probable, but far from the others
    >>> least_cost_label(p, wl.ground.Ordinal(4)), least_cost_label(p, wl.ground.Discrete(4))
    (array([2]), array([0]))
    >>> least_cost_label([*p, [0, 0.1, 0.9, 0]], wl.ground.Ordinal(4), abstain=0.5)
    array([-1,  2])
    >>> import numpy as np
    >>> amounts = np.array([10.0, 500.0])  # cost of missing a fraud; blocking costs 20
    >>> costs = np.array([[[0, a], [20, 0]] for a in amounts])
    >>> least_cost_label([[0.9, 0.1], [0.9, 0.1]], costs)
    array([0, 1])
    """
    price = None if abstain is None else check_strength("abstain", abstain)
    by_row = _costs_by_row(metric)
    if by_row is None:
        ground = as_ground_metric(metric)
        given = _inputs.in_label_order(probabilities, ground)
        p = inputs.read_probabilities(given, ground)
        labels = _least_cost(p, ground)
    else:
        p, costs = _with_costs(probabilities, by_row)
        labels = (costs @ p[:, :, None])[:, :, 0].argmin(1)
    if price is not None:
        p = _inputs.read_simplex(probabilities, None if by_row is not None else ground)
        if by_row is None:
            expected = expected_cost(p, labels, ground)
        else:
            expected = (p * costs[torch.arange(len(p), device=p.device), labels]).sum(1)
        labels = labels.masked_fill(expected > price, -1)
    return _inputs.given_back(labels, probabilities)


def _least_cost(p: Tensor, metric: GroundMetric) -> Tensor:
    if isinstance(metric, Ordinal) and metric.power == 1:
        return _median(p, metric.positions)
    p = p.to(torch.promote_types(p.dtype, metric.dtype))
    with torch.autocast(p.device.type, enabled=False):
        return least_expected(p, metric)


def _median(p: Tensor, positions: Tensor) -> Tensor:
    order = positions.argsort(stable=True)
    below = p[:, order].double().cumsum(1)
    return order[(below < below[:, -1:] / 2).sum(1)]


def _costs_by_row(metric: Any) -> Tensor | None:
    """Costs `(batch, answers, labels)` if `metric` holds costs per row, otherwise None."""
    if not isinstance(metric, Tensor | np.ndarray) or metric.ndim != 3:
        return None
    costs = metric.detach() if isinstance(metric, Tensor) else torch.from_numpy(np.array(metric))
    costs = costs.double()
    if not costs.isfinite().all():
        raise ValueError("metric, as costs per row, must be finite")
    return costs


def _with_costs(probabilities: Numbers, costs: Tensor) -> tuple[Tensor, Tensor]:
    p = inputs.read_probabilities(probabilities).double()
    if (costs.shape[0], costs.shape[2]) != tuple(p.shape):
        raise ValueError(
            f"metric, as costs per row, must have shape ({p.shape[0]}, answers, "
            f"{p.shape[1]}), got {tuple(costs.shape)}"
        )
    return p, costs.to(p.device)
