"""Classifier: boosted trees of LightGBM or XGBoost, trained with the Wasserstein loss."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin
from sklearn.utils import get_tags
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from wassloss.boosting import Objective, objective
from wassloss.estimators.inputs import is_matrix, read_classes_or_weights, read_weight
from wassloss.estimators.labels import (
    Classes,
    Metric,
    labels_of_classes,
    refuse_ordered_categories,
)
from wassloss.losses.modules import EPSILON, KL_WEIGHT

if TYPE_CHECKING:
    from typing_extensions import Self


class WassersteinBoostingClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Boosted trees trained with `W + kl_weight · KL`, by LightGBM or XGBoost.

    Args:
        estimator: an unfitted `LGBMClassifier` or `XGBClassifier` with the parameters to use:
            number and size of trees, penalties, early stopping, threads. Its objective is
            replaced.
        metric, classes: the ground metric, and the class of each of its labels, as in
            :class:`WassersteinClassifier`. Classes may be missing from the data.
        kl_weight, epsilon: as in :class:`~wassloss.WassersteinLoss`, with its defaults.

    Attributes:
        classes_: sorted.
        metric_: the ground metric.
        estimator_: the fitted `LGBMModel` or `XGBModel`, with feature importances and evaluation
            results.
        n_features_in_, feature_names_in_: as everywhere in scikit-learn.

    To predict the class of least expected cost, wrap it in a :class:`LeastCostClassifier`.

    >>> import lightgbm, wassloss as wl
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> trees = lightgbm.LGBMClassifier(n_estimators=20, verbose=-1, n_jobs=1)
    >>> model = wl.estimators.WassersteinBoostingClassifier(trees, "ordinal").fit(X, y)
    >>> bool(model.score(X, y) > 0.95)
    True
    """

    def __init__(
        self,
        estimator: Any,
        metric: Metric = None,
        *,
        kl_weight: float = KL_WEIGHT,
        epsilon: float = EPSILON,
        classes: Classes = None,
    ) -> None:
        self.estimator = estimator
        self.metric = metric
        self.kl_weight = kl_weight
        self.epsilon = epsilon
        self.classes = classes

    def fit(
        self,
        X: Any,
        y: Any,
        sample_weight: Any = None,
        *,
        eval_set: Sequence[tuple[Any, Any]] | None = None,
        **fit_params: Any,
    ) -> Self:
        """Fit the trees.

        Args:
            X: features in a form that the library accepts: missing values are NaN, and categories
                are pandas columns (for XGBoost with ``enable_categorical=True``) or named by
                ``categorical_feature``.
            y: class ids `(n,)`.
            sample_weight: weight per example, `(n,)`.
            eval_set: pairs of features and class ids on which to evaluate this loss after each
                round, for early stopping: pass ``callbacks=[lightgbm.early_stopping(20)]`` here, or
                use ``XGBClassifier(early_stopping_rounds=20)``.
            **fit_params: passed to the library's `fit`.
        """
        library, model_class = _library_of(self.estimator)
        if fit_params.keys() & {"eval_X", "eval_y"}:
            raise ValueError("eval_X and eval_y must be given as eval_set=[(X, y)]")
        if y is None:
            raise ValueError("fit requires y to be passed, but the target y is None")
        if self.classes is None and isinstance(self.metric, str):
            refuse_ordered_categories(y)
        y = self._read(y)
        labels = labels_of_classes(np.unique(y), self.metric, self.classes)
        loss = objective(labels.metric, epsilon=self.epsilon, kl_weight=self.kl_weight)
        X = self._checked(X, reset=True)
        self._labels, self.classes_, self.metric_ = labels, labels.classes, labels.metric

        own = self.estimator.get_params() | {"objective": loss, "num_class": labels.metric.size}
        weight = None if sample_weight is None else read_weight(sample_weight, len(y))
        # The library sees label numbers, not the classes that are keys of `class_weight`.
        if own.pop("class_weight", None) is not None:
            by_class = compute_sample_weight(self.estimator.class_weight, y)
            weight = by_class if weight is None else by_class * weight
        judge = _Judge(loss, library)
        if library == "xgboost":
            own |= {"eval_metric": judge, "disable_default_eval_metric": True}
        self.estimator_ = model_class(**own)
        if eval_set is not None:
            pairs = [(each, labels.places_of(self._read(truth))) for each, truth in eval_set]
            fit_params |= _evaluated(self.estimator_, pairs)
            if library == "lightgbm":
                fit_params["eval_metric"] = judge
        self.estimator_.fit(X, labels.places_of(y), sample_weight=weight, **fit_params)
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities `(n, labels)`, in the order of `classes_`."""
        check_is_fitted(self, "estimator_")
        X = self._checked(X, reset=False)
        library, _ = _library_of(self.estimator_)
        raw = {"lightgbm": "raw_score", "xgboost": "output_margin"}[library]
        scores = np.asarray(self.estimator_.predict(X, **{raw: True}), dtype=np.float64)
        p: NDArray[np.float64] = softmax(scores.reshape(len(scores), -1), axis=1)
        return p[:, self._labels.places]

    def predict(self, X: Any) -> NDArray[Any]:
        """The most probable class of each example."""
        p = self.predict_proba(X)
        answers: NDArray[Any] = self.classes_[p.argmax(1)]
        return answers

    def _checked(self, X: Any, reset: bool) -> Any:
        """Record or check the names and the number of features, which stay as they are."""
        if hasattr(X, "columns"):  # a data frame, whose categories the library reads
            validate_data(self, X, reset=reset, skip_check_array=True)
            return X
        keep = {"dtype": None, "accept_sparse": True, "ensure_all_finite": False}
        return validate_data(self, X, reset=reset, **keep)

    def _read(self, y: Any) -> NDArray[Any]:
        y = check_array(y, ensure_2d=False, dtype=None, input_name="y")
        y = read_classes_or_weights(y, listed=self.classes is not None)
        if is_matrix(y):
            raise ValueError(f"y must hold a class id per row, got shape {y.shape}")
        found: NDArray[Any] = y
        return found

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator).input_tags
        tags.input_tags.sparse = inner.sparse
        tags.input_tags.allow_nan = inner.allow_nan
        return tags


@dataclass(frozen=True)
class _Judge:
    """The loss as an evaluation metric of either library; a class can be pickled with models."""

    loss: Objective
    library: str
    __name__ = "wasserstein"  # key of the evaluation results

    def __call__(self, y_true: Any, raw: Any, sample_weight: Any = None) -> Any:
        value = self.loss.mean_loss(y_true, raw, sample_weight)
        return (self.__name__, value, False) if self.library == "lightgbm" else value


def _evaluated(model: Any, pairs: list[tuple[Any, Any]]) -> dict[str, Any]:
    """The keywords of `fit` for evaluation sets; LightGBM 4.7 renamed and deprecated them."""
    if "eval_X" not in signature(model.fit).parameters:
        return {"eval_set": pairs}
    return dict(zip(("eval_X", "eval_y"), zip(*pairs, strict=True), strict=True))


def _library_of(estimator: Any) -> tuple[str, Any]:
    """The library of an estimator, and its general model class, which accepts any objective."""
    general = {"LGBMModel": "lightgbm", "XGBModel": "xgboost"}
    for kind in type(estimator).__mro__:
        if kind.__name__ in general:
            return general[kind.__name__], kind
    raise TypeError(
        f"estimator must be lightgbm's LGBMClassifier or xgboost's XGBClassifier, got {estimator!r}"
    )
