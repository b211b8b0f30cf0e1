"""The regressor for unnormalised measures."""

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import sparse

import wassloss as wl


def bumps(n: int, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
    """A bump on a line whose position and mass depend on the features, with noise."""
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(n, 5))
    centre, mass = 6 + 1.5 * x[:, :1], np.exp(0.4 * x[:, 1:2])
    y = mass * np.exp(-0.125 * (np.arange(12) - centre) ** 2)
    return x, y * rng.gamma(5, 1 / 5, size=y.shape)


X, Y = bumps(300, seed=0)
X_NEW, Y_NEW = bumps(1000, seed=1)


@pytest.mark.parametrize("kl_weight", [0.0, 0.5, 4.0])
def test_it_predicts_place_and_mass(kl_weight: float) -> None:
    fitted = wl.WassersteinMeasureRegressor("ordinal", kl_weight=kl_weight).fit(X, Y)
    predicted = fitted.predict(X_NEW)
    assert predicted.min() > 0
    assert fitted.score(X_NEW, Y_NEW) > 0.45
    assert predicted.sum() / Y_NEW.sum() == pytest.approx(1, abs=0.05)  # total mass is right
    place = predicted @ np.arange(12) / predicted.sum(1)
    assert np.corrcoef(place, X_NEW[:, 0])[0, 1] > 0.9


def test_the_unit_of_mass_does_not_matter() -> None:
    one = wl.WassersteinMeasureRegressor("ordinal").fit(X, Y).predict(X_NEW)
    million = wl.WassersteinMeasureRegressor("ordinal").fit(X, 1e6 * Y).predict(X_NEW)
    np.testing.assert_allclose(million, 1e6 * one, rtol=1e-3)


@pytest.mark.slow
def test_hidden_layers_help_where_the_law_is_not_linear() -> None:
    x = np.linspace(-1, 1, 200)[:, None]
    y = np.hstack([x**2, 1 - x**2]) + 0.1
    linear, deep = (
        wl.WassersteinMeasureRegressor(**keywords, random_state=0).fit(x, y).score(x, y)
        for keywords in ({}, {"hidden_layer_sizes": (32,), "alpha": 0.1})
    )
    assert linear < 0.3
    assert deep > 0.9


def test_weights_are_repeated_rows() -> None:
    weight = np.random.default_rng(0).integers(0, 3, size=len(X))
    weighted = wl.WassersteinMeasureRegressor("ordinal", tol=1e-8).fit(X, Y, weight)
    repeated = wl.WassersteinMeasureRegressor("ordinal", tol=1e-8)
    repeated.fit(X.repeat(weight, 0), Y.repeat(weight, 0))
    np.testing.assert_allclose(weighted.predict(X), repeated.predict(X), rtol=1e-4)


def test_labels_of_mass_zero_and_sparse_masses() -> None:
    thin = np.where(Y > 0.3, Y, 0)
    thin[:, 0] = 0
    thin[:, 6] += 0.1
    one = wl.WassersteinMeasureRegressor("ordinal").fit(X, thin)
    assert one.predict(X)[:, 0].mean() < 0.3
    same = wl.WassersteinMeasureRegressor("ordinal").fit(X, sparse.csr_array(thin))
    np.testing.assert_allclose(one.predict(X), same.predict(X), rtol=1e-7, atol=1e-12)


@pytest.mark.parametrize(
    ("keywords", "y", "message"),
    [
        ({}, -Y, "y must not be negative"),
        ({}, Y[:, 0], r"y must have shape \(n, labels\), got \(300,\)"),
        ({}, 0 * Y, "y must have some mass in every row, got none in row 0"),
        ({"metric": wl.ground.Ordinal(5)}, Y, "y must have 5 columns, .* got 12"),
        ({"gamma": -1.0}, Y, "gamma must be"),
        ({"epsilon": 0.0}, Y, "epsilon must be positive"),
    ],
)
def test_bad_input(keywords: dict[str, Any], y: Any, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        wl.WassersteinMeasureRegressor(**keywords).fit(X, y)
