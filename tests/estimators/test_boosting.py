"""scikit-learn's boosted trees with our loss."""

import pickle

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.base import clone
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.model_selection import GridSearchCV

import wassloss as wl
from wassloss.estimators import WassersteinHistGradientBoostingClassifier, make_scorer

K = 4
NAMES = ["poor", "fair", "good", "perfect"]  # alphabetical: fair, good, perfect, poor


def made_data(n: int = 400) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n, 4))
    value = X[:, 0] + X[:, 1] ** 2 + rng.normal(size=n) * 0.5
    return X, np.digitize(value, [-0.5, 0.5, 1.5])


def model(metric="ordinal", **keywords) -> WassersteinHistGradientBoostingClassifier:
    return WassersteinHistGradientBoostingClassifier(metric, max_iter=20, **keywords)


def test_the_values_are_those_of_the_loss() -> None:
    raw, ids = np.random.default_rng(0).normal(size=(6, K)), np.arange(6) % K
    loss = wl.WassersteinLoss(wl.ground.Ordinal(K), reduction="none")
    expected = loss(torch.from_numpy(raw), torch.from_numpy(ids)).numpy()
    found = wl.boosting.objective(wl.ground.Ordinal(K)).values(ids, raw)
    np.testing.assert_allclose(found, expected, atol=1e-9)


@pytest.mark.parametrize("labels", [2, K])
def test_with_little_transport_it_is_scikit_learn(labels: int) -> None:
    """KL of a large weight is cross-entropy, many times; leaves do not see the factor."""
    X, y = made_data()
    y = np.minimum(y, labels - 1)
    ours = model(epsilon=0.0, kl_weight=1e9).fit(X, y).predict_proba(X)
    theirs = HistGradientBoostingClassifier(max_iter=20).fit(X, y).predict_proba(X)
    # Of several classes scikit-learn halves the loss; of two, neither does.
    if labels == 2:
        np.testing.assert_allclose(ours, theirs, atol=0.02)
    assert (ours.argmax(1) == theirs.argmax(1)).mean() > 0.95


def test_it_learns_and_is_nearer_with_more_transport() -> None:
    X, y = made_data(800)
    p = model().fit(X[:400], y[:400]).predict_proba(X[400:])
    assert wl.scores.mean_absolute_error(p, y[400:]) < 0.6
    np.testing.assert_allclose(p.sum(1), 1)


def test_the_order_of_names_is_the_metrics() -> None:
    X, y = made_data()
    numbers = model().fit(X, y)
    names = model(classes=NAMES).fit(X, np.array(NAMES)[y])
    assert names.classes_.tolist() == sorted(NAMES)
    order = [names.classes_.tolist().index(name) for name in NAMES]
    np.testing.assert_allclose(names.predict_proba(X)[:, order], numbers.predict_proba(X))
    scorer = make_scorer(wl.scores.mean_absolute_error)
    assert scorer(names, X, np.array(NAMES)[y]) == pytest.approx(scorer(numbers, X, y))


def test_a_class_that_the_data_lack_is_never_predicted() -> None:
    X, y = made_data()
    seen = y != 2
    fitted = model(wl.ground.Ordinal(K)).fit(X[seen], y[seen])
    assert fitted.classes_.tolist() == [0, 1, 2, 3]
    assert fitted.predict_proba(X).shape == (400, K)
    assert 2 not in fitted.predict(X)


def test_weights_count_as_copies() -> None:
    X, y = made_data()
    weight = 1 + (X[:, 2] > 0)
    rows = np.repeat(np.arange(400), weight)
    keywords = {"min_samples_leaf": 1, "max_leaf_nodes": 4, "max_bins": 8}
    weighted = model(**keywords).fit(X, y, sample_weight=weight.astype(float)).predict_proba(X)
    copied = model(**keywords).fit(X[rows], y[rows]).predict_proba(X)
    assert np.corrcoef(weighted.ravel(), copied.ravel())[0, 1] > 0.95  # bins differ
    assert np.abs(weighted - model(**keywords).fit(X, y).predict_proba(X)).max() > 0.01


@pytest.mark.parametrize("scoring", ["loss", "accuracy"])
def test_early_stopping_goes_by_our_loss(scoring: str) -> None:
    X, y = made_data(800)
    keywords = {"learning_rate": 0.5, "early_stopping": True, "random_state": 0}
    chosen = WassersteinHistGradientBoostingClassifier(
        "ordinal", max_iter=200, scoring=scoring, **keywords
    ).fit(X, y)
    assert chosen.n_iter_ < 200
    if scoring == "loss":
        raw = np.zeros((800, K)) + chosen._baseline_prediction
        first = wl.boosting.objective(wl.ground.Ordinal(K)).values(y, raw).mean()
        assert -chosen.validation_score_[0] == pytest.approx(first, rel=0.1)


def test_copies_pickles_and_searches() -> None:
    X, y = made_data()
    metric = wl.ground.Ordinal(K)
    first = model(metric, kl_weight=0.1, learning_rate=0.3)
    copy = clone(first)
    assert copy.get_params()["kl_weight"] == 0.1
    assert copy.get_params()["learning_rate"] == 0.3
    assert "metric=" in repr(first)
    fitted = copy.fit(X, y)
    again = pickle.loads(pickle.dumps(fitted))
    np.testing.assert_array_equal(again.predict_proba(X), fitted.predict_proba(X))
    grid = {"kl_weight": [0.1, 1.0], "max_leaf_nodes": [3, 7]}
    search = GridSearchCV(model(), grid, scoring=wl.estimators.mean_distance, cv=2).fit(X, y)
    assert search.best_score_ > -0.7


def test_what_cannot_be_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    X, y = made_data()
    with pytest.raises(ValueError, match="epsilon and kl_weight must not both be 0"):
        model(epsilon=0, kl_weight=0).fit(X, y)
    with pytest.raises(ValueError, match="classes must have 5 classes"):
        model(wl.ground.Ordinal(5), classes=NAMES).fit(X, np.array(NAMES)[y])
    with pytest.raises(TypeError, match="unexpected keyword argument 'trees'"):
        model(trees=3)
    monkeypatch.setattr(HistGradientBoostingClassifier, "fit", lambda self, *data: self)
    with pytest.raises(RuntimeError, match=r"scikit-learn .* did not take the loss"):
        model().fit(X, y)
