"""The classifier: limits, laws, and equivalent forms of y."""

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy import sparse
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression
from sklearn.preprocessing import StandardScaler

import wassloss as wl


def ordered(n: int, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """Ten grades of a sum of features and heavy noise."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 10))
    grade = 5 + 1.25 * (x @ np.linspace(1, 0, 10) + rng.standard_t(3, size=n))
    return x, np.clip(np.round(grade), 0, 9).astype(int)


X, Y = ordered(200, seed=0)


def proba(estimator: Any) -> NDArray[Any]:
    return estimator.predict_proba(X)


def test_equals_logistic_regression_for_high_kl_weight() -> None:
    ours = wl.WassersteinClassifier("ordinal", kl_weight=1e7, alpha=4.0, tol=1e-7)
    theirs = LogisticRegression(C=1 / 4.0, tol=1e-8, max_iter=1000)
    scaled = StandardScaler().fit_transform(X)
    np.testing.assert_allclose(
        proba(ours.fit(X, Y)), theirs.fit(scaled, Y).predict_proba(scaled), atol=1e-4
    )


def test_without_transport_it_is_logistic_regression() -> None:
    ours = wl.WassersteinClassifier("ordinal", transport_weight=0, kl_weight=3, tol=1e-7)
    theirs = LogisticRegression(tol=1e-8, max_iter=1000)
    scaled = StandardScaler().fit_transform(X)
    np.testing.assert_allclose(
        proba(ours.fit(X, Y)), theirs.fit(scaled, Y).predict_proba(scaled), atol=1e-4
    )
    with pytest.raises(ValueError, match="must not both be 0"):
        wl.WassersteinClassifier(transport_weight=0, kl_weight=0).fit(X, Y)


def test_softened_labels_spread_to_their_neighbours() -> None:
    keywords: dict[str, Any] = {"transport_weight": 0, "kl_weight": 1}
    hard, soft = (
        proba(wl.WassersteinClassifier("ordinal", softening=s, **keywords).fit(X, Y))
        for s in (0.0, 0.3)
    )
    off = np.abs(np.arange(10) - Y[:, None])
    assert soft[off == 1].mean() > hard[off == 1].mean()
    assert (-hard * np.log(hard)).sum(1).mean() < (-soft * np.log(soft)).sum(1).mean()


def test_class_weights_are_sample_weights() -> None:
    weights = {grade: 1.0 + grade for grade in range(10)}
    by_class = wl.WassersteinClassifier("ordinal", class_weight=weights).fit(X, Y)
    by_sample = wl.WassersteinClassifier("ordinal").fit(X, Y, sample_weight=1.0 + Y)
    np.testing.assert_array_equal(proba(by_class), proba(by_sample))
    # Doubling the weights is the same as repeating the examples, which share one penalty.
    doubled = by_class.set_params(alpha=2.0).fit(X, Y, sample_weight=np.full(len(X), 2.0))
    np.testing.assert_allclose(proba(doubled), proba(by_sample), atol=1e-9)


def test_balanced_classes_count_the_same() -> None:
    x, y = np.zeros((90, 1)), np.repeat([0, 1, 2], [60, 20, 10])
    balanced = wl.WassersteinClassifier(class_weight="balanced", kl_weight=100.0).fit(x, y)
    np.testing.assert_allclose(balanced.predict_proba(x[:1]), 1 / 3, atol=1e-3)


def test_wrong_class_weights() -> None:
    balanced = wl.WassersteinClassifier(class_weight="balanced")
    with pytest.raises(ValueError, match="class_weight must be None if y is a matrix"):
        balanced.fit(X, np.eye(10)[Y])


@pytest.mark.parametrize("seed", range(5))
def test_mistakes_are_milder_than_those_of_logistic_regression(seed: int) -> None:
    (x, y), (x_new, y_new) = ordered(300, seed), ordered(2000, seed + 100)

    def off(estimator: Any) -> float:
        return float(np.abs(estimator.fit(x, y).predict(x_new) - y_new).mean())

    logistic = off(LogisticRegression(max_iter=1000))
    assert off(wl.WassersteinClassifier("ordinal")) < 0.98 * logistic
    assert off(wl.WassersteinClassifier("ordinal", kl_weight=0)) < 0.97 * logistic
    assert off(wl.WassersteinClassifier("ordinal", decision="least_cost")) < 0.93 * logistic


def test_forms_of_y_that_say_the_same_train_the_same_model() -> None:
    metric = wl.ground.Ordinal(10)
    one_hot = np.eye(10)[Y]
    expected = proba(wl.WassersteinClassifier(metric).fit(X, Y))
    for same in (
        one_hot,
        3 * one_hot,
        one_hot.astype(int),
        one_hot.astype(bool),
        sparse.csr_array(one_hot),
        sparse.coo_matrix(one_hot.astype(int)),
    ):
        fitted = wl.WassersteinClassifier(metric).fit(X, same)
        np.testing.assert_allclose(proba(fitted), expected, rtol=1e-7)
        assert fitted.score(X, same) == fitted.score(X, one_hot)


def test_many_labels_dense_sparse_or_as_distributions() -> None:
    rng = np.random.default_rng(0)
    tags = (rng.random((200, 10)) < 0.15) | (np.eye(10)[Y] > 0)
    metric = wl.ground.Ordinal(10)
    expected = proba(wl.WassersteinClassifier(metric).fit(X, tags))
    for same in (sparse.csr_matrix(tags), tags / tags.sum(1, keepdims=True)):
        np.testing.assert_allclose(
            proba(wl.WassersteinClassifier(metric).fit(X, same)), expected, atol=1e-6
        )


def test_dense_distributions_are_learned() -> None:
    softened = np.exp(-np.abs(np.arange(10) - Y[:, None]))
    fitted = wl.WassersteinClassifier("ordinal").fit(X, softened)
    assert proba(fitted).shape == (200, 10)
    # The right prediction is the label of largest weight.
    assert fitted.score(X, softened) == np.mean(fitted.predict(X) == Y) > 0.3


@pytest.mark.parametrize("solver", ["lbfgs", "adam", "sgd"])
def test_each_solver_comes_near_the_same_model(solver: str) -> None:
    expected = proba(wl.WassersteinClassifier("ordinal", solver="lbfgs").fit(X, Y))
    fitted = wl.WassersteinClassifier("ordinal", solver=solver, random_state=0).fit(X, Y)
    assert np.abs(proba(fitted) - expected).mean() < 0.02


@pytest.mark.parametrize(
    "keywords",
    [
        {"solver": "adam"},
        {"hidden_layer_sizes": (8, 8)},
        {"hidden_layer_sizes": (8,), "solver": "lbfgs"},
    ],
)
@pytest.mark.filterwarnings("ignore:fit did not converge")
def test_the_same_random_state_gives_the_same_model(keywords: dict[str, Any]) -> None:
    before = torch.get_rng_state()
    first, same, other = (
        wl.WassersteinClassifier(max_iter=5, random_state=seed, **keywords).fit(X, Y)
        for seed in (1, 1, 2)
    )
    np.testing.assert_allclose(proba(first), proba(same), rtol=1e-7)
    assert not np.allclose(proba(first), proba(other), rtol=1e-7)
    assert torch.equal(torch.get_rng_state(), before)


def test_units_of_features_and_distances_do_not_matter() -> None:
    metric, long = wl.ground.Ordinal(10), wl.ground.Ordinal(1000 * np.arange(10.0))
    expected = proba(wl.WassersteinClassifier(metric).fit(X, Y))
    np.testing.assert_allclose(proba(wl.WassersteinClassifier(long).fit(X, Y)), expected, atol=1e-4)
    shifted = wl.WassersteinClassifier(metric).fit(1e4 * X + 3e5, Y)
    np.testing.assert_allclose(shifted.predict_proba(1e4 * X + 3e5), expected, atol=1e-4)


def test_weights_are_repeated_rows() -> None:
    weight = np.random.default_rng(0).integers(0, 4, size=len(X))
    weighted = wl.WassersteinClassifier("ordinal").fit(X, Y, sample_weight=weight)
    repeated = wl.WassersteinClassifier("ordinal").fit(X.repeat(weight, 0), Y.repeat(weight))
    np.testing.assert_allclose(proba(weighted), proba(repeated), atol=1e-7)


def test_the_least_cost_decision_charges_the_metric() -> None:
    fitted = wl.WassersteinClassifier(wl.ground.Ordinal(10), decision="least_cost").fit(X, Y)
    median = (proba(fitted).cumsum(1) < 0.5).sum(1)
    np.testing.assert_array_equal(fitted.predict(X), median)


def test_top_labels() -> None:
    fitted = wl.WassersteinClassifier("ordinal").fit(X, Y + 1)
    top = fitted.predict_top(X, 3)
    assert top.shape == (200, 3)
    np.testing.assert_array_equal(top[:, 0], fitted.predict(X))
    np.testing.assert_array_equal(top, fitted.classes_[proba(fitted).argsort(1)[:, :-4:-1]])
    spread = fitted.set_params(decision="least_cost").predict_top(X, 2)
    np.testing.assert_array_equal(spread[:, 0], fitted.predict(X))


def test_the_score_of_an_indicator_takes_any_of_its_labels() -> None:
    fitted = wl.WassersteinClassifier("ordinal").fit(X, Y)
    near = np.abs(np.arange(10) - Y[:, None]) <= 1
    right = np.abs(fitted.predict(X) - Y) <= 1
    weight = np.arange(1.0, 201)
    assert fitted.score(X, near) == right.mean()
    assert fitted.score(X, near, weight) == pytest.approx(np.average(right, weights=weight))


def test_decision_function_of_two_classes_is_a_difference() -> None:
    fitted = wl.WassersteinClassifier().fit(X, Y > 4)
    p = proba(fitted)
    np.testing.assert_allclose(fitted.decision_function(X), np.log(p[:, 1] / p[:, 0]))


def test_features_of_a_data_frame_keep_their_names() -> None:
    pandas = pytest.importorskip("pandas")
    frame = pandas.DataFrame(X, columns=[f"x{i}" for i in range(10)])
    fitted = wl.WassersteinClassifier().fit(frame, Y)
    assert fitted.feature_names_in_.tolist() == list(frame.columns)
    with pytest.raises(ValueError, match="feature names should match"):
        fitted.predict(frame.rename(columns={"x0": "y0"}))


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"metric": "euclid"}, "metric must be .* got .euclid."),
        ({"metric": 3}, "metric must be a GroundMetric"),
        ({"metric": np.ones((2, 3))}, "distance must be square"),
        ({"solver": "newton"}, "solver must be 'auto', .* got 'newton'"),
        ({"decision": "best"}, "decision must be 'probable' or .* got 'best'"),
        ({"kl_weight": -1}, "kl_weight must be a finite number, at least 0, got -1"),
        ({"epsilon": "small"}, "epsilon must be a number, got 'small'"),
        ({"power": -1}, "power"),
        ({"max_iter": 0}, "max_iter must be at least 1, got 0"),
        ({"tol": -1}, "tol must be"),
        ({"batch_size": 2.5}, "batch_size must be an integer, got 2.5"),
        ({"learning_rate": 0}, "learning_rate must be positive, got 0"),
        ({"alpha": float("nan")}, "alpha must be"),
        ({"hidden_layer_sizes": 10}, "hidden_layer_sizes must be a sequence"),
        ({"hidden_layer_sizes": 0}, "hidden_layer_sizes must be a sequence .* got 0"),
        ({"hidden_layer_sizes": (0,)}, "hidden_layer_sizes must be at least 1, got 0"),
        ({"metric": torch.zeros(10, 10, requires_grad=True)}, "metric must not require grad"),
        ({"device": "abacus"}, "device must be available to torch, got 'abacus'"),
    ],
)
def test_bad_keywords(keywords: dict[str, Any], message: str) -> None:
    estimator = wl.WassersteinClassifier(**keywords)  # does not validate
    with pytest.raises((ValueError, TypeError), match=message):
        estimator.fit(X, Y)


@pytest.mark.parametrize(
    ("y", "message"),
    [
        (-np.eye(10)[Y], "y must not be negative, got -1.0"),
        (2 * np.eye(10, dtype=int)[Y], "only 0 and 1 .* got 2"),
        (np.zeros((200, 10)), "y must give every example a label, got none in row 0"),
        (sparse.csr_array((200, 10)), "y must give every example a label, got none in row 0"),
        (np.full((200, 10), "a"), "y must hold numbers"),
        (np.full((200, 10), np.nan), "contains NaN"),
        (Y + 0.5, "Unknown label type"),
        (Y[:-1], "inconsistent numbers of samples"),
    ],
)
def test_bad_targets(y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        wl.WassersteinClassifier().fit(X, y)


@pytest.mark.parametrize(
    ("weight", "message"),
    [
        (np.zeros(200), "only zeros"),
        (-np.ones(200), "not negative, got -1.0"),
        (np.ones(199), r"shape \(200,\), got \(199,\)"),
    ],
)
def test_bad_weights(weight: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        wl.WassersteinClassifier().fit(X, Y, sample_weight=weight)


def test_a_failed_fit_leaves_the_estimator_unfitted() -> None:
    estimator = wl.WassersteinClassifier().fit(X, Y)
    with pytest.raises(ValueError, match="epsilon"):
        estimator.set_params(epsilon=-1).fit(X, Y)
    with pytest.raises(NotFittedError):
        estimator.predict(X)


@pytest.mark.parametrize("solver", ["lbfgs", "adam"])
def test_an_interrupted_fit_leaves_the_estimator_unfitted(
    solver: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("wassloss.estimators.base.fit_by_small_steps", interrupted)
    monkeypatch.setattr("wassloss.estimators.base.fit_at_once", interrupted)
    estimator = wl.WassersteinClassifier(solver=solver)
    with pytest.raises(KeyboardInterrupt):
        estimator.fit(X, Y)
    with pytest.raises(NotFittedError):
        estimator.predict(X)


def test_score_before_fit() -> None:
    for y in (Y, np.eye(3)[[0, 1, 2]]):
        with pytest.raises(NotFittedError):
            wl.WassersteinClassifier().score(X[: len(y)], y)


def test_the_exact_loss_can_be_fitted() -> None:
    tags = np.abs(np.arange(10) - Y[:, None]) <= 1
    # The loss has kinks, at which L-BFGS may fail.
    for y, solver in ((Y, "auto"), (tags, "adam")):
        fitted = wl.WassersteinClassifier("ordinal", epsilon=0, solver=solver).fit(X, y)
        assert np.abs(fitted.predict(X) - Y).mean() < 2


def test_a_matrix_of_other_width_is_refused() -> None:
    fitted = wl.WassersteinClassifier().fit(X, np.eye(10)[Y])
    with pytest.raises(ValueError, match="y must have 10 columns, got 9"):
        fitted.score(X, np.eye(10)[Y][:, :9] + 0.1)
