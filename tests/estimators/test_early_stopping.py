"""Early stopping and unconverged solves, as users of the estimators see them."""

import re
import threading
import warnings
from typing import Any

import numpy as np
import pytest
import torch

import wassloss as wl
from tests.estimators.test_classifier import X, Y, proba
from wassloss.estimators import FitWarning
from wassloss.transport import Newton
from wassloss.transport.dispatch import unconverged_solves

STOPPING: dict[str, Any] = {"early_stopping": True, "random_state": 0}


def test_it_stops_early_and_says_so() -> None:
    fitted = wl.WassersteinClassifier("ordinal", n_iter_no_change=3, **STOPPING).fit(X, Y)
    whole = wl.WassersteinClassifier("ordinal", solver="adam", random_state=0).fit(X, Y)
    assert fitted.n_iter_ == len(fitted.validation_losses_) < whole.n_iter_
    assert fitted.best_iter_ == 1 + fitted.validation_losses_.argmin()
    assert not hasattr(whole, "validation_losses_")
    fitted.set_params(early_stopping=False).fit(X, Y)
    assert not hasattr(fitted, "best_iter_")


def test_it_is_deterministic() -> None:
    one, other = (
        wl.WassersteinClassifier("ordinal", hidden_layer_sizes=(8,), **STOPPING).fit(X, Y)
        for _ in range(2)
    )
    np.testing.assert_array_equal(proba(one), proba(other))


def test_a_perceptron_that_would_overfit_does_better() -> None:
    rng = np.random.default_rng(0)
    x, noise = rng.normal(size=(1400, 10)), rng.normal(size=1400)
    y = np.digitize(x[:, 0] + 1.5 * noise, [-1.0, 0.0, 1.0])
    how: dict[str, Any] = {"hidden_layer_sizes": (64,), "alpha": 0, "max_iter": 60}
    train, test = slice(0, 400), slice(400, None)

    def off(**changes: Any) -> float:
        model = wl.WassersteinClassifier("ordinal", random_state=0, **how, **changes)
        return float(np.abs(model.fit(x[train], y[train]).predict(x[test]) - y[test]).mean())

    assert off(early_stopping=True, validation_fraction=0.2, n_iter_no_change=5) < off()


def test_rows_held_out_are_not_trained_on() -> None:
    """With a huge fraction held out, features of the few rows left decide the scale."""
    fitted = wl.WassersteinClassifier("ordinal", validation_fraction=0.5, **STOPPING).fit(X, Y)
    assert fitted.scaler_.n_samples_seen_ == 100


@pytest.mark.parametrize("form", ["class ids", "weights", "masses", "sample_weight"])
def test_every_form_of_examples(form: str) -> None:
    y = np.eye(10)[Y] + 0.5 * np.eye(10)[(Y + 1) % 10]
    if form == "masses":
        model: Any = wl.WassersteinMeasureRegressor("ordinal", max_iter=5, **STOPPING).fit(X, y)
    elif form == "sample_weight":
        weight = np.arange(200) % 3
        model = wl.WassersteinClassifier("ordinal", max_iter=5, **STOPPING).fit(X, Y, weight)
    else:
        model = wl.WassersteinClassifier(wl.ground.Ordinal(10), max_iter=5, **STOPPING)
        model.fit(X, Y if form == "class ids" else y)
    assert len(model.validation_losses_) == 5


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"solver": "lbfgs"}, "solver must be 'auto', 'adam' or 'sgd' if early_stopping"),
        ({"n_iter_no_change": 0}, "n_iter_no_change must be at least 1, got 0"),
        ({"validation_fraction": 1.5}, "validation_fraction must be between 0 and 1, got 1.5"),
        ({"validation_fraction": "a"}, "validation_fraction must be a number, got 'a'"),
        ({"early_stopping": 1}, "early_stopping must be True or False, got 1"),
        ({"verbose": "yes"}, "verbose must be True or False, got 'yes'"),
        ({"max_steps": 0}, "max_steps must be at least 1, got 0"),
        ({"weight_decay": -1}, "weight_decay must be a finite number, at least 0, got -1"),
    ],
)
def test_bad_keywords(keywords: dict[str, Any], message: str) -> None:
    model = wl.WassersteinClassifier("ordinal", **STOPPING | keywords)
    with pytest.raises((ValueError, TypeError), match=message):
        model.fit(X, Y)


# --- solves that do not converge ------------------------------------------------------------------


@pytest.fixture
def one_iteration(monkeypatch: pytest.MonkeyPatch) -> None:
    """No solve converges."""
    monkeypatch.setattr(Newton, "max_iterations", 1)


def few_labels() -> Any:
    return (np.abs(np.arange(10) - Y[:, None]) <= 1).astype(float)


@pytest.mark.usefixtures("one_iteration")
@pytest.mark.filterwarnings("ignore:fit did not converge")
@pytest.mark.parametrize("solver", ["lbfgs", "adam"])
def test_they_are_one_warning(solver: str) -> None:
    model = wl.WassersteinClassifier("ordinal", epsilon=0.05, solver=solver, max_iter=2)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(X, few_labels())
    (warning,) = [each for each in caught if not issubclass(each.category, FitWarning)]
    assert issubclass(warning.category, wl.ConvergenceWarning)
    assert re.match(r"\d+ solves did not converge; the last warning: Sol", str(warning.message))
    assert warning.filename == __file__


@pytest.mark.usefixtures("one_iteration")
def test_they_are_counted_in_their_own_thread() -> None:
    loss_fn = wl.WassersteinLoss(wl.ground.Ordinal(10), epsilon=0.05)
    target = torch.from_numpy(few_labels() / few_labels().sum(1, keepdims=True))
    outcomes: list[str] = []

    def solve() -> None:
        try:
            loss_fn(torch.zeros(200, 10).double(), target)
        except wl.ConvergenceWarning:  # as warnings are errors here
            outcomes.append("warned")

    with unconverged_solves() as outer:
        other = threading.Thread(target=solve)
        other.start()
        other.join()
        assert outcomes == ["warned"]
        assert not outer
        with unconverged_solves() as inner:
            solve()
        assert (len(outer), len(inner)) == (0, 1)
    solve()
    assert outcomes == ["warned", "warned"]
