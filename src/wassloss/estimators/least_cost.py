"""Classifier: calibrate any classifier, and predict the label of least expected cost."""

from __future__ import annotations

from inspect import signature
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, MetaEstimatorMixin, clone
from sklearn.frozen import FrozenEstimator
from sklearn.model_selection import check_cv
from sklearn.utils import Bunch, _safe_indexing, get_tags, indexable
from sklearn.utils.metadata_routing import (
    MetadataRouter,
    MethodMapping,
    _routing_enabled,
    process_routing,
)
from sklearn.utils.parallel import Parallel, delayed
from sklearn.utils.validation import _check_method_params, check_array, check_is_fitted

from wassloss._checks import check_flag
from wassloss.decisions import Guarantee, Temperature, least_cost_label
from wassloss.estimators.inputs import is_matrix, read_classes_or_weights, read_weight
from wassloss.estimators.labels import (
    Classes,
    Labels,
    Metric,
    labels_of_classes,
    refuse_ordered_categories,
)
from wassloss.estimators.splitting import Fold

if TYPE_CHECKING:
    from typing_extensions import Self


class LeastCostClassifier(ClassifierMixin, MetaEstimatorMixin, BaseEstimator):  # type: ignore[misc]
    """Calibrate any classifier, and predict the label of least expected cost.

    `fit` chooses a temperature on rows that the classifier was not trained on: the held-out rows of
    cross-validation, as in :class:`~sklearn.calibration.CalibratedClassifierCV`. The classifier
    is then fitted to all rows, and `predict` returns the label of least expected cost. Training
    does not change, and the decision gains about as much as a Wasserstein loss would.

    Args:
        estimator: a classifier with `predict_proba`. To keep one that is already fitted, wrap it in
            a :class:`~sklearn.frozen.FrozenEstimator` or pass ``cv="prefit"``, and call `fit` with
            rows that it was not trained on.
        metric: as in :class:`WassersteinClassifier`: a ground metric, a matrix of distances,
            ``"ordinal"``, or None for the 0-1 metric.
        calibrate: whether to choose a temperature; otherwise probabilities are not changed.
        abstain: the price of not answering, in the unit of the metric's cost. `predict` then
            returns an array of objects, with None where every label has a higher expected cost.
        cv: number of folds or a splitter, as in scikit-learn, stratified by default; or
            ``"prefit"``.
        classes: the class of each label of the metric, in its order; as in
            :class:`WassersteinClassifier`.
        n_jobs: processes for the folds, through joblib.

    Attributes:
        classes_: the sorted classes.
        metric_: the ground metric.
        estimator_: the classifier, fitted to all rows.
        temperature_: the :class:`~wassloss.decisions.Temperature`, or None without `calibrate`.
        n_features_in_, feature_names_in_: those of the classifier, if it has them.

    >>> import wassloss as wl
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.naive_bayes import GaussianNB
    >>> X, y = load_iris(return_X_y=True)
    >>> model = wl.LeastCostClassifier(GaussianNB(), "ordinal", abstain=0.2).fit(X, y)
    >>> model.predict(X[[0, 70]])  # 70 is between two species
    array([0, None], dtype=object)
    >>> model.predict_set(X[[0, 70]], level=0.97)
    array(['0', '1..2'], dtype=object)
    """

    def __init__(
        self,
        estimator: Any,
        metric: Metric = None,
        *,
        calibrate: bool = True,
        abstain: float | None = None,
        cv: Any = 5,
        classes: Classes = None,
        n_jobs: int | None = None,
    ) -> None:
        self.estimator = estimator
        self.metric = metric
        self.calibrate = calibrate
        self.abstain = abstain
        self.cv = cv
        self.classes = classes
        self.n_jobs = n_jobs

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **fit_params: Any) -> Self:
        """Fit the classifier and its temperature.

        Args:
            X: features, in any form that the classifier accepts.
            y: class ids `(n,)`.
            sample_weight: weight per example, `(n,)`, for the classifier and for the temperature.
            **fit_params: passed to the classifier's `fit`; those with an entry per row are split
                like the rows.
        """
        check_flag("calibrate", self.calibrate)
        if y is None:
            raise ValueError("fit requires y to be passed, but the target y is None")
        if not hasattr(self.estimator, "predict_proba"):
            raise ValueError(
                f"estimator must have predict_proba, got {self.estimator!r}; wrap it in "
                "scikit-learn's CalibratedClassifierCV, which has one"
            )
        if self.classes is None and isinstance(self.metric, str):
            refuse_ordered_categories(y)
        X, y = indexable(X, y)
        y = check_array(y, ensure_2d=False, dtype=None, input_name="y")
        y = read_classes_or_weights(y, listed=self.classes is not None)
        if is_matrix(y):
            raise ValueError(f"y must hold a class id per row, got shape {y.shape}")
        weight = None if sample_weight is None else read_weight(sample_weight, len(y))
        params = self._routed(sample_weight, fit_params)
        self._set_labels(np.unique(y))
        if self._is_fitted():
            self.estimator_ = self.estimator
            self._trained_on = np.asarray(self.estimator_.classes_)
            folds = [(np.arange(0), np.arange(len(y)))]
        else:
            folds = self._folds(X, y, params) if self.calibrate else []
            own = _check_method_params(X, params.estimator.fit)
            self.estimator_ = clone(self.estimator)
            self._trained_on = _fit_to_classes(self.estimator_, X, y, own)
        parts = Parallel(n_jobs=self.n_jobs)(
            delayed(_held_out)(self._fold_estimator(), X, y, fold, params.estimator.fit)
            for fold in folds
        )
        self._seen = np.sort(self._labels.places_of(self._trained_on))
        held = [rows for _, rows in folds]
        self._calibration = None
        self.temperature_ = None
        if parts:
            rows = np.concatenate(held)
            p = np.concatenate([self._by_label(found, seen) for found, seen in parts])
            truth = self._labels.places_of(y[rows])
            self._calibration = p, truth
            if self.calibrate:
                own = None if weight is None else weight[rows]
                among = np.searchsorted(self._seen, truth)
                self.temperature_ = Temperature().fit(p[:, self._seen], among, own)
        for name in ("n_features_in_", "feature_names_in_"):
            self.__dict__.pop(name, None)
            if hasattr(self.estimator_, name):
                setattr(self, name, getattr(self.estimator_, name))
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Calibrated probabilities `(n, labels)`, in the order of `classes_`.

        Classes that the classifier was not trained on have probability 0.
        """
        return self._calibrated(X)[:, self._labels.places]

    def predict(self, X: Any) -> NDArray[Any]:
        """The class of least expected cost, or None where `abstain` costs less."""
        p = self._calibrated(X)
        labels = least_cost_label(p, self.metric_, abstain=self.abstain)
        order = np.argsort(self._labels.places)
        answers: NDArray[Any] = self.classes_[order[labels]]
        if self.abstain is None:
            return answers
        answers = answers.astype(object)
        answers[labels < 0] = None
        return answers

    def predict_set(
        self,
        X: Any,
        level: float | None = None,
        *,
        distance: float | None = None,
        sets: str | None = None,
    ) -> NDArray[Any]:
        """Sets of classes with a guarantee, as strings; see :class:`~wassloss.decisions.Guarantee`.

        The guarantee is exact if the classifier was already fitted. Otherwise it holds only
        approximately, because it relies on held-out rows of cross-validation, whose models were
        fitted to fewer rows than this one. The classifier's uncalibrated probabilities are used,
        because the temperature was chosen on the same rows. Sample weights are ignored.

        Args:
            X: features.
            level: the probability with which sets contain the true class, by default 0.9.
            distance: an expected distance to guarantee instead.
            sets: the kind of sets, by default the natural one for the metric.
        """
        check_is_fitted(self, "estimator_")
        if self._calibration is None:
            raise ValueError(
                "calibrate must be True, or the estimator already fitted, for predict_set: it "
                "needs rows that the estimator was not trained on"
            )
        names = self._labels.names
        promise = Guarantee(self.metric_, level, distance=distance, sets=sets, names=names)
        promise.fit(*self._calibration)
        answers: NDArray[Any] = promise(self._probabilities(X))
        return answers

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy; a row without an answer counts as wrong.

        To score the distance of mistakes, see :func:`~wassloss.estimators.make_scorer`.
        """
        right = np.asarray(self.predict(X) == np.asarray(y).reshape(-1), dtype=np.float64)
        return float(np.average(right, weights=sample_weight))

    def get_metadata_routing(self) -> MetadataRouter:
        """Route metadata to the classifier and the splitter."""
        to_fit = MethodMapping().add(caller="fit", callee="fit")
        to_split = MethodMapping().add(caller="fit", callee="split")
        return (
            MetadataRouter(owner=self)
            .add_self_request(self)
            .add(estimator=self.estimator, method_mapping=to_fit)
            .add(splitter=self.cv, method_mapping=to_split)
        )

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator).input_tags
        tags.input_tags.sparse = inner.sparse
        tags.input_tags.allow_nan = inner.allow_nan
        return tags

    def _is_fitted(self) -> bool:
        return isinstance(self.estimator, FrozenEstimator) or (
            isinstance(self.cv, str) and self.cv == "prefit"
        )

    def _set_labels(self, found: NDArray[Any]) -> None:
        if self._is_fitted():
            check_is_fitted(self.estimator)
            known = np.asarray(self.estimator.classes_)
            unknown = sorted(set(found.tolist()) - set(known.tolist()), key=str)
            if unknown:
                raise ValueError(
                    f"y must hold classes that the estimator was fitted to, {known[:6].tolist()}, "
                    f"got {unknown[0]!r}"
                )
            found = np.sort(known)
        self._labels: Labels = labels_of_classes(found, self.metric, self.classes)
        self.classes_, self.metric_ = self._labels.classes, self._labels.metric

    def _routed(self, sample_weight: Any, fit_params: dict[str, Any]) -> Bunch:
        if _routing_enabled():
            return process_routing(self, "fit", sample_weight=sample_weight, **fit_params)
        own = dict(fit_params)
        if sample_weight is not None:
            if "sample_weight" not in signature(self.estimator.fit).parameters:
                raise ValueError(
                    "sample_weight must be None, because "
                    f"{type(self.estimator).__name__} does not support it"
                )
            own["sample_weight"] = sample_weight
        return Bunch(estimator=Bunch(fit=own), splitter=Bunch(split={}))

    def _folds(self, X: Any, y: NDArray[Any], params: Bunch) -> list[Fold]:
        return list(check_cv(self.cv, y, classifier=True).split(X, y, **params.splitter.split))

    def _fold_estimator(self) -> Any:
        return self.estimator_ if self._is_fitted() else clone(self.estimator)

    def _by_label(self, p: NDArray[Any], classes: NDArray[Any]) -> NDArray[np.float64]:
        """Probabilities in the metric's order, 0 for labels that a model was not trained on."""
        found = np.zeros((len(p), self.metric_.size))
        found[:, self._labels.places_of(classes)] = p
        return found

    def _probabilities(self, X: Any) -> NDArray[np.float64]:
        check_is_fitted(self, "estimator_")
        return self._by_label(self.estimator_.predict_proba(X), self._trained_on)

    def _calibrated(self, X: Any) -> NDArray[np.float64]:
        """Calibrated probabilities in the metric's order."""
        p = self._probabilities(X)
        if self.temperature_ is not None:
            p[:, self._seen] = self.temperature_(p[:, self._seen])
        return p


def _held_out(
    estimator: Any, X: Any, y: NDArray[Any], fold: Fold, params: dict[str, Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Probabilities of the held-out rows, and the classes of their columns."""
    train, held = fold
    if len(train):
        own = _check_method_params(X, params, indices=train)
        classes = _fit_to_classes(estimator, _safe_indexing(X, train), y[train], own)
    else:
        classes = np.asarray(estimator.classes_)
    return estimator.predict_proba(_safe_indexing(X, held)), classes


def _fit_to_classes(
    estimator: Any, X: Any, y: NDArray[Any], params: dict[str, Any]
) -> NDArray[Any]:
    """Fit a classifier, and return the classes of its probabilities' columns.

    XGBoost accepts only consecutive numbers from 0, and a fold may lack some.
    """
    last = estimator
    while hasattr(last, "steps"):  # a pipeline
        last = last.steps[-1][1]
    if type(last).__module__.split(".")[0] != "xgboost":
        estimator.fit(X, y, **params)
        return np.asarray(estimator.classes_)
    classes, numbers = np.unique(y, return_inverse=True)
    estimator.fit(X, numbers, **params)
    return classes
