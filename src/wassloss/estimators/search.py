"""Classifier: choose the strengths of `WassersteinClassifier` by cross-validation."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import product
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
from numpy.typing import NDArray
from sklearn.model_selection import check_cv
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted, validate_data

from wassloss.estimators.base import Weights
from wassloss.estimators.classifier import WassersteinClassifier
from wassloss.estimators.inputs import is_matrix, read_weight
from wassloss.estimators.labels import Labels
from wassloss.estimators.scoring import scorer_of
from wassloss.losses.modules import EPSILON, KL_WEIGHT

if TYPE_CHECKING:
    from typing_extensions import Self

_STRENGTHS = ("kl_weight", "epsilon", "power", "alpha")  # in the order of the axes of `scores_`


@dataclass(eq=False, repr=False, kw_only=True)
class WassersteinClassifierCV(WassersteinClassifier):
    """:class:`WassersteinClassifier` with strengths chosen by cross-validation.

    As in `LogisticRegressionCV`, penalties form a path: each fit starts from the weights of the
    next stronger penalty. Folds and combinations of the other strengths are fitted in parallel, and
    the best combination is fitted again to all data.

    Args:
        metric: as in :class:`WassersteinClassifier`, like all parameters not listed here.
        alphas: penalties to try.
        kl_weights, epsilons, powers: strengths to try; a power of None keeps the metric's.
        cv: number of folds or a splitter, as in scikit-learn; stratified if `y` holds class ids.
        scoring: ``"mean_distance"`` (its negative is maximised), or any ``scoring`` of
            scikit-learn. Combinations with a score of NaN in any fold are not chosen.
        n_jobs: processes, through joblib.

    Attributes:
        best_estimator_: the classifier fitted to all data; its attributes are copied to this one.
        alpha_, kl_weight_, epsilon_, power_: the chosen strengths.
        scores_: all scores, `(folds, kl_weights, epsilons, powers, alphas)`.
        best_score_: the mean score over folds of the chosen strengths.

    >>> import numpy as np, wassloss as wl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(90, 3))
    >>> y = np.digitize(X[:, 0], [-0.5, 0.5])
    >>> model = wl.WassersteinClassifierCV("ordinal", cv=3).fit(X, y)
    >>> bool(model.best_score_ > -0.1)
    True
    """

    # Not parameters, because they are chosen among the values below.
    alpha: float = field(init=False, default=1.0)
    kl_weight: float = field(init=False, default=KL_WEIGHT)
    epsilon: float = field(init=False, default=EPSILON)
    power: float | None = field(init=False, default=None)

    alphas: Sequence[float] = (100.0, 10.0, 1.0, 0.1)
    kl_weights: Sequence[float] = (0.1, 0.5)
    epsilons: Sequence[float] = (EPSILON,)
    powers: Sequence[float | None] = (None,)
    cv: Any = None
    scoring: Any = "mean_distance"
    n_jobs: int | None = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Choose the strengths and fit; arguments as in :meth:`WassersteinClassifier.fit`."""
        grid = [getattr(self, f"{name}s") for name in _STRENGTHS]
        for name, values in zip(_STRENGTHS, grid, strict=True):
            if not len(values):
                raise ValueError(f"{name}s must hold at least one value to try, got none")
        whole = self._classifier()
        features, target, _ = whole._examples(X, y, sample_weight)
        # Without `class_weight`, by which each classifier multiplies it.
        weight = None if sample_weight is None else read_weight(sample_weight, features.shape[0])
        folds = check_cv(self.cv, target, classifier=not is_matrix(target))
        parts = list(folds.split(features, target))
        order = np.argsort(self.alphas)[::-1]  # strongest first
        paths = Parallel(n_jobs=self.n_jobs)(
            delayed(_scores_along)(
                [self._classifier(*others, self.alphas[i]) for i in order],
                *(features, target, weight, fold, self.scoring, whole._labels),
            )
            for fold in parts
            for others in product(*grid[:-1])
        )
        self.scores_ = np.empty((len(parts), *map(len, grid)))
        self.scores_[..., order] = np.reshape(paths, self.scores_.shape)
        means = self.scores_.mean(0)
        if np.isnan(means).all():
            raise ValueError(f"scoring must return numbers, got only NaN from {self.scoring!r}")
        best = np.unravel_index(int(np.nanargmax(means)), means.shape)
        chosen = [values[i] for values, i in zip(grid, best, strict=True)]
        self.kl_weight_, self.epsilon_, self.power_, self.alpha_ = chosen
        self.best_score_ = float(means[best])
        self.best_estimator_ = self._classifier(*chosen).fit(X, y, sample_weight)
        validate_data(self, X, skip_check_array=True)  # discards feature names of an earlier fit
        fitted = vars(self.best_estimator_)
        for name in fitted.keys() - WassersteinClassifier._get_param_names():
            setattr(self, name, fitted[name])
        return self

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """The score of `best_estimator_` by `scoring`."""
        check_is_fitted(self, "best_estimator_")
        best = self.best_estimator_
        return scorer_of(best, self.scoring)(best, X, y, **_weighted(sample_weight))

    def save(self, file: str | os.PathLike[str] | BinaryIO) -> None:
        """Write `best_estimator_` to a file for `WassersteinClassifier.load`."""
        check_is_fitted(self, "best_estimator_")
        self.best_estimator_.save(file)

    def _classifier(self, *strengths: Any) -> WassersteinClassifier:
        """A classifier with this one's parameters, and the given or default strengths."""
        names = set(WassersteinClassifier._get_param_names()) - set(_STRENGTHS)
        chosen = zip(_STRENGTHS, strengths, strict=False)
        return WassersteinClassifier(
            **{name: getattr(self, name) for name in names}, **dict(chosen)
        )


def fit_path(
    path: Iterable[WassersteinClassifier],
    X: Any,
    y: Any,
    sample_weight: Any = None,
    *,
    labels: Labels | None = None,
    warm: bool = True,
) -> Iterator[WassersteinClassifier]:
    """Fit classifiers one after another, each from the weights of the previous one.

    Args:
        path: classifiers that differ only in strengths, the strongest penalty first.
        X: features `(n, d)`.
        y: class ids `(n,)`; if these rows may lack classes, set `classes` of each classifier.
        sample_weight: weight per example, `(n,)`.
        labels: the labels of all data, for internal use; by default learned from `y`.
        warm: False to start each fit from scratch.

    Yields:
        Each classifier, fitted.

    >>> import wassloss as wl
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> path = [wl.WassersteinClassifier(alpha=alpha) for alpha in (10.0, 1.0)]
    >>> [fitted.score(X, y) > 0.8 for fitted in fit_path(path, X, y)]
    [True, True]
    """
    weights: Weights = None
    for classifier in path:
        if labels is None:
            labels = classifier.fit(X, y, sample_weight)._labels
        else:
            classifier._fit_part(X, y, sample_weight, labels, weights)
        if warm:
            weights = classifier.model_.state_dict()
        yield classifier


def _scores_along(
    path: Sequence[WassersteinClassifier],
    X: NDArray[Any],
    y: Any,
    weight: NDArray[np.float64] | None,
    fold: tuple[NDArray[np.int64], NDArray[np.int64]],
    scoring: Any,
    labels: Labels,
) -> list[float]:
    """Fit classifiers to the first part of a fold, and score them on the second."""
    train, test = fold
    inside, outside = (None if weight is None else weight[rows] for rows in fold)
    return [
        float(scorer_of(fitted, scoring)(fitted, X[test], y[test], **_weighted(outside)))
        for fitted in fit_path(path, X[train], y[train], inside, labels=labels)
    ]


def _weighted(weight: Any) -> dict[str, Any]:
    return {} if weight is None else {"sample_weight": weight}
