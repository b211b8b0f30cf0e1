"""The objective for boosted trees: its derivatives, and its use in both libraries."""

import pickle

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from scipy.special import softmax

import wassloss as wl

K = 4
IDS = np.array([0, 3, 1, 2, 2])
RAW = np.random.default_rng(0).normal(size=(5, K))
METRICS = {
    "line": wl.ground.Ordinal([0.0, 1.0, 1.5, 4.0], power=2),
    "cost": wl.ground.Cost(np.random.default_rng(1).random((K, K))),
}


def loss(raw: NDArray[np.float64], **keywords: float) -> NDArray[np.float64]:
    module = wl.WassersteinLoss(**keywords, reduction="none")
    return module(torch.from_numpy(raw), torch.from_numpy(IDS)).numpy()


@pytest.mark.parametrize("name", METRICS)
def test_derivatives_are_those_of_finite_differences(name: str) -> None:
    keywords = {"metric": METRICS[name], "epsilon": 0.3, "kl_weight": 0.4}
    gradient, curvature = wl.boosting.objective(**keywords)(IDS, RAW)
    step = 1e-4
    for j in range(K):
        up, down = RAW.copy(), RAW.copy()
        up[:, j] += step
        down[:, j] -= step
        high, middle, low = (loss(raw, **keywords) for raw in (up, RAW, down))
        np.testing.assert_allclose(gradient[:, j], (high - low) / (2 * step), atol=1e-6)
        second = (high - 2 * middle + low) / step**2
        # A negative curvature of the softmax is replaced by its absolute value.
        h = softmax(RAW, axis=1)[:, j]
        spread = 0.7 * h * (1 - h)
        expected = np.abs(second - spread) + spread
        np.testing.assert_allclose(curvature[:, j], expected, atol=1e-5)
        assert (curvature[:, j] >= np.abs(second) - 1e-5).all()


def test_weights_and_data_sets() -> None:
    class Data:
        def get_label(self) -> NDArray[np.float32]:
            return IDS.astype(np.float32)

        def get_weight(self) -> NDArray[np.float64]:
            return weight

    objective = wl.boosting.objective(METRICS["line"])
    weight = np.array([1.0, 0.0, 2.0, 0.5, 1.0])
    plain, weighted, from_data = (
        objective(IDS, RAW),
        objective(IDS, RAW, weight),
        objective(RAW, Data()),
    )
    for one, two, three in zip(plain, weighted, from_data, strict=True):
        np.testing.assert_allclose(two, weight[:, None] * one)
        np.testing.assert_allclose(three, two)
    again = pickle.loads(pickle.dumps(objective))(IDS, RAW)
    np.testing.assert_array_equal(again[0], plain[0])


def test_two_classes_have_one_score() -> None:
    objective = wl.boosting.objective(wl.ground.Ordinal(2))
    ids, raw = np.array([0, 1, 1]), np.array([0.3, -2.0, 5.0])
    both = objective(ids, np.stack([0 * raw, raw], 1))
    for one, two in zip(objective(ids, raw), both, strict=True):
        np.testing.assert_allclose(one, two[:, 1])


def test_certain_predictions_keep_a_positive_curvature() -> None:
    gradient, curvature = wl.boosting.objective(METRICS["line"])(IDS, 1e3 * RAW)
    assert np.isfinite(gradient).all()
    assert (curvature > 0).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: wl.boosting.objective(METRICS["line"], epsilon=0, kl_weight=0), "must not both"),
        (lambda: wl.boosting.objective(METRICS["line"], kl_weight=-1), "kl_weight must be"),
        (
            lambda: wl.boosting.objective(METRICS["line"])(IDS, RAW[:, :3]),
            r"raw scores must have shape \(5, 4\), .* got \(5, 3\)",
        ),
        (lambda: wl.boosting.objective(METRICS["line"])(IDS + 1, RAW), r"y must hold .* 0\.\.3"),
        (lambda: wl.boosting.objective(METRICS["line"])(IDS + 0.5, RAW), r"y must hold class ids"),
    ],
)
def test_bad_input_is_named(call, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call()


def made_data() -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    rng = np.random.default_rng(0)
    X = rng.normal(size=(400, 4))
    value = X[:, 0] + X[:, 1] ** 2 + rng.normal(size=400) * 0.5
    return X, np.digitize(value, [-0.5, 0.5, 1.5])


@pytest.mark.filterwarnings("ignore:Cannot compute class probabilities")
def test_lightgbm_learns() -> None:
    lightgbm = pytest.importorskip("lightgbm")
    X, y = made_data()
    objective = wl.boosting.objective(wl.ground.Ordinal(K))
    keywords = {"num_leaves": 7, "verbose": -1, "num_threads": 1, "deterministic": True}
    weight = np.where(X[:, 2] > 0, 2.0, 1.0)
    model = lightgbm.LGBMClassifier(objective=objective, n_estimators=40, **keywords)
    raw = model.fit(X[:300], y[:300], sample_weight=weight[:300]).predict_proba(X[300:])
    assert np.abs(raw.argmax(1) - y[300:]).mean() < 0.6
    data = lightgbm.Dataset(X[:300], y[:300], weight=weight[:300])
    booster = lightgbm.train({"objective": objective, "num_class": K, **keywords}, data, 40)
    np.testing.assert_allclose(booster.predict(X[300:]), raw)
    repeated = np.repeat(np.arange(300), weight[:300].astype(int))
    loose = {**keywords, "min_child_samples": 0, "min_child_weight": 0.1}
    twice, weighted = (
        lightgbm.LGBMClassifier(objective=objective, n_estimators=3, **loose)
        .fit(X[rows], y[rows], sample_weight=each)
        .predict_proba(X[300:])
        for rows, each in ((repeated, None), (np.arange(300), weight[:300]))
    )
    assert np.corrcoef(twice.ravel(), weighted.ravel())[0, 1] > 0.95  # bins of features differ


def test_xgboost_learns() -> None:
    xgboost = pytest.importorskip("xgboost")
    X, y = made_data()
    objective = wl.boosting.objective(wl.ground.Ordinal(K))
    weight = np.where(X[:, 2] > 0, 2.0, 1.0)
    keywords = {"max_depth": 3, "nthread": 1, "learning_rate": 0.2}
    model = xgboost.XGBClassifier(
        objective=objective, n_estimators=30, max_depth=3, n_jobs=1, learning_rate=0.2
    )
    p = model.fit(X[:300], y[:300], sample_weight=weight[:300]).predict_proba(X[300:])
    assert np.abs(p.argmax(1) - y[300:]).mean() < 0.6
    data = xgboost.DMatrix(X[:300], y[:300], weight=weight[:300])
    parameters = {"num_class": K, "objective": "multi:softprob", **keywords}
    booster = xgboost.train(parameters, data, 30, obj=objective)
    np.testing.assert_allclose(booster.predict(xgboost.DMatrix(X[300:])), p, atol=1e-5)


@pytest.mark.filterwarnings("ignore:Cannot compute class probabilities")
def test_two_classes_with_both_libraries() -> None:
    X, y = made_data()
    y = (y > 1).astype(int)
    objective = wl.boosting.objective(wl.ground.Ordinal(2))
    lightgbm, xgboost = pytest.importorskip("lightgbm"), pytest.importorskip("xgboost")
    raw = lightgbm.LGBMClassifier(objective=objective, n_estimators=20, verbose=-1, num_threads=1)
    assert ((raw.fit(X, y).predict(X, raw_score=True) > 0) == y).mean() > 0.85
    tree = xgboost.XGBClassifier(objective=objective, n_estimators=20, n_jobs=1)
    assert (tree.fit(X, y).predict(X) == y).mean() > 0.85


SETS = [[0], [0, 1], [1, 3], [0, 1, 2, 3], [2]]


@pytest.mark.parametrize("name", METRICS)
def test_derivatives_of_sets_are_those_of_finite_differences(name: str) -> None:
    keywords = {"metric": METRICS[name], "epsilon": 0.3, "kl_weight": 0.4}
    target, numbers = wl.SetTarget(SETS), np.arange(len(SETS))
    gradient, curvature = wl.boosting.objective(**keywords, sets=target)(numbers, RAW)
    module = wl.WassersteinLoss(**keywords, reduction="none")

    def loss_at(j: int, step: float) -> NDArray[np.float64]:
        raw = RAW.copy()
        raw[:, j] += step
        return module(torch.from_numpy(raw), target).numpy()

    step, h = 1e-4, softmax(RAW, axis=1)
    for j in range(K):
        high, middle, low = (loss_at(j, s) for s in (step, 0, -step))
        np.testing.assert_allclose(gradient[:, j], (high - low) / (2 * step), atol=1e-6)
        second = (high - 2 * middle + low) / step**2
        share = np.array([h[i, j] / h[i, s].sum() if j in s else 0.0 for i, s in enumerate(SETS)])
        without_shares = second + 0.4 * share * (1 - share)
        spread = 0.7 * h[:, j] * (1 - h[:, j])
        expected = np.abs(without_shares - spread) + spread
        np.testing.assert_allclose(curvature[:, j], expected, atol=1e-5)
        assert (curvature[:, j] >= second - 1e-5).all()


def test_sets_of_one_class_are_class_ids() -> None:
    ids = wl.SetTarget.from_ranges(range(K), range(K))
    found = wl.boosting.objective(METRICS["line"], sets=ids)(IDS, RAW)
    expected = wl.boosting.objective(METRICS["line"])(IDS, RAW)
    for one, two in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, two)
    with pytest.raises(ValueError, match=r"y must hold indices of sets in 0\.\.1, got"):
        wl.boosting.objective(METRICS["line"], sets=wl.SetTarget([[0], [1, 2]]))(IDS, RAW)
    with pytest.raises(ValueError, match="got none in example 1"):
        wl.boosting.objective(METRICS["line"], sets=wl.SetTarget([[0], []]))


def test_lightgbm_learns_from_sets() -> None:
    lightgbm = pytest.importorskip("lightgbm")
    rng = np.random.default_rng(0)
    y = rng.integers(K, size=400)
    x = y[:, None] + 0.3 * rng.normal(size=(400, 2))
    sets = wl.SetTarget([[0], [1], [2], [3], [0, 1], [2, 3]])
    number = np.where(rng.random(400) < 0.7, 4 + y // 2, y)
    parameters = {
        "objective": wl.boosting.objective(METRICS["line"], sets=sets),
        "num_class": K,
        "verbose": -1,
        "num_threads": 1,
    }
    model = lightgbm.train(parameters, lightgbm.Dataset(x, number), num_boost_round=20)
    assert (model.predict(x).argmax(1) == y).mean() > 0.9
