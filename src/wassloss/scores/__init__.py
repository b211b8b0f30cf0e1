"""Scores: how good predictions are.

Functions on arrays or tensors: tensors in, tensors out; arrays or lists in, arrays or floats out.
They share these arguments:

==================  ==========================================================================
scores              anything to rank labels by, `(batch, labels)`
probabilities       masses, `(batch, labels)`; scores divide each row by its sum
target              the true labels or the true distribution, in any of the forms below
metric              the ground metric, or a matrix of distances
k                   the number of guesses, or several numbers for as many scores
sample_weight       the weight of each example in the mean, `(batch,)`
reduction           ``"mean"`` over examples, or ``"none"``: a value for each, `(batch,)`, or
                    `(batch, ks)` for several `k`
==================  ==========================================================================

A target is any of

==========================  ==================================================================
class ids                   integers `(batch,)`
an indicator, or weights    `(batch, labels)`: 0 and 1 as booleans, integers or floats, or
                            weights over labels; the true labels are those of positive weight
``torch.sparse``,           the same, sparse
``scipy.sparse``
SparseTarget                a few labels per example, padded with zero weights
SetTarget                   a set of labels per example, one of them true; for ``accuracy``,
                            ``top_k_cost``, ``negative_log_likelihood`` and ``hierarchical_fbeta``
==========================  ==================================================================

Versions that accumulate over batches and processes are in :mod:`wassloss.scores.accumulators`.

>>> import numpy as np, wassloss as wl
>>> p = np.array([[0.5, 0.3, 0.2, 0.0], [0.0, 0.2, 0.3, 0.5]])
>>> wl.scores.top_k_cost(p, [0, 0], wl.ground.Ordinal(4), k=2)
1.5
>>> wl.scores.accuracy(p, [0, 0])
0.5
"""

from wassloss.scores.cost import distance_at_k, mean_wasserstein, mistake_severity, top_k_cost
from wassloss.scores.differences import paired_difference
from wassloss.scores.distributions import (
    brier_score,
    canberra,
    chebyshev,
    clark,
    cosine,
    expected_calibration_error,
    intersection,
    kl_divergence,
    negative_log_likelihood,
)
from wassloss.scores.hierarchical import hierarchical_fbeta
from wassloss.scores.ordinal import (
    average_mae,
    maximum_mae,
    mean_absolute_error,
    off_by_one_accuracy,
    quadratic_weighted_kappa,
    ranked_probability_score,
)
from wassloss.scores.ranking import accuracy, precision_at_k, ranking_auc, recall_at_k

__all__ = [
    "accuracy",
    "average_mae",
    "brier_score",
    "canberra",
    "chebyshev",
    "clark",
    "cosine",
    "distance_at_k",
    "expected_calibration_error",
    "hierarchical_fbeta",
    "intersection",
    "kl_divergence",
    "maximum_mae",
    "mean_absolute_error",
    "mean_wasserstein",
    "mistake_severity",
    "negative_log_likelihood",
    "off_by_one_accuracy",
    "paired_difference",
    "precision_at_k",
    "quadratic_weighted_kappa",
    "ranked_probability_score",
    "ranking_auc",
    "recall_at_k",
    "top_k_cost",
]


def __dir__() -> list[str]:
    return __all__
