"""How far predictions are from the truth, as scikit-learn's searches score."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from sklearn.metrics import check_scoring
from sklearn.utils.validation import check_array

from wassloss.estimators.inputs import is_matrix, read_classes_or_weights
from wassloss.scores import expected_distance

Scorer = Callable[..., float]


def mean_distance(estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
    """Minus the mean distance of predictions from the truth: more is better, as in scikit-learn.

    Pass it as ``scoring`` to `GridSearchCV`, `cross_val_score` and the like. The distance is that
    of the estimator's `metric_`, whatever its power; for a matrix `y`, expected over its weights.

    >>> import numpy as np, wassloss as wl
    >>> X, y = np.array([[0.0], [1.0], [2.0]]), np.array([0, 1, 2])
    >>> model = wl.WassersteinClassifier("ordinal").fit(X, y)
    >>> wl.estimators.mean_distance(model, X, y)
    -0.0
    """
    y = read_classes_or_weights(check_array(y, accept_sparse="csr", ensure_2d=False, dtype=None))
    truth = estimator._target(y, None)
    guess = torch.from_numpy(estimator._labels.places[estimator._chosen(X, 1)[:, 0]])
    if is_matrix(y):
        one_hot = torch.nn.functional.one_hot(guess, estimator.metric_.size).double()
        weight = None if sample_weight is None else torch.as_tensor(sample_weight)
        return -float(expected_distance(one_hot, truth, estimator.metric_, sample_weight=weight))
    found = estimator.metric_.distance()[guess, truth].double()
    if sample_weight is None:
        return -float(found.mean())
    weight = torch.as_tensor(sample_weight, dtype=found.dtype)
    return -float((weight * found).sum() / weight.sum())


def scorer_of(estimator: Any, scoring: Any) -> Scorer:
    """The scorer that a name or a function says."""
    if isinstance(scoring, str) and scoring == "mean_distance":
        return mean_distance
    found: Scorer = check_scoring(estimator, scoring=scoring)
    return found
