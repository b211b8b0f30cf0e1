"""Boosted trees of both libraries: scikit-learn's checks, the loss itself, labels, bad input."""

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from scipy.special import softmax
from sklearn.base import clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.utils.estimator_checks import check_estimator

import wassloss as wl
from wassloss.estimators import WassersteinBoostingClassifier

NAMES = np.array(["poor", "fair", "good", "great"])
K = len(NAMES)
METRIC = wl.ground.Ordinal(K)


def made(rows: int = 400, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 3))
    return X, np.digitize(X[:, 0] + X[:, 1] ** 2 + 0.5 * rng.normal(size=rows), [-0.5, 0.5, 1.5])


X, Y = made()
NEW, TRUTH = made(1000, 1)


def lightgbm(**keywords: Any) -> Any:
    library = pytest.importorskip("lightgbm")
    return library.LGBMClassifier(
        **{"n_estimators": 30, "num_leaves": 7, "verbose": -1, "n_jobs": 1} | keywords
    )


def xgboost(**keywords: Any) -> Any:
    library = pytest.importorskip("xgboost")
    return library.XGBClassifier(**{"n_estimators": 30, "max_depth": 3, "n_jobs": 1} | keywords)


both = pytest.mark.parametrize("trees", [lightgbm, xgboost])
# What the libraries' own estimators fail, too.
OF_LIGHTGBM = dict.fromkeys(
    [f"check_sample_weight_equivalence_on_{kind}_data" for kind in ("dense", "sparse")],
    "LightGBM bins features, and counts rows of leaves, without their weights",
)


@both
@pytest.mark.filterwarnings("ignore::UserWarning")
def test_scikit_learn_checks(trees: Callable[..., Any]) -> None:
    few: dict[str, Any] = {"n_estimators": 5}
    if trees is lightgbm:
        few["min_child_samples"] = 1
    expected = OF_LIGHTGBM if trees is lightgbm else {}
    estimator = WassersteinBoostingClassifier(trees(**few))
    check_estimator(estimator, on_skip=None, expected_failed_checks=expected)


@both
def test_it_lowers_its_loss_and_the_distance(trees: Callable[..., Any]) -> None:
    loss_fn = wl.WassersteinLoss(METRIC)
    values = []
    for rounds in (1, 5, 20):
        model = WassersteinBoostingClassifier(trees(n_estimators=rounds), METRIC).fit(X, Y)
        p = torch.from_numpy(model.predict_proba(X))
        values.append(float(loss_fn(p.log(), torch.from_numpy(Y))))
    assert values[0] > values[1] > values[2]
    plain = trees().fit(X, Y).predict(NEW)
    ours = WassersteinBoostingClassifier(trees(), METRIC).fit(X, Y)
    assert np.abs(ours.predict(NEW) - TRUTH).mean() < 1.05 * np.abs(plain - TRUTH).mean()
    assert ours.score(NEW, TRUTH) > 0.6


def test_the_mean_loss_is_that_of_the_module() -> None:
    rng = np.random.default_rng(0)
    raw, ids, weight = rng.normal(size=(20, K)), rng.integers(0, K, 20), rng.random(20)
    for keywords in ({}, {"epsilon": 0.3, "kl_weight": 0.1}, {"epsilon": 0.0}):
        each = wl.WassersteinLoss(METRIC, **keywords, reduction="none")(
            torch.from_numpy(raw), torch.from_numpy(ids)
        ).numpy()
        found = wl.boosting.objective(METRIC, **keywords)
        assert found.mean_loss(ids, raw) == pytest.approx(each.mean(), rel=1e-6)
        expected = (weight * each).sum() / weight.sum()
        assert found.mean_loss(ids, raw, weight) == pytest.approx(expected, rel=1e-6)


@both
def test_probabilities_are_those_of_the_objective(trees: Callable[..., Any]) -> None:
    model = WassersteinBoostingClassifier(trees(), METRIC, epsilon=0.1).fit(X, Y)
    direct = trees(objective=wl.boosting.objective(METRIC, epsilon=0.1)).fit(X, Y)
    margin = {"raw_score": True} if trees is lightgbm else {"output_margin": True}
    raw = direct.predict(NEW, **margin)
    np.testing.assert_allclose(model.predict_proba(NEW), softmax(raw, axis=1), rtol=1e-5)


@both
def test_names_and_missing_classes(trees: Callable[..., Any]) -> None:
    some = Y != 1
    metric = wl.ground.Ordinal(labels=NAMES.tolist())
    model = WassersteinBoostingClassifier(trees(), metric).fit(X[some], NAMES[Y[some]])
    p = model.predict_proba(NEW)
    assert model.classes_.tolist() == sorted(NAMES)
    assert set(model.predict(NEW)) <= set(NAMES)
    np.testing.assert_allclose(p.sum(1), 1, rtol=1e-6)
    assert (model.predict(NEW) == NAMES[TRUTH])[TRUTH != 1].mean() > 0.6
    assert p[:, model.classes_.tolist().index("fair")].mean() < 0.1
    two = WassersteinBoostingClassifier(trees(), "ordinal").fit(X, Y > 1)
    assert two.predict(NEW).dtype == bool
    assert two.score(NEW, TRUTH > 1) > 0.8


@both
def test_early_stopping_by_the_loss(trees: Callable[..., Any]) -> None:
    names = NAMES[Y]
    keywords: dict[str, Any] = {}
    if trees is lightgbm:
        import lightgbm as library

        keywords["callbacks"] = [library.early_stopping(3, verbose=False)]
        estimator = trees(n_estimators=300, learning_rate=0.3)
    else:
        keywords["verbose"] = False
        estimator = trees(n_estimators=300, early_stopping_rounds=3)
    metric = wl.ground.Ordinal(labels=NAMES.tolist())
    model = WassersteinBoostingClassifier(estimator, metric)
    model.fit(X[:300], names[:300], eval_set=[(X[300:], names[300:])], **keywords)
    fitted = model.estimator_
    (results,) = (fitted.evals_result_ if trees is lightgbm else fitted.evals_result()).values()
    assert list(results) == ["wasserstein"]
    judged = np.array(results["wasserstein"])
    best = fitted.best_iteration_ - 1 if trees is lightgbm else fitted.best_iteration
    assert best == judged.argmin()
    assert len(judged) < 300
    loss_fn = wl.WassersteinLoss(METRIC)
    p = torch.from_numpy(model.predict_proba(X[300:])[:, np.argsort(np.argsort(NAMES))])
    value = float(loss_fn(p.log(), torch.from_numpy(Y[300:])))
    assert value == pytest.approx(judged.min(), rel=1e-4)


@both
def test_weights_and_class_weights(trees: Callable[..., Any]) -> None:
    weight = np.where(Y == 3, 5.0, 1.0)
    weighted = WassersteinBoostingClassifier(trees(), METRIC).fit(X, Y, sample_weight=weight)
    plain = WassersteinBoostingClassifier(trees(), METRIC).fit(X, Y)
    assert weighted.predict_proba(NEW)[:, 3].mean() > plain.predict_proba(NEW)[:, 3].mean()
    if trees is lightgbm:
        names = wl.ground.Ordinal(labels=NAMES.tolist())
        by_class = WassersteinBoostingClassifier(trees(class_weight={"great": 5.0}), names)
        p = by_class.fit(X, NAMES[Y]).predict_proba(NEW)
        np.testing.assert_allclose(p, weighted.predict_proba(NEW)[:, np.argsort(NAMES)])


@both
def test_frames_with_categories_and_gaps(trees: Callable[..., Any]) -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("abc"))
    frame["kind"] = pd.Categorical(np.array(["u", "v", "w", "x"])[(Y + 2) % 4])
    frame.loc[::7, "b"] = np.nan
    estimator = trees() if trees is lightgbm else trees(enable_categorical=True)
    model = WassersteinBoostingClassifier(estimator, "ordinal").fit(frame, Y)
    assert model.score(frame, Y) == 1
    assert model.feature_names_in_.tolist() == ["a", "b", "c", "kind"]
    assert len(model.estimator_.feature_importances_) == 4
    with pytest.raises(ValueError, match="feature names"):
        model.predict(frame[["b", "a", "c", "kind"]])


@both
def test_clones_pickles_and_least_cost(trees: Callable[..., Any]) -> None:
    model = clone(WassersteinBoostingClassifier(trees(), METRIC)).fit(X, Y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict_proba(NEW), model.predict_proba(NEW))
    assert model.get_params()["estimator__n_estimators"] == 30
    decided = wl.LeastCostClassifier(model, METRIC, cv=2).fit(X, Y)
    assert np.abs(decided.predict(NEW) - TRUTH).mean() < 0.6


def test_bad_input_is_named() -> None:
    with pytest.raises(TypeError, match=r"estimator must be .*LGBMClassifier .* RandomForest"):
        WassersteinBoostingClassifier(RandomForestClassifier()).fit(X, Y)
    model = WassersteinBoostingClassifier(lightgbm(), METRIC)
    with pytest.raises(ValueError, match=r"y must hold the classes 0, 1, 2, 3, got 6"):
        model.fit(X, Y, eval_set=[(X, Y * 3)])
    with pytest.raises(ValueError, match=r"eval_X and eval_y must be given as eval_set"):
        model.fit(X, Y, eval_X=X, eval_y=Y)
    with pytest.raises(ValueError, match="y must hold a class id per row"):
        model.fit(X, np.eye(K)[Y])
    with pytest.raises(ValueError, match="sample_weight must be finite"):
        model.fit(X, Y, sample_weight=-np.ones(len(Y)))
    with pytest.raises(ValueError, match="kl_weight must be"):
        WassersteinBoostingClassifier(lightgbm(), METRIC, kl_weight=-1).fit(X, Y)
