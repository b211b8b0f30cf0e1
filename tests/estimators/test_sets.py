"""The classifier where some labels are known less precisely than others."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.model_selection import GridSearchCV, StratifiedKFold, cross_val_score

import wassloss as wl
from wassloss.ground import Ordinal, Tree

PATHS = [
    ("animal", "dog", "husky"),
    ("plant", "rose"),
    ("animal", "cat"),
    ("animal", "dog", "poodle"),
    ("plant", "oak"),
]
TREE = Tree.from_paths(PATHS)
ABOVE = {"husky": "dog", "poodle": "dog", "cat": "animal", "rose": "plant", "oak": "plant"}


def some_data(n: int = 200, coarse: float = 0.5) -> tuple[Any, Any, Any]:
    """Features, labels, and the same labels of which a part is known from their parent alone."""
    rng = np.random.default_rng(0)
    centres = rng.normal(size=(TREE.size, 4))
    label = rng.integers(TREE.size, size=n)
    X = centres[label] + 0.3 * rng.normal(size=(n, 4))
    exact = np.array(TREE.labels)[label]
    words = np.array([ABOVE[each] for each in exact])
    return X, exact, np.where(rng.random(n) < coarse, words, exact)


X, EXACT, Y = some_data()


def test_it_learns_from_coarse_labels() -> None:
    model = wl.WassersteinClassifier(TREE).fit(X, Y)
    assert model.classes_.tolist() == sorted(ABOVE)
    few = np.flatnonzero(EXACT == Y)[:10]
    poor = wl.WassersteinClassifier(TREE).fit(X[few], Y[few])
    assert model.score(X, EXACT) > max(0.9, poor.score(X, EXACT))


@pytest.mark.parametrize("hidden", [(), (8,)])
def test_small_steps(hidden: tuple[int, ...]) -> None:
    model = wl.WassersteinClassifier(
        TREE,
        solver="adam",
        hidden_layer_sizes=hidden,
        random_state=0,
        learning_rate=0.1,
        max_iter=60,
    )
    assert model.fit(X, Y).score(X, EXACT) > 0.8


def test_exact_labels_give_the_same_in_words() -> None:
    one = wl.WassersteinClassifier(TREE).fit(X, EXACT)
    paths = {path[-1]: "/".join(path) for path in PATHS}
    y = EXACT.astype(object)
    y[:50] = [paths[each] for each in y[:50]]
    other = wl.WassersteinClassifier(TREE).fit(X, y)
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-4)


def test_scores_count_any_class_of_a_set() -> None:
    model = wl.WassersteinClassifier(TREE).fit(X, Y)
    guess = model.predict(X)
    weight = np.random.default_rng(1).random(len(X))
    right = [
        g == y or ABOVE[g] == y or (y == "animal" and ABOVE[g] == "dog")
        for g, y in zip(guess, Y, strict=True)
    ]
    assert model.score(X, Y, weight) == pytest.approx(np.average(right, weights=weight))
    from wassloss.estimators import make_scorer

    target = TREE.target(Y)
    p = model.predict_proba(X)[:, np.argsort(model._labels.places)]
    for function, sign in ((wl.scores.top_k_cost, -1), (wl.scores.hierarchical_fbeta, 1)):
        found = make_scorer(function)(model, X, Y)
        assert found == pytest.approx(sign * function(p, target, TREE))
    found = make_scorer(wl.scores.negative_log_likelihood)(model, X, Y)
    assert found == pytest.approx(-wl.scores.negative_log_likelihood(p, target))


def test_searches_and_folds() -> None:
    search = GridSearchCV(wl.WassersteinClassifier(TREE), {"alpha": [1.0, 10.0]}, cv=3)
    assert search.fit(X, Y).best_score_ > 0.8
    own = wl.WassersteinClassifierCV(TREE, alphas=(1.0, 10.0), kl_weights=(0.5,), cv=3).fit(X, Y)
    assert own.best_score_ > -1
    assert own.score(X, Y) <= 0
    folds = StratifiedKFold(3).split(X, Y)
    assert cross_val_score(wl.WassersteinClassifier(TREE), X, Y, cv=list(folds)).min() > 0.8


def test_weights_are_repeated_rows() -> None:
    weight = np.random.default_rng(0).integers(0, 3, size=len(X))
    rows = np.repeat(np.arange(len(X)), weight)
    options = {"standardize": False, "tol": 1e-7}
    one = wl.WassersteinClassifier(TREE, **options).fit(X, Y, sample_weight=weight)
    other = wl.WassersteinClassifier(TREE, **options).fit(X[rows], Y[rows])
    np.testing.assert_allclose(one.predict_proba(X), other.predict_proba(X), atol=1e-4)


def intervals() -> tuple[NDArray[Any], NDArray[Any]]:
    """Grades from 1 to 5, most of them as an interval."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(150, 3))
    grades = np.clip(np.round(3 + 1.2 * X[:, 0]), 1, 5).astype(int).tolist()
    forms = [lambda g: str(g), lambda g: f"{max(1, g - 1)}..{g}", lambda g: f">={g}"]
    return X, np.array([forms[rng.integers(3)](grade) for grade in grades])


@pytest.mark.parametrize(
    "model",
    [
        wl.WassersteinClassifier(Ordinal(labels=list("12345"))),
        wl.WassersteinClassifier("ordinal", classes=list("12345")),
        wl.WassersteinClassifier(Ordinal([1, 2, 3, 4, 5]), classes=list("12345")),
    ],
    ids=["names", "listed", "both"],
)
def test_intervals(model: Any) -> None:
    X, y = intervals()
    model.fit(X, y)
    assert model.classes_.tolist() == list("12345")
    assert set(model.predict(X)) <= set("12345")
    assert model.score(X, y) > 0.8


def test_a_fitted_model_is_saved(tmp_path: Any) -> None:
    model = wl.WassersteinClassifier(TREE).fit(X, Y)
    model.save(tmp_path / "tree.model")
    again = wl.WassersteinClassifier.load(tmp_path / "tree.model")
    assert again.score(X, Y) == model.score(X, Y)


def test_what_is_refused() -> None:
    with pytest.raises(
        ValueError, match="class_weight must be None if an entry of y names several"
    ):
        wl.WassersteinClassifier(TREE, class_weight="balanced").fit(X, Y)
    wrong = Y.astype(object)
    wrong[3] = "doog"
    with pytest.raises(ValueError, match=r"y must hold the ground metric's labels .* got 'doog'"):
        wl.WassersteinClassifier(TREE).fit(X, wrong)
    with pytest.raises(ValueError, match="got '>=x'"):
        wl.WassersteinClassifier(Ordinal(labels=["a", "b"])).fit([[0.0], [1.0]], ["a", ">=x"])


def test_values_with_gradients_take_sets() -> None:
    """As L-BFGS asks for them."""
    target, loss_fn = TREE.target(Y), wl.WassersteinLoss(TREE, reduction="none")
    logits = torch.randn(len(Y), TREE.size, dtype=torch.float64, requires_grad=True)
    values, gradient = loss_fn.value_and_gradient(logits, target)
    expected = loss_fn(logits, target)
    expected.sum().backward()
    torch.testing.assert_close(values, expected.detach())
    torch.testing.assert_close(gradient, logits.grad)
