"""Whether probabilities can be believed. Rows of probabilities and targets are normalized."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from wassloss._checks import check_count
from wassloss.scores._inputs import (
    AnyTarget,
    Mean,
    Numbers,
    finished,
    pooled,
    read_distributions,
    read_sample_weight,
)
from wassloss.scores.ranking import accuracy

if TYPE_CHECKING:
    from typing_extensions import Unpack


@torch.no_grad()
def negative_log_likelihood(probabilities: Numbers, target: AnyTarget, **mean: Unpack[Mean]) -> Any:
    r"""How surprising the truth is, :math:`-\sum_j y_j \log h_j`.

    Infinite if a true label has probability 0; scikit-learn's `log_loss` clips instead.

    Args:
        probabilities: masses, `(batch, labels)`, of which each row is divided by its sum.
        target: in any form, divided by its sum.
        **mean: ``sample_weight`` and ``reduction``; see :mod:`wassloss.scores`.

    >>> import numpy as np
    >>> negative_log_likelihood(np.array([[0.5, 0.5], [0.0, 1.0]]), [0, 1])
    0.3466
    """
    h, y = read_distributions(probabilities, target)
    return finished(-torch.xlogy(y, h).sum(1), probabilities, **mean)


@torch.no_grad()
def brier_score(probabilities: Numbers, target: AnyTarget, **mean: Unpack[Mean]) -> Any:
    r"""Squared differences of probabilities, :math:`\sum_j (h_j - y_j)^2` (Brier, 1950).

    Arguments are those of :func:`negative_log_likelihood`.

    >>> import numpy as np
    >>> brier_score(np.array([[0.5, 0.5], [0.0, 1.0]]), [0, 1])
    0.25
    """
    h, y = read_distributions(probabilities, target)
    return finished(((h - y) ** 2).sum(1), probabilities, **mean)


@pooled(lambda sums: sums[1:].abs().sum() / sums[0])
def expected_calibration_error(
    probabilities: Numbers,
    target: AnyTarget,
    *,
    bins: int = 15,
    sample_weight: Numbers | None = None,
) -> Any:
    r"""The gap between confidence and accuracy (Guo et al., 2017).

    .. math:: \sum_b \frac{n_b}{n} | \text{accuracy}_b - \text{confidence}_b |

    over bins :math:`((b-1)/B, b/B]` of the largest probability.

    Args:
        probabilities: masses, `(batch, labels)`, of which each row is divided by its sum.
        target: the true labels, in any form.
        bins: how many.
        sample_weight: a weight for each example, `(batch,)`.

    >>> import numpy as np
    >>> expected_calibration_error(np.array([[0.8, 0.2], [0.8, 0.2]]), [0, 1])
    0.3
    """
    h, _ = read_distributions(probabilities, target)
    weight = read_sample_weight(sample_weight, h)
    edges = torch.linspace(0, 1, check_count("bins", bins) + 1, dtype=h.dtype, device=h.device)
    confidence = h.amax(1)
    gap = weight * (confidence - accuracy(h, target, reduction="none"))
    gaps = h.new_zeros(bins).index_add_(0, torch.bucketize(confidence, edges[1:-1]), gap)
    return torch.cat([weight.sum().unsqueeze(0), gaps])
