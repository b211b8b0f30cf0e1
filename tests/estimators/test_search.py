"""Strengths chosen by cross-validation, compared with scikit-learn's searches."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score
from sklearn.utils.estimator_checks import parametrize_with_checks

import wassloss as wl
from tests.estimators.test_scikit_learn import expected_failures
from wassloss.estimators import make_scorer

mean_distance = make_scorer(wl.scores.distance_at_k)

FOLDS = StratifiedKFold(3)
FEW: dict[str, Any] = {"alphas": (10.0, 0.1), "kl_weights": (0.1, 1.0), "cv": FOLDS}


def grades(n: int = 120, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(n, 4))
    return X, np.digitize(X[:, 0] + 0.3 * rng.normal(size=n), [-1, 0, 1])


X, Y = grades()


@pytest.mark.slow  # the checks of the classifier, which it fits, are in every run
@parametrize_with_checks(
    [wl.WassersteinClassifierCV(alphas=(10.0, 1.0), kl_weights=(0.5,), cv=2)],
    expected_failed_checks=expected_failures,
)
def test_scikit_learn_checks(estimator: Any, check: Any) -> None:
    check(estimator)


def test_it_finds_what_a_grid_search_finds() -> None:
    ours = wl.WassersteinClassifierCV("ordinal", tol=1e-7, **FEW).fit(X, Y)
    grid = {"alpha": [10.0, 0.1], "kl_weight": [0.1, 1.0]}
    theirs = GridSearchCV(
        wl.WassersteinClassifier("ordinal", tol=1e-7), grid, scoring=mean_distance, cv=FOLDS
    ).fit(X, Y)
    assert ours.scores_.shape == (3, 2, 1, 1, 2)
    found = theirs.cv_results_["mean_test_score"].reshape(2, 2).T  # (kl_weights, alphas)
    np.testing.assert_allclose(ours.scores_.mean(0)[:, 0, 0], found, atol=1e-9)
    assert ours.best_score_ == pytest.approx(theirs.best_score_)  # either of equal ones is right
    chosen = {"alpha": ours.alpha_, "kl_weight": ours.kl_weight_}
    again = wl.WassersteinClassifier("ordinal", tol=1e-7, **chosen).fit(X, Y)
    np.testing.assert_allclose(ours.predict_proba(X), again.predict_proba(X), atol=1e-5)
    assert ours.score(X, Y) == mean_distance(ours.best_estimator_, X, Y)


@pytest.mark.slow
def test_processes_find_the_same() -> None:
    one, two = (
        wl.WassersteinClassifierCV("ordinal", n_jobs=n, **FEW).fit(X, Y).scores_ for n in (1, 2)
    )
    np.testing.assert_allclose(one, two, atol=1e-6)


def test_a_fold_may_lack_classes() -> None:
    y = Y.copy()
    y[0] = 7  # only one fold has this class
    with pytest.warns(UserWarning, match="least populated class"):
        fitted = wl.WassersteinClassifierCV("ordinal", cv=3, alphas=(1.0,)).fit(X, y)
    assert fitted.classes_.tolist() == [0, 1, 2, 3, 7]


def test_powers_and_scorers_by_name() -> None:
    fitted = wl.WassersteinClassifierCV(
        "ordinal", powers=(None, 2), scoring="accuracy", kl_weights=(0.5,), cv=3
    ).fit(X, Y)
    assert fitted.metric_.power == (fitted.power_ or 1)
    assert fitted.score(X, Y) == np.mean(fitted.predict(X) == Y)


def test_class_weights_count_once() -> None:
    balanced = {**FEW, "alphas": (1.0,), "kl_weights": (0.5,)}
    ours = wl.WassersteinClassifierCV("ordinal", class_weight="balanced", **balanced).fit(X, Y)
    alone = wl.WassersteinClassifier("ordinal", class_weight="balanced")
    found = cross_val_score(alone, X, Y, scoring=mean_distance, cv=FOLDS)
    np.testing.assert_allclose(ours.scores_.reshape(-1), found, atol=1e-9)


def test_weights_and_tags() -> None:
    weight = np.random.default_rng(0).uniform(0.5, 2, len(X))
    wl.WassersteinClassifierCV("ordinal", **FEW).fit(X, Y, weight)
    tags = np.abs(np.arange(4) - Y[:, None]) <= 1
    fitted = wl.WassersteinClassifierCV(
        wl.ground.Ordinal(4), alphas=(1.0,), kl_weights=(0.5,), cv=2
    ).fit(X, tags.astype(float))
    assert fitted.predict_proba(X).shape == (len(X), 4)
    assert -1.5 < fitted.best_score_ < 0


def test_empty_grids() -> None:
    with pytest.raises(ValueError, match="alphas must hold at least one value"):
        wl.WassersteinClassifierCV(alphas=()).fit(X, Y)


def test_the_mean_distance_of_predictions() -> None:
    fitted = wl.WassersteinClassifier("ordinal", power=2).fit(X, Y)
    off = np.abs(fitted.predict(X) - Y)
    assert mean_distance(fitted, X, Y) == pytest.approx(-off.mean())
    weight = np.arange(len(X)) + 1.0
    assert mean_distance(fitted, X, Y, weight) == pytest.approx(-np.average(off, weights=weight))
    every = np.eye(4)[Y]
    assert mean_distance(fitted, X, every) == pytest.approx(-off.mean())
    assert cross_val_score(fitted, X, Y, scoring=mean_distance, cv=3).mean() > -1


def test_it_has_what_its_best_estimator_has() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("abcd"))
    fitted = wl.WassersteinClassifierCV("ordinal", **FEW).fit(frame, Y)
    best = fitted.best_estimator_
    assert fitted.feature_names_in_.tolist() == list("abcd")
    with pytest.raises(ValueError, match="feature names"):
        fitted.predict(frame[list("dcba")])
    np.testing.assert_array_equal(fitted.coef_, best.coef_)
    np.testing.assert_array_equal(fitted.intercept_, best.intercept_)
    np.testing.assert_array_equal(fitted.predict_log_proba(frame), best.predict_log_proba(frame))
    np.testing.assert_array_equal(fitted.decision_function(frame), best.decision_function(frame))
    assert not hasattr(fitted.fit(X, Y), "feature_names_in_")


def test_it_is_a_classifier_but_for_what_it_chooses() -> None:
    model = wl.WassersteinClassifierCV("ordinal", softening=0.1, **FEW)
    assert isinstance(model, wl.WassersteinClassifier)
    own = set(model.get_params()) - set(wl.WassersteinClassifier().get_params())
    lost = set(wl.WassersteinClassifier().get_params()) - set(model.get_params())
    assert own == {"alphas", "kl_weights", "epsilons", "powers", "cv", "scoring", "n_jobs"}
    assert lost == {"alpha", "kl_weight", "epsilon", "power"}
    assert model.fit(X, Y).best_estimator_.softening == 0.1


def test_linear_parameters_are_of_the_given_features() -> None:
    raw = 10 * X + 5
    fitted = wl.WassersteinClassifier("ordinal").fit(raw, Y)
    np.testing.assert_allclose(
        raw @ fitted.coef_.T + fitted.intercept_, fitted.decision_function(raw), atol=1e-8
    )
    np.testing.assert_allclose(
        np.exp(fitted.predict_log_proba(raw)), fitted.predict_proba(raw), atol=1e-12
    )
    deep = wl.WassersteinClassifier("ordinal", hidden_layer_sizes=(4,), max_iter=2).fit(X, Y)
    assert not hasattr(deep, "coef_")


@pytest.mark.parametrize(
    "made", [wl.WassersteinClassifier, partial(wl.WassersteinClassifierCV, **FEW)]
)
def test_ordered_categories_of_pandas(made: Any) -> None:
    """An ensemble would silently number them in alphabetical order."""
    pd = pytest.importorskip("pandas")
    names = np.array(["poor", "fair", "good", "best"])
    y = pd.Series(pd.Categorical(names[Y], categories=names, ordered=True))
    with pytest.raises(ValueError, match=r"ordered categories .* classes=list\(y.cat.categories\)"):
        made("ordinal").fit(X, y)
    fitted = made("ordinal", classes=list(y.cat.categories)).fit(X, y)
    assert fitted.metric_.distance()[0].tolist() == [0, 1, 2, 3]
    assert fitted.classes_.tolist() == sorted(names)
    by_code = made("ordinal").fit(X, y.cat.codes)
    np.testing.assert_array_equal(names[by_code.predict(X)], fitted.predict(X))


def test_a_score_that_is_not_a_number_is_not_chosen() -> None:
    def scored(model: Any, X: Any, y: Any) -> float:
        return np.nan if model.alpha == 10.0 else -model.alpha

    alphas = (100.0, 10.0, 1.0)
    found = wl.WassersteinClassifierCV("ordinal", alphas=alphas, kl_weights=(0.5,), scoring=scored)
    assert found.fit(X, Y).alpha_ == 1.0
    assert found.best_score_ == -1.0
    found.set_params(alphas=(10.0,))
    with pytest.raises(ValueError, match="scoring must return numbers, got only NaN"):
        found.fit(X, Y)


def test_a_path_of_fits_ends_where_each_fit_does() -> None:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(90, 3))
    y = np.digitize(X[:, 0] + 0.3 * rng.normal(size=90), [-0.5, 0.5])
    alphas = (10.0, 1.0, 0.1)
    path = [wl.WassersteinClassifier("ordinal", alpha=alpha, tol=1e-8) for alpha in alphas]
    for alpha, fitted in zip(alphas, wl.estimators.fit_path(path, X, y), strict=True):
        alone = wl.WassersteinClassifier("ordinal", alpha=alpha, tol=1e-8).fit(X, y)
        np.testing.assert_allclose(fitted.predict_proba(X), alone.predict_proba(X), atol=1e-5)
    some = y < 2  # a part that lacks a class, which `classes` lists
    path = [wl.WassersteinClassifier("ordinal", classes=range(3), alpha=a) for a in alphas]
    for fitted in wl.estimators.fit_path(path, X[some], y[some], warm=False):
        assert fitted.predict_proba(X).shape == (90, 3)
