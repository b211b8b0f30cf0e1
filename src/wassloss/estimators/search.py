"""The classifier with its strengths chosen by cross-validation."""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
from itertools import product
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin
from sklearn.model_selection import check_cv
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import check_is_fitted, validate_data

from wassloss.estimators.base import Weights
from wassloss.estimators.classifier import WassersteinClassifier
from wassloss.estimators.inputs import is_matrix, read_weight
from wassloss.estimators.labels import Classes, Labels, Metric, ordered_categories
from wassloss.estimators.scoring import scorer_of
from wassloss.losses.modules import EPSILON

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(eq=False, repr=False)
class WassersteinClassifierCV(ClassifierMixin, BaseEstimator):  # type: ignore[misc]
    """:class:`WassersteinClassifier` with its strengths chosen by cross-validation.

    As in `LogisticRegressionCV`, penalties make a path: each fit starts from the weights of the
    stronger penalty before it. Folds and combinations of the other strengths are fitted in
    parallel, and the best combination once more on all data.

    Args:
        metric, classes: as in :class:`WassersteinClassifier`.
        alphas: penalties to try.
        kl_weights, epsilons, powers: strengths to try; a power of None is the metric's own.
        cv: folds, or how to draw them, as in scikit-learn: stratified if `y` has class ids.
        scoring: ``"mean_distance"`` (its negative is maximised), or any of scikit-learn's.
        n_jobs: processes, through joblib.
        class_weight, decision, hidden_layer_sizes, solver, max_iter, tol: as in
            :class:`WassersteinClassifier`.
        standardize, device, random_state: likewise.

    Attributes:
        best_estimator_: the classifier, fitted to all data.
        alpha_, kl_weight_, epsilon_, power_: what was chosen.
        scores_: `(folds, kl_weights, epsilons, powers, alphas)`.
        best_score_: the mean over folds of what was chosen.
        classes_, metric_, n_iter_: those of `best_estimator_`.

    >>> import numpy as np, wassloss as wl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(90, 3))
    >>> y = np.digitize(X[:, 0], [-0.5, 0.5])
    >>> model = wl.WassersteinClassifierCV("ordinal", cv=3).fit(X, y)
    >>> bool(model.best_score_ > -0.1)
    True
    """

    metric: Metric = None
    _: KW_ONLY
    alphas: Sequence[float] = (100.0, 10.0, 1.0, 0.1)
    kl_weights: Sequence[float] = (0.1, 0.5)
    epsilons: Sequence[float] = (EPSILON,)
    powers: Sequence[float | None] = (None,)
    cv: Any = None
    scoring: Any = "mean_distance"
    n_jobs: int | None = None
    classes: Classes = None
    class_weight: Any = None
    decision: str = "probable"
    hidden_layer_sizes: Sequence[int] = ()
    solver: str = "auto"
    max_iter: int | None = None
    tol: float = 1e-5
    standardize: bool = True
    device: str = "cpu"
    random_state: Any = None

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Choose and fit; arguments as in :meth:`WassersteinClassifier.fit`."""
        for name in ("alphas", "kl_weights", "epsilons", "powers"):
            if not len(getattr(self, name)):
                raise ValueError(f"{name} must hold a number to try, got none")
        whole = self._classifier(self.alphas[0], self.kl_weights[0], self.epsilons[0], None)
        features, target, _ = whole._read(X, y, sample_weight)
        weight = None if sample_weight is None else read_weight(sample_weight, features.shape[0])
        whole._learn_labels(target, ordered=ordered_categories(y))
        validate_data(self, X, skip_check_array=True)
        folds = check_cv(self.cv, target, classifier=not is_matrix(target))
        parts = list(folds.split(features, target))
        order = np.argsort(self.alphas)[::-1]  # the strongest first
        paths = Parallel(n_jobs=self.n_jobs)(
            delayed(_scores_along)(
                [self._classifier(self.alphas[i], *strengths) for i in order],
                *(features, target, weight, train, test, self.scoring, whole._labels),
            )
            for train, test in parts
            for strengths in self._strengths()
        )
        shape = (len(parts), len(self.kl_weights), len(self.epsilons), len(self.powers), len(order))
        self.scores_ = np.empty(shape)
        self.scores_[..., order] = np.reshape(paths, shape)
        means = self.scores_.mean(0)
        place = np.unravel_index(int(np.argmax(means)), means.shape)
        kl, epsilon, power, alpha = (int(i) for i in place)
        self.kl_weight_, self.epsilon_ = self.kl_weights[kl], self.epsilons[epsilon]
        self.power_, self.alpha_ = self.powers[power], self.alphas[alpha]
        self.best_score_ = float(means.max())
        chosen = self._classifier(self.alpha_, self.kl_weight_, self.epsilon_, self.power_)
        self.best_estimator_ = chosen.fit(X, y, sample_weight)
        self.classes_, self.metric_ = chosen.classes_, chosen.metric_
        self.n_iter_ = chosen.n_iter_
        return self

    def predict(self, X: Any) -> NDArray[Any]:
        """As :meth:`WassersteinClassifier.predict`."""
        return self._best(X).predict(X)

    def predict_top(self, X: Any, k: int) -> NDArray[Any]:
        """As :meth:`WassersteinClassifier.predict_top`."""
        return self._best(X).predict_top(X, k)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """As :meth:`WassersteinClassifier.predict_proba`."""
        return self._best(X).predict_proba(X)

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """As :meth:`WassersteinClassifier.predict_log_proba`."""
        return self._best(X).predict_log_proba(X)

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """As :meth:`WassersteinClassifier.decision_function`."""
        return self._best(X).decision_function(X)

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """By `scoring`."""
        best = self._best(X)
        return scorer_of(best, self.scoring)(best, X, y, **_weighted(sample_weight))

    @property
    def coef_(self) -> NDArray[np.float64]:
        """As in :class:`WassersteinClassifier`."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.coef_

    @property
    def intercept_(self) -> NDArray[np.float64]:
        """As in :class:`WassersteinClassifier`."""
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_.intercept_

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write `best_estimator_` to a file, which `WassersteinClassifier.load` reads."""
        check_is_fitted(self, "best_estimator_")
        self.best_estimator_.save(path)

    def _best(self, X: Any) -> WassersteinClassifier:
        check_is_fitted(self, "best_estimator_")
        return self.best_estimator_

    def _strengths(self) -> list[tuple[float, float, float | None]]:
        return list(product(self.kl_weights, self.epsilons, self.powers))

    def _classifier(
        self, alpha: float, kl_weight: float, epsilon: float, power: float | None
    ) -> WassersteinClassifier:
        return WassersteinClassifier(
            self.metric,
            alpha=alpha,
            kl_weight=kl_weight,
            epsilon=epsilon,
            power=power,
            classes=self.classes,
            class_weight=self.class_weight,
            decision=self.decision,
            hidden_layer_sizes=self.hidden_layer_sizes,
            solver=self.solver,
            max_iter=self.max_iter,
            tol=self.tol,
            standardize=self.standardize,
            device=self.device,
            random_state=self.random_state,
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        own = WassersteinClassifier().__sklearn_tags__()
        tags.target_tags, tags.classifier_tags = own.target_tags, own.classifier_tags
        tags.input_tags = own.input_tags
        return tags


def _scores_along(
    path: Sequence[WassersteinClassifier],
    X: NDArray[Any],
    y: Any,
    weight: NDArray[np.float64] | None,
    train: NDArray[np.int64],
    test: NDArray[np.int64],
    scoring: Any,
    labels: Labels,
) -> list[float]:
    """Scores on `test` of classifiers fitted to `train`, each from the weights of the last.

    The `labels` are those of all data, for a fold may lack some.
    """
    inside, outside = (None if weight is None else weight[rows] for rows in (train, test))
    found: list[float] = []
    weights: Weights = None
    for classifier in path:
        classifier._fit_part(X[train], y[train], inside, labels, weights)
        weights = classifier.model_.state_dict()
        scorer = scorer_of(classifier, scoring)
        found.append(float(scorer(classifier, X[test], y[test], **_weighted(outside))))
    return found


def _weighted(weight: Any) -> dict[str, Any]:
    return {} if weight is None else {"sample_weight": weight}
