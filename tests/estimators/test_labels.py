"""Which class is which label of the metric."""

from typing import Any

import numpy as np
import pytest

import wassloss as wl

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
    assert p[:, 3].max() < 0.3  # what was never seen is hardly expected
    assert estimator.score(X, NAMES) > 0.5
    answers = set(estimator.set_params(decision="least_cost").predict(X))
    assert answers <= set(SCALE.labels)


def test_the_order_of_a_metric_with_names_does_not_matter() -> None:
    order = [2, 0, 3, 1]
    other = wl.ground.Ordinal(SCALE.positions[order], labels=[SCALE.labels[i] for i in order])
    one, same = fitted(SCALE, NAMES), fitted(other, NAMES)
    np.testing.assert_allclose(one.predict_proba(X), same.predict_proba(X), atol=1e-5)
    np.testing.assert_array_equal(one.predict(X), same.predict(X))


def test_integers_in_range_are_numbers_of_labels() -> None:
    ids = np.repeat([0, 1, 3], 10)
    estimator = fitted(wl.ground.Ordinal(5), ids)
    assert estimator.classes_.tolist() == [0, 1, 2, 3, 4]
    assert estimator.predict(X).dtype == ids.dtype


def test_other_classes_are_the_labels_in_sorted_order() -> None:
    estimator = fitted(wl.ground.Ordinal(3), np.repeat([10, 20, 30], 10))
    assert estimator.classes_.tolist() == [10, 20, 30]
    with pytest.raises(
        ValueError, match=r"4 classes, .* or ids in 0\.\.3, got the 3 classes of 10, 20"
    ):
        fitted(wl.ground.Ordinal(4), np.repeat([10, 20, 30], 10))


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
    with pytest.raises(ValueError, match="classes must differ"):
        fitted(wl.ground.Ordinal(2), NAMES, classes=["low", "low"])


def test_an_unknown_name_is_refused() -> None:
    with pytest.raises(ValueError, match=r"y must hold the ground metric's labels .* got 'giant'"):
        fitted(SCALE, np.repeat(["low", "giant"], 15))


def test_ids_with_a_metric_of_names_are_refused_rather_than_guessed() -> None:
    with pytest.raises(ValueError, match=r"y must hold names.*np.array\(metric.labels\)\[ids\]"):
        fitted(SCALE, np.repeat([0, 1, 2], 10))


def test_ordinal_is_asked_for_and_takes_the_values() -> None:
    y = np.repeat([1, 2, 10], 10)
    assert isinstance(fitted(None, y).metric_, wl.ground.Discrete)
    assert fitted("ordinal", y).metric_.positions.tolist() == [1, 2, 10]
    with pytest.raises(ValueError, match='metric="ordinal" takes numbers as classes'):
        fitted("ordinal", NAMES)
    in_order = fitted("ordinal", NAMES, classes=["low", "middle", "high"])
    assert in_order.metric_.distance_between(0, 2) == 2


def test_columns_keep_their_order() -> None:
    indicator = np.eye(4)[np.repeat([1, 2, 3], 10)]
    estimator = fitted(SCALE, indicator)
    assert estimator.classes_.tolist() == list(SCALE.labels)
    by_name = fitted(SCALE, NAMES)
    np.testing.assert_allclose(
        estimator.predict_proba(X)[:, [3, 1, 2, 0]], by_name.predict_proba(X), rtol=1e-7
    )
    assert estimator.score(X, indicator) == by_name.score(X, NAMES)
    assert fitted(None, indicator).classes_.tolist() == [0, 1, 2, 3]
    assert fitted(None, indicator, classes=list("abcd")).classes_.tolist() == list("abcd")
    with pytest.raises(ValueError, match=r"y must have 3 columns, .* got 4"):
        fitted(wl.ground.Ordinal(3), indicator)
    with pytest.raises(ValueError, match="a column for each of 3 classes, got 4 columns"):
        fitted(None, indicator, classes=list("abc"))


def test_a_power_is_put_on_the_metric() -> None:
    assert fitted(SCALE, NAMES, power=2).metric_.power == 2
    assert fitted(SCALE.with_cost(power=3), NAMES).metric_.power == 3
