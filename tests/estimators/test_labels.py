"""How classes are matched with labels of the metric."""

from functools import partial
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import BaggingClassifier, StackingClassifier, VotingClassifier
from sklearn.model_selection import GridSearchCV, KFold, cross_val_predict, cross_validate

import wassloss as wl
from wassloss.estimators.labels import labels_of_classes

X = np.random.default_rng(0).normal(size=(30, 2)) + np.arange(30)[:, None] // 10
NAMES = np.repeat(["low", "middle", "high"], 10)
SCALE = wl.ground.Ordinal([0, 1, 10, 11], labels=["none", "low", "middle", "high"])


def fitted(metric: Any, y: Any, **keywords: Any) -> wl.WassersteinClassifier:
    return wl.WassersteinClassifier(metric, **keywords).fit(X, y)


@pytest.mark.parametrize("kind", ["U", object])
def test_classes_are_matched_by_name_and_one_may_be_missing(kind: Any) -> None:
    estimator = fitted(SCALE, NAMES.astype(kind))
    assert estimator.classes_.tolist() == ["high", "low", "middle", "none"]
    assert estimator.classes_.dtype.kind == np.dtype(kind).kind
    p = estimator.predict_proba(X)
    assert p.shape == (30, 4)
    assert p[:, 3].max() < 0.3  # a class without examples has low probability
    assert estimator.score(X, NAMES) > 0.5
    answers = set(estimator.set_params(decision="least_cost").predict(X))
    assert answers <= set(SCALE.labels)


def test_the_order_of_a_metric_with_names_does_not_matter() -> None:
    order = [2, 0, 3, 1]
    other = wl.ground.Ordinal(SCALE.positions[order], labels=[SCALE.labels[i] for i in order])
    one, same = fitted(SCALE, NAMES), fitted(other, NAMES)
    p = one.predict_proba(X)
    np.testing.assert_allclose(p, same.predict_proba(X), atol=1e-5)
    clear = np.diff(np.sort(p, axis=1)[:, -2:], axis=1)[:, 0] > 1e-4
    np.testing.assert_array_equal(one.predict(X)[clear], same.predict(X)[clear])
    assert clear.mean() > 0.9


def test_integers_in_range_are_numbers_of_labels() -> None:
    ids = np.repeat([0, 1, 3], 10)
    estimator = fitted(wl.ground.Ordinal(5), ids)
    assert estimator.classes_.tolist() == [0, 1, 2, 3, 4]
    assert estimator.predict(X).dtype == ids.dtype


@pytest.mark.parametrize("kind", [np.int8, np.uint64, np.float64, bool])
def test_label_numbers_of_any_type(kind: Any) -> None:
    ids = np.repeat([0, 1, 1], 10).astype(kind)
    estimator = fitted(wl.ground.Ordinal(2), ids)
    assert estimator.classes_.tolist() == [0, 1]
    assert estimator.predict(X).dtype == ids.dtype


def test_label_numbers_of_a_narrow_type_leave_room_for_all_labels() -> None:
    ids = np.repeat([0, 1, 100], 10).astype(np.int8)
    classes = fitted(wl.ground.Ordinal(300), ids).classes_
    assert classes.tolist() == list(range(300))


UNEVEN = wl.ground.Ordinal([0, 1, 3, 9, 20])


@pytest.mark.parametrize(
    "classes",
    [
        *([1, 2, 3, 4, 5], [1, 2, 3, 4], [2, 3, 4, 5], [1, 3], [1, 5], [3, 4], [4, 5]),
        *([10, 20, 30, 40, 50], [-1, 0], [0, 1, 5], [1.0, 2.0], [True, False]),
        *(["a", "b", "c", "d", "e"], ["a", "b"], ["0", "1"]),
    ],
)
def test_classes_of_a_metric_without_names_are_never_guessed(classes: list[Any]) -> None:
    """For any subset of the classes: if all of them work, a subset must work in the same way."""
    y = np.resize(np.array(classes), 30)
    message = r"y must hold label numbers.*0\.\.4.*classes=\[\.\.\.\].*labels="
    with pytest.raises(ValueError, match=message):
        fitted(UNEVEN, y)


def test_numbers_of_labels_that_are_positions_of_others_are_never_guessed() -> None:
    """A subset of the classes 0, 1, 3, 9, 20 must not be taken for label ids."""
    line = wl.ground.Ordinal([0, 1, 3, 9, 20])
    with pytest.raises(ValueError, match="could hold label numbers or positions"):
        labels_of_classes(np.array([0, 1, 3]), line, None)
    for classes in ([0, 1], [0, 1, 2], [0, 1, 2, 3, 4]):
        assert labels_of_classes(np.array(classes), line, None).classes.tolist() == [*range(5)]


def test_a_class_is_the_same_label_in_every_fold() -> None:
    rng = np.random.default_rng(0)
    y = rng.integers(0, 4, 60)
    y[7] = 4  # a class with one example
    X = y[:, None] + 0.3 * rng.normal(size=(60, 2))
    names = np.array(["one", "two", "three", "four", "five"])
    settings = {
        "ids": (UNEVEN, y, {}),
        "from one": (UNEVEN, y + 1, {"classes": [1, 2, 3, 4, 5]}),
        "named": (wl.ground.Ordinal([0, 1, 3, 9, 20], labels=names), names[y], {}),
        "matrix": (UNEVEN.distance().numpy(), names[y], {"classes": names}),
    }
    for metric, target, keywords in settings.values():
        model = wl.WassersteinClassifier(metric, **keywords)
        found = cross_validate(
            model, X, target, cv=KFold(5), return_estimator=True, error_score="raise"
        )
        whole = model.fit(X, target)
        assert min(len(np.unique(target[rows])) for rows, _ in KFold(5).split(X)) == 4
        for fold in found["estimator"]:
            assert fold.classes_.tolist() == whole.classes_.tolist()
            assert fold._labels.places.tolist() == whole._labels.places.tolist()
            assert fold.predict_proba(X).shape == (60, 5)
        assert found["test_score"].mean() > 0.6
        grid = GridSearchCV(model, {"kl_weight": [0.1, 1.0]}, cv=KFold(2), error_score="raise")
        assert grid.fit(X, target).best_score_ > 0.6

    guess = wl.WassersteinClassifier(UNEVEN)
    with pytest.raises(ValueError, match=r"classes=\[\.\.\.\]"):
        cross_validate(guess, X, y + 1, cv=KFold(5), error_score="raise")
    for rows, _ in KFold(5).split(X):
        with pytest.raises(ValueError, match=r"classes=\[\.\.\.\]"):
            guess.fit(X[rows], y[rows] + 1)


def test_values_are_as_far_apart_in_every_fold() -> None:
    values = np.array([1, 2, 4, 10, 21])
    y = np.resize(np.arange(4), 60)
    y[7] = 4
    X = values[y, None] + 0.1 * np.random.default_rng(0).normal(size=(60, 2))
    found = cross_validate(
        wl.WassersteinClassifier("ordinal"), X, values[y], cv=KFold(5), return_estimator=True
    )
    sizes = set()
    for fold in found["estimator"]:
        expected = np.abs(fold.classes_[:, None] - fold.classes_)
        np.testing.assert_allclose(fold.metric_.distance(), expected)
        sizes.add(len(fold.classes_))
    assert sizes == {4, 5}


BIG = 2**53


@pytest.mark.parametrize(
    "classes",
    [
        np.array([BIG - 4, BIG - 3, BIG - 1]),
        np.array([BIG, BIG + 1, BIG + 3]),
        np.array([1e300, 2e300, 3e300]),
        np.array([253, 254, 255], dtype=np.uint8),
        np.array([-128, 0, 127], dtype=np.int8),
        np.array([-(2**63), 0, 2**63 - 1]),
    ],
    ids=str,
)
def test_distances_of_large_values_are_exact(classes: Any) -> None:
    for keywords in ({}, {"classes": classes[::-1]}):
        labels = labels_of_classes(classes, "ordinal", keywords.get("classes"))
        assert labels.classes.tolist() == classes.tolist()
        first, second = np.triu_indices(3, 1)
        for i, j in zip(first, second, strict=True):
            expected = abs(int(classes[j]) - int(classes[i]))
            own, other = labels.places[i], labels.places[j]
            assert float(labels.metric.cost_between(own, other)) == float(expected)
        np.testing.assert_array_equal(
            labels.places_of(classes[[2, 0, 1]]), labels.places[[2, 0, 1]]
        )


@pytest.mark.parametrize(
    "classes",
    [
        np.array([-(2**63), 2**63 - 2, 2**63 - 1]),
        np.array([-1.7e308, 0.0, 1.7e308]),
    ],
    ids=str,
)
def test_values_that_coincide_or_are_too_far_apart_are_refused(classes: Any) -> None:
    with pytest.raises(ValueError, match=r"distinct in float64"):
        labels_of_classes(classes, "ordinal", None)


def test_booleans_are_in_order() -> None:
    y = np.repeat([False, True, True], 10)
    assert fitted("ordinal", y).metric_.positions.tolist() == [0, 1]
    assert fitted(None, y).predict(X).dtype == bool


def test_labels_of_one_type_are_found_among_classes_of_another() -> None:
    signed, unsigned = np.array([BIG, BIG + 1]), np.array([BIG + 1, BIG], dtype=np.uint64)
    labels = labels_of_classes(signed, None, None)
    assert labels.places_of(unsigned).tolist() == [1, 0]


def test_classes_say_which_label_is_which() -> None:
    estimator = fitted(wl.ground.Ordinal(4), NAMES, classes=["low", "middle", "high", "top"])
    assert estimator.classes_.tolist() == ["high", "low", "middle", "top"]
    named = wl.ground.Ordinal(4, labels=["low", "middle", "high", "top"])
    np.testing.assert_allclose(
        estimator.predict_proba(X), fitted(named, NAMES).predict_proba(X), rtol=1e-7
    )
    with pytest.raises(ValueError, match="y must hold classes 'low', 'middle', got 'high'"):
        fitted(wl.ground.Ordinal(2), NAMES, classes=["low", "middle"])
    with pytest.raises(ValueError, match=r"classes must have 5 classes, .* got 4"):
        fitted(wl.ground.Ordinal(5), NAMES, classes=["low", "middle", "high", "top"])
    with pytest.raises(ValueError, match="classes must be distinct"):
        fitted(wl.ground.Ordinal(2), NAMES, classes=["low", "low"])


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ValueError, match=r"y must hold the ground metric's labels .* got 'giant'"):
        fitted(SCALE, np.repeat(["low", "giant"], 15))


def test_ids_with_a_metric_of_names_are_refused_rather_than_guessed() -> None:
    with pytest.raises(ValueError, match=r"y must hold names.*np.array\(metric.labels\)\[ids\]"):
        fitted(SCALE, np.repeat([0, 1, 2], 10))


ENSEMBLES: dict[str, Any] = {
    "bagging": lambda one: BaggingClassifier(one, n_estimators=2, random_state=0).fit,
    "voting": lambda one: VotingClassifier([("one", one)]).fit,
    "stacking": lambda one: StackingClassifier([("one", one)], cv=2).fit,
    "probabilities": lambda one: partial(cross_val_predict, one, method="predict_proba", cv=2),
}


@pytest.mark.parametrize("ensemble", ENSEMBLES)
@pytest.mark.parametrize(
    ("metric", "classes", "y"),
    [
        ("ordinal", ["low", "middle", "high"], NAMES),
        (wl.ground.Ordinal(3), ["low", "middle", "high"], NAMES),
        (SCALE, None, NAMES),
        ("ordinal", [1, 2, 10], np.repeat([1, 2, 10], 10)),
    ],
)
def test_ensembles_that_number_classes_are_refused_and_told_the_way_out(
    ensemble: str, metric: Any, classes: Any, y: Any
) -> None:
    one = wl.WassersteinClassifier(metric, classes=classes)
    one.fit(X, y)
    with pytest.raises(ValueError, match=r"number classes in sorted order .* classes=range\(K\)"):
        ENSEMBLES[ensemble](one)(X, y)


@pytest.mark.parametrize("ensemble", ENSEMBLES)
def test_the_way_out_keeps_the_order_and_the_distances(ensemble: str) -> None:
    ids, metric = np.repeat([0, 1, 2], 10), wl.ground.Ordinal([0, 1, 10])
    one = wl.WassersteinClassifier(metric, classes=range(3))
    found = ENSEMBLES[ensemble](one)(X, ids)
    if ensemble == "probabilities":
        assert found.shape == (30, 3)
        return
    fitted = found.estimators_[0]
    assert fitted.metric_.positions.tolist() == [0, 1, 10]
    assert fitted.classes_.tolist() == [0, 1, 2]


def test_the_hint_is_for_classes_that_were_numbered() -> None:
    with pytest.raises(ValueError, match=r"got 'giant'$"):
        fitted(SCALE, np.repeat(["low", "giant"], 15))


def test_ordinal_is_asked_for_and_takes_the_values() -> None:
    y = np.repeat([1, 2, 10], 10)
    assert isinstance(fitted(None, y).metric_, wl.ground.Discrete)
    assert fitted("ordinal", y).metric_.positions.tolist() == [1, 2, 10]
    with pytest.raises(ValueError, match='metric="ordinal" takes numbers as classes'):
        fitted("ordinal", NAMES)
    in_order = fitted("ordinal", NAMES, classes=["low", "middle", "high"])
    assert in_order.metric_.cost_between(0, 2) == 2


def test_columns_keep_their_order() -> None:
    indicator = np.eye(4)[np.repeat([1, 2, 3], 10)]
    estimator = fitted(SCALE, indicator)
    assert estimator.classes_.tolist() == list(SCALE.labels)
    by_name = fitted(SCALE, NAMES)
    np.testing.assert_allclose(
        estimator.predict_proba(X)[:, [3, 1, 2, 0]], by_name.predict_proba(X), rtol=1e-7
    )
    assert estimator.score(X, indicator) == pytest.approx(by_name.score(X, NAMES), abs=1 / 30)
    assert fitted(None, indicator).classes_.tolist() == [0, 1, 2, 3]
    assert fitted(None, indicator, classes=list("abcd")).classes_.tolist() == list("abcd")
    with pytest.raises(ValueError, match=r"y must have 3 columns, .* got 4"):
        fitted(wl.ground.Ordinal(3), indicator)
    with pytest.raises(ValueError, match="a column for each of 3 classes, got 4 columns"):
        fitted(None, indicator, classes=list("abc"))


def test_a_power_is_put_on_the_metric() -> None:
    assert fitted(SCALE, NAMES, power=2).metric_.power == 2
    assert fitted(SCALE.with_cost(power=3), NAMES).metric_.power == 3
