"""How many guesses are right: the scores for which all mistakes are alike."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from wassloss.scores._inputs import (
    AnyTarget,
    Ks,
    Numbers,
    check_reduction,
    dense_weights,
    given_back,
    read_ks,
    read_labels,
    read_scores,
    reduced,
)
from wassloss.scores.decoding import top


@torch.no_grad()
def accuracy(
    scores: Numbers,
    target: AnyTarget,
    *,
    sample_weight: Numbers | None = None,
    reduction: str = "mean",
) -> Any:
    r"""Whether the label of highest score is a label of largest weight in the target.

    .. math:: [\, y_{\hat\kappa} = \max_j y_j \,], \qquad \hat\kappa = \arg\max_j \text{scores}_j

    For class ids: whether it is the class. For several labels of weight 1: whether it is one of
    them.

    Args:
        scores: probabilities, logits, or anything to rank by, `(batch, labels)`.
        target: the true labels in any form; see :mod:`wassloss.scores`.
        sample_weight: a weight for each example in the mean, `(batch,)`.
        reduction: ``"mean"`` over examples, or ``"none"``.

    >>> import numpy as np
    >>> accuracy(np.array([[0.1, 0.9], [0.8, 0.2]]), [1, 1])
    0.5
    """
    check_reduction(reduction)
    x = read_scores("scores", scores)
    weights = dense_weights(read_labels(target, x), x.shape[1])
    right = weights.gather(1, top(x, 1)).squeeze(1) == weights.amax(1)
    return given_back(reduced(right.to(x.dtype), sample_weight, reduction), scores)


@torch.no_grad()
def precision_at_k(
    scores: Numbers,
    target: AnyTarget,
    k: Ks = 1,
    *,
    sample_weight: Numbers | None = None,
    reduction: str = "mean",
) -> Any:
    r"""The share of the `k` best guesses that are right.

    .. math:: \frac1k \, |\{\hat\kappa_1, \ldots, \hat\kappa_k\} \cap \{\kappa_j\}|

    Args:
        scores: probabilities, logits, or anything to rank by, `(batch, labels)`.
        target: the true labels in any form; see :mod:`wassloss.scores`.
        k: how many guesses; one number or several.
        sample_weight: a weight for each example in the mean, `(batch,)`.
        reduction: ``"mean"`` over examples, or ``"none"``.

    Returns:
        One number, or one for each of several `k`; with a first dimension `batch` for ``"none"``.

    >>> import numpy as np
    >>> precision_at_k(np.array([[0.1, 0.6, 0.0, 0.3]]), [[1, 1, 0, 0]], k=[1, 2, 3])
    array([1.    , 0.5   , 0.6667])
    """
    x, ks, one, hits, _ = _hits(scores, target, k, reduction)
    guesses = torch.tensor(ks, dtype=x.dtype, device=x.device)
    return _finished(hits / guesses, one, sample_weight, reduction, scores)


@torch.no_grad()
def recall_at_k(
    scores: Numbers,
    target: AnyTarget,
    k: Ks = 1,
    *,
    sample_weight: Numbers | None = None,
    reduction: str = "mean",
) -> Any:
    r"""The share of the true labels that are among the `k` best guesses.

    .. math:: \frac{1}{|\{\kappa_j\}|} \, |\{\hat\kappa_1, \ldots, \hat\kappa_k\} \cap \{\kappa_j\}|

    Arguments and shapes are those of :func:`precision_at_k`. With a single true label it is the
    top-k accuracy.

    >>> import numpy as np
    >>> recall_at_k(np.array([[0.1, 0.6, 0.0, 0.3]]), [[1, 1, 0, 0]], k=[1, 2, 3])
    array([0.5, 0.5, 1. ])
    """
    _, _, one, hits, count = _hits(scores, target, k, reduction)
    return _finished(hits / count.unsqueeze(1), one, sample_weight, reduction, scores)


def _hits(
    scores: Numbers, target: AnyTarget, k: Ks, reduction: str
) -> tuple[Tensor, list[int], bool, Tensor, Tensor]:
    """Scores, ks, whether one; hits among the first of each k `(batch, ks)`; true labels."""
    check_reduction(reduction)
    x = read_scores("scores", scores)
    ks, one = read_ks(k, x.shape[1])
    true = dense_weights(read_labels(target, x), x.shape[1]) > 0
    right = true.gather(1, top(x, max(ks))).to(x.dtype).cumsum(1)  # (batch, k)
    return x, ks, one, right[:, [each - 1 for each in ks]], true.sum(1)


def _finished(
    values: Tensor, one: bool, sample_weight: Numbers | None, reduction: str, given: Numbers
) -> Any:
    values = values[:, 0] if one else values
    return given_back(reduced(values, sample_weight, reduction), given)
