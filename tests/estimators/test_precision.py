"""Features so large that they, their variance or their squares overflow."""

from typing import Any

import numpy as np
import pytest

import wassloss as wl
from wassloss.estimators import WassersteinMeasureRegressor

X = np.ones((6, 2))
X[2, 1] = 1e200
TAME = np.arange(12.0).reshape(6, 2)
Y = np.arange(6) % 5


def classifier(**keywords: Any) -> wl.WassersteinClassifier:
    return wl.WassersteinClassifier("ordinal", max_iter=5, tol=10, **keywords)


@pytest.mark.parametrize("solver", ["lbfgs", "adam"])
def test_fitting(solver: str) -> None:
    with pytest.raises(
        ValueError, match=r"a finite variance in float64, got numbers up to 1e\+200 in column 1"
    ):
        classifier(solver=solver).fit(X, Y)
    with pytest.raises(ValueError, match=r"X must .*float\d\d.*, got 1e\+200 in row 2, column 1"):
        classifier(solver=solver, standardize=False).fit(X, Y)
    masses = np.eye(5)[Y]
    with pytest.raises(ValueError, match="X must have a finite variance"):
        WassersteinMeasureRegressor(wl.ground.Ordinal(5), solver=solver, max_iter=5).fit(X, masses)


@pytest.mark.parametrize("standardize", [True, False])
def test_predicting(standardize: bool) -> None:
    """A prediction that overflows is an error, not NaN."""
    fitted = classifier(solver="adam", standardize=standardize).fit(TAME, Y)
    for predict in (fitted.predict, fitted.predict_proba, fitted.decision_function):
        with pytest.raises(
            ValueError, match=r"X.* must fit torch.float32, got .* in row 2, column 1"
        ):
            predict(X)


def test_steps_whose_squares_overflow() -> None:
    """Adam divides by the root of the mean squared gradient, which would overflow."""
    large = TAME * np.array([1.0, 1e30])
    with pytest.raises(ValueError, match=r"squares fit torch.float32, got .* in row 0, column 1"):
        classifier(solver="adam", standardize=False).fit(large, Y)
    classifier(solver="adam").fit(large, Y)
