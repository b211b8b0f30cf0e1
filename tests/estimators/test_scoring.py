"""Our scores as scorers in scikit-learn's searches."""

import pickle

import numpy as np
import pytest
from sklearn.datasets import load_diabetes, load_iris
from sklearn.linear_model import LogisticRegression
from sklearn.metrics import cohen_kappa_score, log_loss
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import wassloss as wl
from wassloss.estimators import make_scorer

mean_distance = make_scorer(wl.scores.distance_at_k)

X, Y = load_iris(return_X_y=True)
MODEL = LogisticRegression(max_iter=1000).fit(X[::2, :2], Y[::2])
SCORE = np.eye(3)[MODEL.predict(X[:, :2])]


def test_scores_of_first_guesses_judge_predictions() -> None:
    scorer = make_scorer(wl.scores.quadratic_weighted_kappa)
    expected = cohen_kappa_score(Y, MODEL.predict(X[:, :2]), weights="quadratic")
    assert scorer(MODEL, X[:, :2], Y) == pytest.approx(expected)
    off = make_scorer(wl.scores.mean_absolute_error)(MODEL, X[:, :2], Y)
    assert off == pytest.approx(-np.abs(Y - MODEL.predict(X[:, :2])).mean())
    assert pickle.loads(pickle.dumps(scorer))(MODEL, X[:, :2], Y) == scorer(MODEL, X[:, :2], Y)


def test_scores_of_probabilities_judge_probabilities() -> None:
    p = MODEL.predict_proba(X[:, :2])
    nll = make_scorer(wl.scores.negative_log_likelihood)(MODEL, X[:, :2], Y)
    assert nll == pytest.approx(-log_loss(Y, p))
    line = wl.ground.Ordinal(3)
    found = make_scorer(wl.scores.distance_at_k, metric=line, k=2)(MODEL, X[:, :2], Y)
    assert found == pytest.approx(-wl.scores.distance_at_k(p, Y, line, k=2))
    found = make_scorer(wl.scores.ranking_auc)(MODEL, X[:, :2], Y)
    assert found == pytest.approx(wl.scores.ranking_auc(p, Y))


def test_classes_that_a_fold_lacks() -> None:
    """Without the middle class, a model that predicts the last one is two steps off."""
    known = Y != 1
    model = LogisticRegression(max_iter=1000).fit(X[known], Y[known])
    scorer = make_scorer(wl.scores.mean_absolute_error, classes=[0, 1, 2])
    assert scorer(model, X, Y) == pytest.approx(-np.abs(Y - model.predict(X)).mean())
    swapped = make_scorer(wl.scores.mean_absolute_error, classes=[1, 0, 2])
    place = np.array([1, 0, 2])
    expected = -np.abs(place[Y] - place[model.predict(X)]).mean()
    assert swapped(model, X, Y) == pytest.approx(expected)
    with pytest.raises(ValueError, match="y must hold classes that the estimator has seen"):
        make_scorer(wl.scores.mean_absolute_error)(model, X, Y)


def test_our_estimators_bring_their_metric_and_their_labels() -> None:
    features, value = load_diabetes(return_X_y=True)
    names = np.array(["low", "middle", "high"])[np.digitize(value, [100, 180])]
    metric = wl.ground.Ordinal([0.0, 1.0, 5.0], labels=("low", "middle", "high"))
    model = wl.WassersteinClassifier(metric).fit(features, names)
    place = np.array([2, 0, 1])[np.searchsorted(["high", "low", "middle"], names)]
    guess = np.array([2, 0, 1])[np.searchsorted(model.classes_, model.predict(features))]
    steps = np.array([0.0, 1.0, 5.0])
    off = np.abs(steps[guess] - steps[place])
    wrong = guess != place
    found = make_scorer(wl.scores.mistake_severity)(model, features, names)
    assert found == pytest.approx(-off[wrong].mean())
    p = model.predict_proba(features)[:, [1, 2, 0]]
    found = make_scorer(wl.scores.ranked_probability_score)(model, features, names)
    assert found == pytest.approx(-wl.scores.ranked_probability_score(p, place))


def test_our_estimators_inside_others_bring_theirs_too() -> None:
    order = ["low", "mid", "high"]  # alphabetical: high, low, mid
    names = np.array(order)[Y]
    cv = wl.WassersteinClassifierCV("ordinal", classes=order, alphas=[1.0], kl_weights=[0.1], cv=2)
    cv.fit(X[:, :2], names)
    found = mean_distance(cv, X[:, :2], names)
    assert found == mean_distance(cv.best_estimator_, X[:, :2], names)
    pipeline = make_pipeline(StandardScaler(), cv.best_estimator_).fit(X[:, :2], names)
    guess = pipeline.predict(X[:, :2])
    expected = cohen_kappa_score(names, guess, labels=order, weights="quadratic")
    kappa = make_scorer(wl.scores.quadratic_weighted_kappa)
    assert kappa(pipeline, X[:, :2], names) == pytest.approx(expected)
    assert mean_distance(pipeline, X[:, :2], names) == mean_distance(
        pipeline[-1], pipeline[0].transform(X[:, :2]), names
    )


def test_names_of_other_estimators_need_an_order() -> None:
    order = ["low", "mid", "high"]
    names = np.array(order)[Y]
    model = LogisticRegression(max_iter=1000).fit(X[:, :2], names)
    for score in (wl.scores.quadratic_weighted_kappa, wl.scores.average_mae):
        with pytest.raises(ValueError, match="classes must be given to score LogisticRegression"):
            make_scorer(score)(model, X[:, :2], names)
    with pytest.raises(ValueError, match="classes must be given"):
        make_scorer(wl.scores.distance_at_k, metric=wl.ground.Ordinal(3))(model, X[:, :2], names)
    guess = model.predict(X[:, :2])
    expected = cohen_kappa_score(names, guess, labels=order, weights="quadratic")
    kappa = make_scorer(wl.scores.quadratic_weighted_kappa, classes=order)
    assert kappa(model, X[:, :2], names) == pytest.approx(expected)
    right = make_scorer(wl.scores.accuracy)(model, X[:, :2], names)
    assert right == pytest.approx((guess == names).mean())


def test_in_a_search() -> None:
    scorer = make_scorer(wl.scores.off_by_one_accuracy)
    found = cross_val_score(LogisticRegression(max_iter=1000), X, Y, scoring=scorer, cv=3)
    assert (found > 0.9).all()


def test_a_model_without_mistakes_wins_the_search() -> None:
    """Its severity is undefined, and so is its kappa if a fold has only one label."""
    x, y = np.repeat([[0.0], [10.0], [20.0]], 30, axis=0), np.repeat([0, 1, 2], 30)
    severity = make_scorer(wl.scores.mistake_severity, metric=wl.ground.Ordinal(3))
    grid = {"C": [1e-9, 100.0]}
    search = GridSearchCV(LogisticRegression(max_iter=1000), grid, scoring=severity, cv=3)
    search.fit(x, y)
    assert search.best_params_ == {"C": 100.0}
    assert search.best_score_ == 0
    kappa = make_scorer(wl.scores.quadratic_weighted_kappa)
    assert kappa(search, x[:30], y[:30]) == 1
    assert kappa(search, x[:30], y[30:60]) == 0


def test_what_is_missing_is_named() -> None:
    with pytest.raises(ValueError, match="metric must be given to score LogisticRegression"):
        make_scorer(wl.scores.mistake_severity)(MODEL, X[:, :2], Y)
    with pytest.raises(ValueError, match=r"function must be a score .* got top_labels"):
        make_scorer(wl.decisions.top_labels)
