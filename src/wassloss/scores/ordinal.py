"""Scores for ordered labels, in steps between neighbouring labels.

Labels are 0, 1, …, K−1 in order. If they are not equally spaced, pass `Ordinal(positions)` to
:func:`wassloss.scores.distance_at_k`.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from wassloss.ground import Ordinal
from wassloss.scores._inputs import AnyTarget, shares, true_shares
from wassloss.scores._score import Mean, Predictions, Score, Weights
from wassloss.scores._top import top
from wassloss.scores.cost import distance_at_k

if TYPE_CHECKING:
    from typing_extensions import Unpack


@Score(larger_is_better=False)
def mean_absolute_error(scores: Predictions, target: AnyTarget, **mean: Unpack[Mean]) -> Any:
    r"""How many steps the first guess is from the truth, :math:`|\hat\kappa - \kappa|`.

    >>> mean_absolute_error([[1, 0, 0, 0], [0, 0, 0, 1]], [0, 1])
    1.0
    """
    line = Ordinal(torch.arange(scores.shape[1], dtype=scores.dtype, device=scores.device))
    return distance_at_k(scores, target, line, reduction="none")


@Score(larger_is_better=True)
def off_by_one_accuracy(scores: Predictions, target: AnyTarget, **mean: Unpack[Mean]) -> Any:
    """How often the first guess is at most one step from the truth.

    >>> off_by_one_accuracy([[1, 0, 0, 0], [0, 0, 0, 1]], [1, 1])
    0.5
    """
    near = (_steps(scores) <= 1).to(scores.dtype)
    return (near * true_shares(target, scores)).sum(1)


@Score(larger_is_better=False)
def ranked_probability_score(
    probabilities: Predictions, target: AnyTarget, **mean: Unpack[Mean]
) -> Any:
    r"""Squared differences of cumulative probabilities: a proper score for ordered labels.

    .. math:: \sum_i \Bigl( \sum_{j \le i} h_j - y_j \Bigr)^2

    It is not divided by the number of labels (Epstein, 1969).

    >>> ranked_probability_score([[0.5, 0.5, 0.0]], [2])
    1.25
    """
    h, y = shares(probabilities, target)
    return ((h - y).cumsum(1) ** 2).sum(1)


def _per_class(x: Tensor, target: AnyTarget, weight: Tensor) -> Tensor:
    """The weighted steps and the weight of each true class, `(2 · labels,)`."""
    truth = weight.unsqueeze(1) * true_shares(target, x)
    return torch.cat([(truth * _steps(x)).sum(0), truth.sum(0)])


def _class_errors(sums: Tensor) -> Tensor:
    """The mean absolute error of each class that occurs."""
    off, weight = sums.reshape(2, -1).unbind()
    occurs = weight > 0
    return off[occurs] / weight[occurs]


@Score(larger_is_better=False, answer=lambda sums: _class_errors(sums).mean())
def average_mae(scores: Predictions, target: AnyTarget, *, sample_weight: Weights = None) -> Any:
    """The mean absolute error of each true class, averaged over the classes that occur.

    Every class counts the same, however rare (Baccianella, Esuli and Sebastiani, 2009).

    >>> average_mae([[1, 0, 0]] * 4, [0, 0, 0, 2])
    1.0
    """
    return _per_class(scores, target, sample_weight)


def _largest_error(sums: Tensor) -> Tensor:
    errors = _class_errors(sums)
    return (
        errors.amax() if len(errors) else errors.new_tensor(math.nan)
    )  # like the mean of no classes


@Score(larger_is_better=False, answer=_largest_error)
def maximum_mae(scores: Predictions, target: AnyTarget, *, sample_weight: Weights = None) -> Any:
    """The mean absolute error of the true class for which it is largest.

    Proposed by Cruz-Ramírez et al. (2014).

    >>> maximum_mae([[1, 0, 0]] * 4, [0, 0, 0, 2])
    2.0
    """
    return _per_class(scores, target, sample_weight)


def _kappa(sums: Tensor) -> Tensor:
    labels = math.isqrt(len(sums))
    observed = sums.reshape(labels, labels)  # (true, guessed)
    label = torch.arange(labels, dtype=sums.dtype, device=sums.device)
    squares = (label[:, None] - label) ** 2
    by_chance = observed.sum(1, keepdim=True) * observed.sum(0) / observed.sum()
    return 1 - (squares * observed).sum() / (squares * by_chance).sum()  # 0 / 0 is NaN


@Score(larger_is_better=True, answer=_kappa)
def quadratic_weighted_kappa(
    scores: Predictions, target: AnyTarget, *, sample_weight: Weights = None
) -> Any:
    r"""Agreement with the truth beyond chance, where squared steps count as disagreement.

    .. math:: 1 - \frac{\sum_{ij} (i - j)^2 O_{ij}}{\sum_{ij} (i - j)^2 E_{ij}}

    where :math:`O_{ij}` counts how often label i was guessed as j, and :math:`E_{ij}` how often it
    would be if guesses were independent of the truth. 1 is full agreement, 0 agreement by chance.
    NaN if only one label occurs, both as truth and as guess.

    >>> quadratic_weighted_kappa([[1, 0, 0], [0, 1, 0], [0, 0, 1], [0, 1, 0]], [0, 1, 2, 2])
    0.8
    """
    truth = sample_weight.unsqueeze(1) * true_shares(target, scores)
    counts = truth.new_zeros(truth.shape[1], truth.shape[1])  # (true, guessed)
    # Not a matrix product, which may round.
    return counts.index_add_(1, top(scores, 1).squeeze(1), truth.T).flatten()


def _steps(x: Tensor) -> Tensor:
    """How many steps each label is from the first guess, `(batch, labels)`."""
    return (torch.arange(x.shape[1], device=x.device) - top(x, 1)).abs().to(x.dtype)
