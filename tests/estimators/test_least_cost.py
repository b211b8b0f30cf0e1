"""Any classifier that decides by cost: scikit-learn's checks, laws, labels, bad input."""

import pickle
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import sklearn
from scipy import sparse
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.ensemble import RandomForestClassifier
from sklearn.frozen import FrozenEstimator
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold, cross_val_score
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import LinearSVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import parametrize_with_checks

import wassloss as wl
from wassloss.decisions import Guarantee, Temperature, least_cost_label

NAMES = np.array(["poor", "fair", "good", "great"])  # in their order, which is no alphabet's
K = len(NAMES)


def made(rows: int = 400, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    X = rng.normal(size=(rows, 3))
    return X, np.digitize(X[:, 0] + 0.7 * rng.normal(size=rows), [-1, 0, 1])


X, Y = made()
NEW, TRUTH = made(2000, 1)
TREE = DecisionTreeClassifier(max_depth=3, random_state=0)


@parametrize_with_checks([wl.LeastCostClassifier(TREE, cv=3)])
def test_scikit_learn_checks(estimator: Any, check: Callable[[Any], None]) -> None:
    check(estimator)


def test_it_is_the_temperature_of_left_out_rows_and_the_decision_of_least_cost() -> None:
    inner, metric = GaussianNB(), wl.ground.Ordinal(K, power=2)
    model = wl.LeastCostClassifier(inner, metric, cv=3).fit(X, Y)
    left_out = np.empty((len(X), K))
    for train, held in StratifiedKFold(3).split(X, Y):
        left_out[held] = clone(inner).fit(X[train], Y[train]).predict_proba(X[held])
    scaled = Temperature().fit(left_out, Y)
    assert model.temperature_.temperature == pytest.approx(scaled.temperature)
    p = scaled(inner.fit(X, Y).predict_proba(NEW))
    np.testing.assert_allclose(model.predict_proba(NEW), p)
    np.testing.assert_array_equal(model.predict(NEW), least_cost_label(p, metric))


def test_it_makes_milder_mistakes() -> None:
    forest = RandomForestClassifier(50, min_samples_leaf=5, random_state=0)
    metric = wl.ground.Ordinal(K, power=2)
    off = [
        ((model.fit(X, Y).predict(NEW) - TRUTH) ** 2).mean()
        for model in (forest, wl.LeastCostClassifier(forest, metric))
    ]
    assert off[1] < off[0]


def test_without_calibration_probabilities_stay_and_nothing_is_left_out() -> None:
    model = wl.LeastCostClassifier(GaussianNB(), "ordinal", calibrate=False).fit(X, Y)
    np.testing.assert_array_equal(
        model.predict_proba(NEW), GaussianNB().fit(X, Y).predict_proba(NEW)
    )
    assert model.temperature_ is None
    with pytest.raises(ValueError, match="calibrate must be True"):
        model.predict_set(NEW)


@pytest.mark.parametrize("frozen", [False, True])
def test_a_fitted_estimator_stays_as_it_is(frozen: bool) -> None:
    inner = GaussianNB().fit(*made(300, 5))
    before = inner.theta_.copy()
    given = FrozenEstimator(inner) if frozen else inner
    model = wl.LeastCostClassifier(given, "ordinal", cv=5 if frozen else "prefit").fit(X, Y)
    np.testing.assert_array_equal(inner.theta_, before)
    p = inner.predict_proba(X)
    assert model.temperature_.temperature == Temperature().fit(p, Y).temperature
    promise = Guarantee(wl.ground.Ordinal(K), 0.8).fit(p, Y)
    assert model.predict_set(NEW, 0.8).tolist() == promise(inner.predict_proba(NEW)).tolist()


def test_it_abstains() -> None:
    model = wl.LeastCostClassifier(GaussianNB(), "ordinal").fit(X, Y)
    every = model.predict(NEW)
    model.set_params(abstain=0.45)
    some = model.predict(NEW)
    none = some == None  # noqa: E711
    assert 0.2 < none.mean() < 0.8
    np.testing.assert_array_equal(some[~none].astype(int), every[~none])
    off = np.abs(every - TRUTH)
    assert off[~none].mean() < off[none].mean()
    assert model.score(NEW, TRUTH) == pytest.approx(((every == TRUTH) & ~none).mean())


def test_sets_hold_the_truth() -> None:
    model = wl.LeastCostClassifier(GaussianNB(), "ordinal").fit(X, Y)
    words = model.predict_set(NEW, 0.9)
    ends = np.array([[int(word[0]), int(word[-1])] for word in words])
    inside = (ends[:, 0] <= TRUTH) & (ends[:, 1] >= TRUTH)
    assert inside.mean() > 0.87
    assert (ends[:, 0] == ends[:, 1]).mean() > 0.1
    assert len(set(model.predict_set(NEW, distance=0.5))) > 1


@pytest.mark.parametrize("listed", [False, True])
def test_names_in_an_order_that_is_not_theirs(listed: bool) -> None:
    metric = wl.ground.Ordinal(K) if listed else wl.ground.Ordinal(labels=NAMES.tolist())
    keywords: dict[str, Any] = {"classes": NAMES} if listed else {}
    model = wl.LeastCostClassifier(GaussianNB(), metric, **keywords).fit(X, NAMES[Y])
    by_number = wl.LeastCostClassifier(GaussianNB(), metric=wl.ground.Ordinal(K)).fit(X, Y)
    assert model.classes_.tolist() == sorted(NAMES)
    np.testing.assert_array_equal(model.predict(NEW), NAMES[by_number.predict(NEW)])
    np.testing.assert_allclose(
        model.predict_proba(NEW), by_number.predict_proba(NEW)[:, np.argsort(NAMES)]
    )
    sets = [f"{NAMES[int(w[0])]}..{NAMES[int(w[-1])]}" for w in by_number.predict_set(NEW)]
    found = [w if ".." in w else f"{w}..{w}" for w in model.predict_set(NEW)]
    assert found == sets
    assert model.score(NEW, NAMES[TRUTH]) == by_number.score(NEW, TRUTH)
    scorer = wl.estimators.make_scorer(wl.scores.distance_at_k)
    assert scorer(model, NEW, NAMES[TRUTH]) == pytest.approx(scorer(by_number, NEW, TRUTH))


def test_classes_that_a_fold_or_all_data_lack() -> None:
    y = np.where((Y == 3) & (np.arange(len(Y)) >= 200), 2, Y)  # none in the second half
    metric = wl.ground.Ordinal(6)
    model = wl.LeastCostClassifier(GaussianNB(), metric, cv=KFold(2)).fit(X, y)
    p = model.predict_proba(NEW)
    assert model.classes_.tolist() == list(range(6))
    np.testing.assert_allclose(p.sum(1), 1)
    assert (p[:, :4] > 0).all()
    assert (p[:, 4:] == 0).all()


def test_xgboost_with_names_and_folds_without_a_class() -> None:
    xgboost = pytest.importorskip("xgboost")
    y = np.where((Y == 1) & (np.arange(len(Y)) >= 200), 2, Y)
    metric = wl.ground.Ordinal(labels=NAMES.tolist())
    trees = xgboost.XGBClassifier(n_estimators=10, max_depth=2, n_jobs=1)
    for inner in (trees, make_pipeline(StandardScaler(), trees)):
        model = wl.LeastCostClassifier(inner, metric, cv=KFold(2)).fit(X, NAMES[y])
        p = model.temperature_(clone(inner).fit(X, y).predict_proba(NEW))
        np.testing.assert_allclose(model.predict_proba(NEW), p[:, np.argsort(NAMES)], rtol=1e-3)


def test_data_frames() -> None:
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(X, columns=list("abc"), index=range(1000, 1000 + len(X)))
    y = pd.Series(NAMES[Y], index=frame.index, dtype="category")
    pipeline = make_pipeline(StandardScaler(), LogisticRegression())
    metric = wl.ground.Ordinal(labels=NAMES.tolist())
    model = wl.LeastCostClassifier(pipeline, metric).fit(frame, y)
    assert model.feature_names_in_.tolist() == list("abc")
    plain = wl.LeastCostClassifier(pipeline, metric).fit(X, NAMES[Y])
    np.testing.assert_array_equal(model.predict(frame), plain.predict(X))
    ordered = y.cat.set_categories(NAMES, ordered=True)
    with pytest.raises(ValueError, match="y must not be ordered categories"):
        wl.LeastCostClassifier(pipeline, "ordinal").fit(frame, ordered)


def test_sparse_features_searches_and_pickles() -> None:
    X_sparse = sparse.csr_array(np.where(X > 0, X, 0))
    model = wl.LeastCostClassifier(TREE, "ordinal").fit(X_sparse, Y)
    again = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(again.predict(X_sparse), model.predict(X_sparse))
    search = GridSearchCV(
        wl.LeastCostClassifier(TREE, "ordinal"),
        {"estimator__max_depth": [1, 4]},
        scoring=wl.estimators.make_scorer(wl.scores.distance_at_k),
        cv=2,
    ).fit(X, Y)
    assert search.best_params_ == {"estimator__max_depth": 4}


def test_around_our_own_classifier() -> None:
    inner = wl.WassersteinClassifier(wl.ground.Ordinal(labels=NAMES.tolist()))
    model = wl.LeastCostClassifier(inner, inner.metric, cv=2).fit(X, NAMES[Y])
    assert (model.predict(NEW) == NAMES[TRUTH]).mean() > 0.5


def test_weights_reach_the_classifier_and_the_temperature() -> None:
    weight = np.random.default_rng(0).integers(1, 4, len(Y))
    half = np.arange(len(Y)) < 200
    model = wl.LeastCostClassifier(
        GaussianNB(), "ordinal", cv=[np.nonzero(half) + np.nonzero(~half)]
    )
    weighted = model.fit(X, Y, sample_weight=weight).predict_proba(NEW)
    rows = np.repeat(np.arange(len(Y)), weight)
    model.set_params(cv=[np.nonzero(half[rows]) + np.nonzero(~half[rows])])
    np.testing.assert_allclose(model.fit(X[rows], Y[rows]).predict_proba(NEW), weighted, rtol=1e-5)
    with pytest.raises(
        ValueError, match="sample_weight must be None, because KNeighborsClassifier"
    ):
        wl.LeastCostClassifier(KNeighborsClassifier()).fit(X, Y, sample_weight=weight)
    with pytest.raises(ValueError, match="sample_weight must be finite and not negative"):
        wl.LeastCostClassifier(GaussianNB()).fit(X, Y, sample_weight=-weight)


class Recording(ClassifierMixin, BaseEstimator):
    """Records what it is given besides the data."""

    seen: list[Any] = []  # noqa: RUF012

    def fit(self, X: Any, y: Any, tag: Any = None) -> Any:
        self.classes_ = np.unique(y)
        Recording.seen.append(None if tag is None else (len(y), np.asarray(tag).tolist()))
        return self

    def predict_proba(self, X: Any) -> Any:
        return np.full((len(X), len(self.classes_)), 1 / len(self.classes_))


@pytest.mark.parametrize("routed", [False, True])
def test_metadata_is_routed(routed: bool) -> None:
    Recording.seen.clear()
    tag = np.arange(len(Y))
    inner = Recording()
    with sklearn.config_context(enable_metadata_routing=routed):
        if routed:
            inner.set_fit_request(tag=True)
        model = wl.LeastCostClassifier(inner, "ordinal", cv=KFold(2))
        model.fit(X, Y, tag=tag)
        if routed:
            assert cross_val_score(model, X, Y, cv=2, params={"tag": tag}).shape == (2,)
    assert sorted(Recording.seen[:3]) == [
        (200, tag[:200].tolist()),
        (200, tag[200:].tolist()),
        (400, tag.tolist()),
    ]


@pytest.mark.parametrize(
    ("model", "y", "message"),
    [
        (wl.LeastCostClassifier(LinearSVC()), Y, "estimator must have predict_proba"),
        (wl.LeastCostClassifier(GaussianNB(), wl.ground.Ordinal(3)), Y, "label numbers, 0 and"),
        (wl.LeastCostClassifier(GaussianNB(), "ordinal"), NAMES[Y], "takes numbers as classes"),
        (wl.LeastCostClassifier(GaussianNB()), np.eye(K)[Y], "y must hold a class id per row"),
        (wl.LeastCostClassifier(GaussianNB()), np.where(Y > 2, np.nan, Y), "y contains NaN"),
        (wl.LeastCostClassifier(GaussianNB(), abstain=-1), Y, "abstain must be a finite number"),
        (
            wl.LeastCostClassifier(GaussianNB().fit(X, Y), cv="prefit"),
            Y + 1,
            r"y must hold classes that the estimator was fitted to, \[0, 1, 2, 3\], got 4",
        ),
    ],
)
def test_bad_input_is_named(model: Any, y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        model.fit(X, y).predict(X)


def test_a_flag_is_a_flag() -> None:
    with pytest.raises(TypeError, match="calibrate must be True or False, got 'isotonic'"):
        wl.LeastCostClassifier(GaussianNB(), calibrate="isotonic").fit(X, Y)
