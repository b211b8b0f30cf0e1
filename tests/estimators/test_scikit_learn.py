"""scikit-learn's own checks, and its tools with our estimators."""

import pickle
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.datasets import load_iris
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import wassloss as wl

X, Y = load_iris(return_X_y=True)


def expected_failures(estimator: Any) -> dict[str, str]:
    if isinstance(estimator, wl.WassersteinMeasureRegressor):
        return {
            "check_regressor_multioutput": "it fits y with negative entries, whatever the "
            "estimator's tag positive_only says; masses are not negative"
        }
    return {}


@parametrize_with_checks(
    [wl.WassersteinClassifier(), wl.WassersteinMeasureRegressor()],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


@pytest.mark.parametrize("metric", [wl.ground.Ordinal(3), "ordinal", np.ones((3, 3)) - np.eye(3)])
def test_grid_search_over_the_loss_in_a_pipeline(metric: Any) -> None:
    pipeline = make_pipeline(StandardScaler(), wl.WassersteinClassifier(metric))
    name = "wassersteinclassifier__"
    grid = {f"{name}kl_weight": [0.1, 1.0], f"{name}epsilon": [0.1], f"{name}power": [1, 2]}
    search = GridSearchCV(pipeline, grid, cv=2).fit(X, Y)
    assert search.best_score_ > 0.9
    best = search.best_estimator_[-1]
    assert best.metric_.power == best.power


def test_grid_search_with_a_matrix_of_targets() -> None:
    search = GridSearchCV(
        wl.WassersteinClassifier(), {"epsilon": [0.1, 0.3]}, cv=KFold(3, shuffle=True)
    )
    assert search.fit(X, np.eye(3)[Y]).best_score_ > 0.9


@pytest.mark.slow
def test_two_processes_give_the_scores_of_one() -> None:
    estimator = wl.WassersteinClassifier(wl.ground.Ordinal(3))
    one, two = (cross_val_score(estimator, X, Y, cv=2, n_jobs=jobs) for jobs in (None, 2))
    np.testing.assert_allclose(one, two)


def test_scorers_read_probabilities_in_the_order_of_the_classes() -> None:
    names = np.array(["setosa", "versicolor", "virginica"])[Y]
    metric = wl.ground.Ordinal(3, labels=["virginica", "setosa", "versicolor"])
    losses = cross_val_score(wl.WassersteinClassifier(metric), X, names, scoring="neg_log_loss")
    assert losses.mean() > -0.3


def test_a_tool_that_renumbers_the_classes_is_refused_where_they_have_names() -> None:
    names = np.array(["setosa", "versicolor", "virginica"])[Y]
    metric = wl.ground.Ordinal(3, labels=["virginica", "setosa", "versicolor"])
    estimator = wl.WassersteinClassifier(metric)
    with pytest.raises(ValueError, match="must hold names"):
        cross_val_predict(estimator, X, names, method="predict_proba")


def test_it_can_be_calibrated() -> None:
    calibrated = CalibratedClassifierCV(wl.WassersteinClassifier(wl.ground.Ordinal(3)), cv=2)
    assert calibrated.fit(X, Y).score(X, Y) > 0.9


@pytest.mark.parametrize("metric", [None, "ordinal", wl.ground.Ordinal(3), np.eye(3) == 0])
def test_clone_pickle_and_repr(metric: Any) -> None:
    estimator = wl.WassersteinClassifier(
        metric, hidden_layer_sizes=(4,), max_iter=3, random_state=0
    )
    twin = clone(estimator).set_params(power=2)
    assert twin.power == 2
    assert estimator.power is None
    assert "WassersteinClassifier(" in repr(estimator)
    fitted = estimator.fit(X, Y)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict_proba(X), fitted.predict_proba(X))


def test_a_pickled_estimator_predicts_as_the_one_it_was_made_of() -> None:
    estimator = wl.WassersteinClassifier(random_state=0, solver="adam").fit(X, Y)
    twin = pickle.loads(pickle.dumps(estimator))
    np.testing.assert_array_equal(twin.predict_proba(X), estimator.predict_proba(X))


def test_the_warning_is_known_to_filters_of_either_library() -> None:
    estimator = wl.WassersteinClassifier(max_iter=2)
    with pytest.warns(ConvergenceWarning, match=r"raise max_iter, alpha or tol") as caught:
        estimator.fit(X, Y)
    assert issubclass(caught[0].category, wl.ConvergenceWarning)
    assert caught[0].filename == __file__
    assert estimator.n_iter_ == 2


def test_scikit_learn_is_not_imported_before_it_is_used() -> None:
    code = "import sys, wassloss; assert 'sklearn' not in sys.modules; wassloss.estimators"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_unknown_names_are_still_unknown() -> None:
    assert "WassersteinClassifier" in dir(wl)
    with pytest.raises(AttributeError, match="no attribute 'WassersteinFoo'"):
        wl.WassersteinFoo  # noqa: B018
