"""The paper's recipe against a transcription of its Algorithms 1 and 2 in NumPy."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from sklearn.base import clone

import wassloss as wl

LABELS, FEATURES, LAMBDA = 6, 4, 50
Array = NDArray[np.float64]


def data(rows: int = 100) -> tuple[Array, Array]:
    """Features, and normalised tags of which every example has one to three."""
    rng = np.random.default_rng(0)
    x = rng.normal(3.0, 2.0, size=(rows, FEATURES))
    first = rng.integers(LABELS, size=(rows, 1))
    y = np.zeros((rows, LABELS))
    np.put_along_axis(y, (first + np.arange(3)) % LABELS, rng.random((rows, 3)) < 0.6, axis=1)
    np.put_along_axis(y, first, 1.0, axis=1)
    return x, y / y.sum(1, keepdims=True)


def vectors() -> Array:
    points = np.random.default_rng(1).normal(size=(LABELS, 3))
    unit: Array = points / np.linalg.norm(points, axis=1, keepdims=True)
    return unit


def subgradient(h: Array, y: Array, cost: Array) -> Array:
    """Algorithm 1 for one normalised example, as it is printed."""
    kernel = np.exp(-LAMBDA * cost - 1)
    u = np.ones(LABELS)
    for _ in range(10):
        u = h / (kernel @ (y / (kernel.T @ u)))
    slope: Array = np.log(u) / LAMBDA - np.log(u).sum() / (LAMBDA * LABELS)
    return slope


def algorithm_two(
    theta: Array, x: Array, y: Array, cost: Array, kl_weight: float, steps: int, rate: float
) -> Array:
    """Gradient steps with momentum on `W + α KL + 0.0005 Σ‖θ‖²`, all examples in the batch."""
    velocity = np.zeros_like(theta)
    for _ in range(steps):
        scores = x @ theta.T
        h = np.exp(scores - scores.max(1, keepdims=True))
        h /= h.sum(1, keepdims=True)
        slopes = np.stack([subgradient(*pair, cost) for pair in zip(h, y, strict=True)])
        through_softmax = h * (slopes - (h * slopes).sum(1, keepdims=True))
        logits = through_softmax + kl_weight * (h - y)
        gradient = logits.T @ x / len(x) + 2 * 0.0005 * theta
        velocity = 0.7 * velocity + gradient
        theta = theta - rate * velocity
    return theta


def fitted(kl_weight: float, x: Array, y: Array, **parameters: Any) -> Array:
    metric = wl.ground.Embedding(vectors(), power=2)
    model = wl.WassersteinClassifier.as_in_paper(
        metric, kl_weight=kl_weight, random_state=0, **parameters
    )
    return np.asarray(model.fit(x, y).coef_)


@pytest.mark.parametrize("kl_weight", [0.0, 0.5])
def test_a_few_steps(kl_weight: float) -> None:
    x, y = data()
    difference = vectors()[:, None] - vectors()
    cost = (difference**2).sum(2)
    start = fitted(kl_weight, x, y, max_steps=1, learning_rate=1e-30)
    assert 0.1 < np.abs(start).max() < 1 / np.sqrt(FEATURES)  # random, as torch draws it
    expected = algorithm_two(start, x, y, cost, kl_weight, steps=5, rate=0.2)
    assert np.abs(expected - start).max() > 0.05
    found = fitted(kl_weight, x, y, max_steps=5, learning_rate=0.2)
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_the_parameters_are_the_paper_s() -> None:
    params = wl.WassersteinClassifier.as_in_paper("ordinal").get_params()
    assert params["epsilon"] == 1 / 50
    assert params["weight_decay"] == 2 * 0.0005
    assert (params["batch_size"], params["momentum"], params["max_steps"]) == (100, 0.7, 100_000)
    assert params["schedule"] == "constant"
    assert (params["solver"], params["init"], params["scaling_iterations"]) == ("sgd", "random", 10)
    assert not (params["standardize"])
    assert not (params["fit_intercept"])
    assert not (params["normalize_cost"])


def test_they_survive_clone_and_save(tmp_path: Path) -> None:
    pytest.importorskip("safetensors")
    x, y = data()
    model = wl.WassersteinClassifier.as_in_paper(
        wl.ground.Ordinal(LABELS), max_steps=20, random_state=0, decision="least_cost"
    )
    first = model.fit(x, y).predict_proba(x)
    np.testing.assert_array_equal(clone(model).fit(x, y).predict_proba(x), first)
    model.save(tmp_path / "model.safetensors")
    loaded = wl.WassersteinClassifier.load(tmp_path / "model.safetensors")
    np.testing.assert_array_equal(loaded.predict_proba(x), first)
    np.testing.assert_array_equal(loaded.fit(x, y).predict_proba(x), first)
    np.testing.assert_array_equal(loaded.intercept_, 0)


def test_a_keyword_takes_the_place_of_the_recipe() -> None:
    model = wl.WassersteinClassifier.as_in_paper("ordinal", batch_size=50, standardize=True)
    assert model.batch_size == 50
    assert model.standardize


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"init": "ones"}, "init must be 'zeros' or 'random', got 'ones'"),
        ({"fit_intercept": 0}, "fit_intercept must be True or False, got 0"),
        ({"hidden_layer_sizes": (3,)}, "fit_intercept must be True if there are hidden layers"),
        ({"scaling_iterations": 0}, "scaling_iterations must be at least 1, got 0"),
        ({"normalize_cost": "no"}, "normalize_cost must be True or False, got 'no'"),
    ],
)
def test_bad_keywords(keywords: dict[str, Any], message: str) -> None:
    model = wl.WassersteinClassifier.as_in_paper("ordinal", max_steps=1, **keywords)
    with pytest.raises((ValueError, TypeError), match=message):
        model.fit(*data())
