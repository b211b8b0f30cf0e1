"""Compare predicted with true distributions over labels, without a ground metric.

For a score that uses the distances between labels, see :func:`wassloss.scores.mean_wasserstein`.
Rows of predictions and targets are divided by their sums. The first six scores are those of label
distribution learning (Geng, 2016); the others measure whether probabilities are reliable.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from wassloss._checks import check_count
from wassloss.scores._inputs import AnyTarget, read_sets, shares
from wassloss.scores._score import Mean, Predictions, Score, Weights
from wassloss.scores.ranking import accuracy
from wassloss.sets import SetTarget

if TYPE_CHECKING:
    from typing_extensions import Unpack


@Score(larger_is_better=False)
def chebyshev(probabilities: Predictions, target: AnyTarget, **mean: Unpack[Mean]) -> Any:
    r"""The largest difference, :math:`\max_j |h_j - y_j|`.

    >>> chebyshev([[0.5, 0.5, 0.0]], [[0.2, 0.6, 0.2]])
    0.3
    """
    h, y = shares(probabilities, target)
    return (h - y).abs().amax(1)


@Score(larger_is_better=False)
def clark(probabilities: Predictions, target: AnyTarget, **mean: Unpack[Mean]) -> Any:
    r"""Clark's distance.

    .. math:: \sqrt{\sum_j \Bigl(\frac{h_j - y_j}{h_j + y_j}\Bigr)^2}

    Labels without mass on either side add 0.

    >>> clark([[0.5, 0.5, 0.0]], [[0.5, 0.0, 0.5]])
    1.4142
    """
    return (_relative_gap(*shares(probabilities, target)) ** 2).sum(1).sqrt()


@Score(larger_is_better=False)
def canberra(probabilities: Predictions, target: AnyTarget, **mean: Unpack[Mean]) -> Any:
    r"""The Canberra distance, :math:`\sum_j |h_j - y_j| / (h_j + y_j)`.

    Labels without mass on either side add 0.

    >>> canberra([[0.5, 0.5, 0.0]], [[0.5, 0.0, 0.5]])
    2.0
    """
    return _relative_gap(*shares(probabilities, target)).sum(1)


@Score(larger_is_better=False)
def kl_divergence(probabilities: Predictions, target: AnyTarget, **mean: Unpack[Mean]) -> Any:
    r"""The Kullback-Leibler divergence, :math:`\sum_j y_j \log(y_j / h_j)`.

    Infinite if a label with mass in the target has none in the prediction.

    >>> kl_divergence([[0.5, 0.5, 0.0]], [[1.0, 0.0, 0.0]])
    0.6931
    """
    h, y = shares(probabilities, target)
    return torch.xlogy(y, y).sub(torch.xlogy(y, h)).sum(1)


@Score(larger_is_better=True)
def cosine(probabilities: Predictions, target: AnyTarget, **mean: Unpack[Mean]) -> Any:
    r"""The cosine similarity, :math:`\langle h, y \rangle / (\|h\| \|y\|)`.

    >>> cosine([[0.5, 0.5, 0.0]], [[1.0, 0.0, 0.0]])
    0.7071
    """
    h, y = shares(probabilities, target)
    return torch.cosine_similarity(h, y)


@Score(larger_is_better=True)
def intersection(probabilities: Predictions, target: AnyTarget, **mean: Unpack[Mean]) -> Any:
    r"""The mass in common, :math:`\sum_j \min(h_j, y_j)`.

    >>> intersection([[0.5, 0.5, 0.0]], [[0.2, 0.6, 0.2]])
    0.7
    """
    h, y = shares(probabilities, target)
    return torch.minimum(h, y).sum(1)


@Score(larger_is_better=False)
def negative_log_likelihood(
    probabilities: Predictions, target: AnyTarget, **mean: Unpack[Mean]
) -> Any:
    r"""The negative log-likelihood of the truth, :math:`-\sum_j y_j \log h_j`.

    For a set S of labels, this is :math:`-\log \sum_{j \in S} h_j`. It is infinite if a true label
    has probability 0; scikit-learn's `log_loss` clips instead.

    >>> negative_log_likelihood([[0.5, 0.5], [0.0, 1.0]], [0, 1])
    0.3466
    """
    if isinstance(target, SetTarget):
        allowed, total = read_sets(target, probabilities), probabilities.sum(1)
        return -(probabilities.where(allowed, 0.0).sum(1) / total).log()
    h, y = shares(probabilities, target)
    return -torch.xlogy(y, h).sum(1)


@Score(larger_is_better=False)
def brier_score(probabilities: Predictions, target: AnyTarget, **mean: Unpack[Mean]) -> Any:
    r"""The sum of squared differences, :math:`\sum_j (h_j - y_j)^2` (Brier, 1950).

    >>> brier_score([[0.5, 0.5], [0.0, 1.0]], [0, 1])
    0.25
    """
    h, y = shares(probabilities, target)
    return ((h - y) ** 2).sum(1)


@Score(larger_is_better=False, answer=lambda sums: sums[1:].abs().sum() / sums[0])
def expected_calibration_error(
    probabilities: Predictions,
    target: AnyTarget,
    *,
    bins: int = 15,
    sample_weight: Weights = None,
) -> Any:
    r"""The gap between confidence and accuracy (Guo et al., 2017).

    .. math:: \sum_b \frac{n_b}{n} | \text{accuracy}_b - \text{confidence}_b |

    over B bins :math:`((b-1)/B, b/B]` of the largest probability.

    >>> expected_calibration_error([[0.8, 0.2], [0.8, 0.2]], [0, 1])
    0.3
    """
    h, _ = shares(probabilities, target)
    edges = torch.linspace(0, 1, check_count("bins", bins) + 1, dtype=h.dtype, device=h.device)
    confidence = h.amax(1)
    gap = sample_weight * (confidence - accuracy(h, target, reduction="none"))
    gaps = h.new_zeros(bins).index_add_(0, torch.bucketize(confidence, edges[1:-1]), gap)
    return torch.cat([sample_weight.sum().unsqueeze(0), gaps])


def _relative_gap(h: Tensor, y: Tensor) -> Tensor:
    total = h + y
    return torch.where(total > 0, (h - y).abs() / total, 0.0)
