r"""How bad the mistakes are, in units of the ground metric.

Scores use the *distance* :math:`d`, as the paper does, rather than the cost
:math:`(d / \text{scale})^{\text{power}}`, so that models trained under different powers and scales
can be compared.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from wassloss.ground._cost import blocks
from wassloss.ground.matrix import AnyMetric
from wassloss.losses import wasserstein
from wassloss.scores import _inputs as inputs
from wassloss.scores._inputs import AnyTarget, Ks
from wassloss.scores._score import Mean, Predictions, Score, Weights
from wassloss.scores._top import top
from wassloss.scores.ranking import accuracy

if TYPE_CHECKING:
    from typing_extensions import Unpack


@Score(larger_is_better=False)
def top_k_cost(
    scores: Predictions, target: AnyTarget, metric: AnyMetric, k: Ks = 1, **mean: Unpack[Mean]
) -> Any:
    r"""The paper's top-k cost: how far the `k` best guesses are from the nearest true label.

    .. math:: C_k = \frac1k \sum_{l=1}^k \min_j d(\hat\kappa_l, \kappa_j)

    with the labels of highest score :math:`\hat\kappa_1, \hat\kappa_2, \ldots` and the true labels
    :math:`\kappa_j`. For sets of labels and ``k=1``, this is the distance to the set. A sequence
    such as ``k=range(1, 21)`` gives the whole curve at the price of its last point: `batch × k × s`
    distances for s true labels.

    >>> import wassloss as wl
    >>> scores = [[0.1, 0.6, 0.0, 0.3]]  # 1, then 3, 0, 2
    >>> top_k_cost(scores, [[1, 0, 1, 0]], wl.ground.Ordinal(4), k=[1, 2, 3, 4])
    array([1.    , 1.    , 0.6667, 0.5   ])
    """
    return _curve(scores, target, metric, k, _nearest)


@Score(larger_is_better=False)
def distance_at_k(
    scores: Predictions, target: AnyTarget, metric: AnyMetric, k: Ks = 1, **mean: Unpack[Mean]
) -> Any:
    r"""How far the `k` best guesses are from the truth, expected over the target.

    .. math:: \frac1k \sum_{l=1}^k \sum_j \frac{y_j}{\sum_i y_i} d(\hat\kappa_l, j)

    For class ids, with heights of lowest common ancestors as the metric
    (`Tree(…, distance="lca_height")`), it is the hierarchical distance@k of Bertinetto et al.
    (2020), and equals :func:`top_k_cost`. To score other decisions, pass their labels as one-hot
    scores.

    >>> import wassloss as wl
    >>> scores = [[0.1, 0.6, 0.0, 0.3], [0.0, 0.0, 0.0, 1.0]]
    >>> distance_at_k(scores, [3, 3], wl.ground.Ordinal(4))
    1.0
    >>> distance_at_k(scores, [[0, 1, 0, 3], [0, 0, 0, 1]], wl.ground.Ordinal(4), reduction="none")
    array([1.5, 0. ])
    """
    return _curve(scores, target, metric, k, _expected)


@Score(larger_is_better=False, answer=lambda sums: sums[0] / sums[1])
def mistake_severity(
    scores: Predictions,
    target: AnyTarget,
    metric: AnyMetric,
    *,
    sample_weight: Weights = None,
) -> Any:
    r"""How far the first guess is from the truth where it is wrong (Bertinetto et al., 2020).

    The mean of :func:`distance_at_k` over the examples that :func:`wassloss.scores.accuracy` counts
    as mistakes; NaN if there are none. A model with more, but milder, mistakes has a smaller
    severity, so read it together with the accuracy.

    >>> import wassloss as wl
    >>> scores = [[0.1, 0.6, 0.0, 0.3], [0.0, 0.0, 0.0, 1.0]]
    >>> mistake_severity(scores, [3, 3], wl.ground.Ordinal(4))
    2.0
    """
    distance = _curve(scores, target, metric, 1, _expected)
    mistaken = sample_weight * (1 - accuracy(scores, target, reduction="none"))
    return torch.stack([(mistaken * distance).sum(), mistaken.sum()])


@Score(larger_is_better=False)
def mean_wasserstein(
    probabilities: Predictions,
    target: AnyTarget,
    metric: AnyMetric,
    *,
    epsilon: float = 0.0,
    **mean: Unpack[Mean],
) -> Any:
    """The Wasserstein distance from prediction to target, each divided by its sum.

    It is :func:`wassloss.wasserstein` with the distance as its cost, exact unless ``epsilon`` is
    positive.

    >>> import wassloss as wl
    >>> h = [[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]]
    >>> mean_wasserstein(h, [2, 1], wl.ground.Ordinal(3, power=2), reduction="none")
    array([1.5, 1. ])
    """
    h = probabilities / probabilities.sum(1, keepdim=True)
    truth = inputs.read_labels(target, h).normalized()
    # If every label is listed, use a matrix: solvers are faster on a shared support.
    y = truth.dense(h.shape[1]) if truth.indices.shape == h.shape else truth
    return wasserstein(h, y, inputs.with_distance(metric), epsilon=epsilon)


def _curve(
    x: Tensor,
    target: AnyTarget,
    metric: AnyMetric,
    k: Ks,
    to_truth: Callable[[Tensor, Tensor], Tensor],
) -> Tensor:
    """The mean over the first `k` guesses of `to_truth(costs, weights)`.

    Costs are `(batch, k, support)`, and the true labels' weights `(batch, 1, support)`.
    """
    largest = max(inputs.read_ks(k, x.shape[1]))
    truth = inputs.read_labels(target, x, sets=to_truth is _nearest)
    pairs = truth.indices.numel() * largest
    metric = inputs.tabulated(inputs.with_distance(metric), pairs)
    guesses = top(x, largest)
    found = [guesses.new_empty((0, largest), dtype=metric.dtype)]
    per_example = largest * truth.indices.shape[1]
    for rows in blocks(torch.arange(len(x), device=x.device), per_example):
        costs = metric.cost_between(guesses[rows, :, None], truth.indices[rows, None])
        found.append(to_truth(costs, truth.weights[rows, None]))
    wide = torch.cat(found).to(torch.promote_types(x.dtype, metric.dtype))
    return inputs.at_k(wide.cumsum(1) / torch.arange(1, largest + 1, device=x.device), k)


def _nearest(costs: Tensor, weights: Tensor) -> Tensor:
    return costs.masked_fill(weights == 0, torch.inf).amin(2)


def _expected(costs: Tensor, weights: Tensor) -> Tensor:
    return (costs * (weights / weights.sum(2, keepdim=True))).sum(2)
