"""Scorers for scikit-learn's searches, made from :mod:`wassloss.scores`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics import check_scoring
from sklearn.pipeline import Pipeline
from sklearn.utils.validation import check_array

from wassloss import scores
from wassloss.estimators.inputs import is_matrix, read_classes_or_weights
from wassloss.scores import ordinal
from wassloss.scores._score import score_of

Scorer = Callable[..., float]
# Values of scores that are undefined without mistakes: a search would rank NaN last.
_WITHOUT_MISTAKES = {scores.mistake_severity: 0.0, scores.quadratic_weighted_kappa: 1.0}


def make_scorer(
    function: Callable[..., Any],
    *,
    classes: Sequence[Any] | NDArray[Any] | None = None,
    **arguments: Any,
) -> Scorer:
    """Make a scorer for `GridSearchCV` and the like from a function of :mod:`wassloss.scores`.

    Larger is better, as scikit-learn requires: scores of which less is better, such as distances
    and errors, are negated. Scores of the first guess evaluate `predict`, all others
    `predict_proba`. Without mistakes, the severity is 0, and an undefined weighted kappa is 1.

    Args:
        function: the score, such as ``wl.scores.quadratic_weighted_kappa``.
        classes: all classes, in the order of the labels; by default the classes that the estimator
            has seen. Pass them for estimators of other libraries if a fold may lack a class, or if
            classes are names and the score depends on their order or distance.
        **arguments: arguments of the function; ``metric`` defaults to the estimator's.

    >>> import wassloss as wl
    >>> from sklearn.datasets import load_iris
    >>> from sklearn.linear_model import LogisticRegression
    >>> X, y = load_iris(return_X_y=True)
    >>> model = LogisticRegression(max_iter=1000).fit(X, y)
    >>> round(make_scorer(wl.scores.quadratic_weighted_kappa)(model, X, y), 2)
    0.98
    """
    score_of(function)  # refuses functions that are not scores
    return _Scorer(function, classes, arguments)


def scorer_of(estimator: Any, scoring: Any) -> Scorer:
    """Look up a scorer; ``"mean_distance"`` is an addition to scikit-learn's names."""
    if isinstance(scoring, str) and scoring == "mean_distance":
        return make_scorer(scores.distance_at_k)
    found: Scorer = check_scoring(estimator, scoring=scoring)
    return found


@dataclass(frozen=True)
class _Scorer:
    """The scorer of :func:`make_scorer`; a class, so that it can be sent to other processes."""

    function: Callable[..., Any]
    classes: Any
    arguments: dict[str, Any]

    def __call__(self, estimator: Any, X: Any, y: Any, sample_weight: Any = None) -> float:
        made, inner, seen = score_of(self.function), _unwrapped(estimator), estimator.classes_
        places = self._places(inner, seen)  # the label of each class that was seen
        answers = np.eye(len(seen if self.classes is None else self.classes))[places]
        if made.judges_first_guess(**self.arguments):
            guesses = answers[_index(estimator.predict(X), seen)]
        else:
            guesses = estimator.predict_proba(X) @ answers
        y = check_array(y, accept_sparse="csr", ensure_2d=False, dtype=None)
        y = read_classes_or_weights(y)
        function, known = self.function, getattr(inner, "_labels", None)
        if self.classes is None and known is not None and not is_matrix(y) and known.has_sets(y):
            y = known.target_of(y)
            if function is scores.distance_at_k:  # an expectation; the same for one label
                function = scores.top_k_cost
        elif not is_matrix(y):
            y = places[_index(y, seen)] if self.classes is None else _index(y, self.classes)
        elif y.shape[1] != len(seen):
            raise ValueError(f"y must have {len(seen)} columns, got {y.shape[1]}")
        else:
            y = y @ answers
        arguments = dict(self.arguments)
        if made.takes_metric and "metric" not in arguments:
            if not hasattr(inner, "metric_"):
                kind = type(inner).__name__
                raise ValueError(f"metric must be given to score {kind}, which has no metric_")
            arguments["metric"] = inner.metric_
        value = float(function(guesses, y, sample_weight=sample_weight, **arguments))
        value = _WITHOUT_MISTAKES.get(self.function, value) if np.isnan(value) else value
        return value if made.larger_is_better else -value

    def _places(self, inner: Any, seen: NDArray[Any]) -> NDArray[np.int64]:
        if self.classes is not None:
            return _index(seen, self.classes)
        if hasattr(inner, "_labels"):
            return inner._labels.places  # type: ignore[no-any-return]
        named = any(isinstance(each, str) for each in seen.tolist())
        own = self.function.__module__ == ordinal.__name__
        if named and (own or score_of(self.function).takes_metric):
            raise ValueError(
                f"classes must be given to score {type(inner).__name__}, whose classes are names: "
                f"list them in the order of the labels, got None for {seen.tolist()}"
            )
        return np.arange(len(seen))


def _unwrapped(estimator: Any) -> Any:
    """The final estimator inside searches and pipelines."""
    while hasattr(estimator, "best_estimator_") or isinstance(estimator, Pipeline):
        found = getattr(estimator, "best_estimator_", None)
        estimator = estimator[-1] if found is None else found
    return estimator


def _index(values: Any, classes: Any) -> NDArray[np.int64]:
    place = {each: i for i, each in enumerate(np.asarray(classes).tolist())}
    try:
        return np.array([place[each] for each in np.asarray(values).tolist()], dtype=np.int64)
    except KeyError as error:
        raise ValueError(
            f"y must hold classes that the estimator has seen, got {error.args[0]}; pass all "
            "classes=[...] to make_scorer"
        ) from None
