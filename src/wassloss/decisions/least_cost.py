"""The label to answer with if some mistakes are worse than others."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from wassloss.decisions._argmin import least_expected
from wassloss.ground import Ordinal
from wassloss.ground.matrix import AnyMetric, as_ground_metric
from wassloss.scores import _inputs as inputs
from wassloss.scores._inputs import Numbers


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
    with torch.autocast(p.device.type, enabled=False):
        return inputs.given_back(least_expected(p, metric), probabilities)


def _median(p: Tensor, positions: Tensor) -> Tensor:
    order = positions.argsort(stable=True)
    below = p[:, order].double().cumsum(1)
    return order[(below < below[:, -1:] / 2).sum(1)]
