"""Full-batch L-BFGS: finite differences, the optimum of scikit-learn, the limit of small steps."""

import math
from typing import Any

import numpy as np
import pytest
import torch
from scipy import sparse
from scipy.optimize import approx_fprime
from sklearn.linear_model import LogisticRegression

import wassloss as wl
from tests.problems import LABELS, grades, linear, perceptron, same, tags
from wassloss.estimators import DivergedError
from wassloss.estimators.lbfgs import Convergence, _LinearObjective, _Objective, fit_at_once
from wassloss.estimators.objective import Examples, MeanLoss
from wassloss.estimators.sparse_rows import SparseRows


def mean_loss(size: float = 1.2, **keywords: Any) -> MeanLoss:
    keywords = {"kl_weight": 0.2, "reduction": "none"} | keywords
    return MeanLoss(wl.WassersteinLoss(wl.ground.Ordinal(LABELS, power=2), **keywords), size)


def class_ids(count: int = 60) -> Examples:
    x, y = grades(count)
    return Examples(x.double(), y, torch.linspace(0.5, 1.5, count, dtype=torch.float64))


def several_labels() -> Examples:
    x, y = tags(60)
    return Examples(x.double(), y.to(torch.float64))


def sparse_features() -> Examples:
    x, y = grades(60)
    matrix = sparse.csr_array(x.double().relu().numpy())
    return Examples(SparseRows(matrix, torch.linspace(0, 1, 6).double()), y)


def fit(model: Any, examples: Examples, **changes: Any) -> Convergence:
    how = {"weight_decay": 0.02, "tol": 1e-5, "max_iterations": 1000} | changes
    return fit_at_once(model.double(), mean_loss(), examples, **how)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("examples", [class_ids, several_labels, sparse_features])
def test_gradients_are_finite_differences(examples: Any, bias: bool) -> None:
    torch.manual_seed(0)
    model = wl.models.Linear(6, LABELS, bias).double()
    slow, quick = (
        kind(model, mean_loss(tol=1e-12), examples(), 0.1)
        for kind in (_Objective, _LinearObjective)
    )
    for objective in (slow, quick):
        _, gradient = objective(objective.start())
        expected = approx_fprime(objective.at, lambda theta, f=objective: f(theta)[0], 1e-6)
        np.testing.assert_allclose(gradient, expected, atol=1e-6)
    assert quick(quick.start())[0] == pytest.approx(slow(slow.start())[0], rel=1e-12)
    assert quick.largest == pytest.approx(slow.largest, rel=1e-9)
    before = [parameter.clone() for parameter in model.parameters()]
    quick.finish()
    torch.testing.assert_close(list(model.parameters()), before, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("decay", [0.001, 0.1])
def test_cross_entropy_reaches_the_optimum_of_scikit_learn(decay: float) -> None:
    x, y = grades()
    loss, model = mean_loss(1.0, transport_weight=0, kl_weight=1), linear().double()
    options = {"weight_decay": decay, "tol": 1e-8, "max_iterations": 1000}
    report = fit_at_once(model, loss, Examples(x.double(), y), **options)
    # C Σ loss + ½‖w‖² is the mean loss + ½ decay ‖w‖², where C = 1 / (n decay)
    other = LogisticRegression(C=1 / (decay * len(x)), tol=1e-8, max_iter=10_000)
    other.fit(x.double().numpy(), y.numpy())
    assert report.converged
    assert report.gradient < 1e-7
    np.testing.assert_allclose(model.linear.weight.detach(), other.coef_, atol=1e-4)
    probabilities = model(x.double()).softmax(1).detach()
    np.testing.assert_allclose(probabilities, other.predict_proba(x.double().numpy()), atol=1e-5)


def test_it_is_deterministic_and_reports() -> None:
    one, other = linear(), linear()
    report = fit(one, several_labels())
    assert report == fit(other, several_labels())
    assert same(one, other)
    penalty = 0.01 * one.linear.weight.square().sum().item()
    examples = several_labels()
    loss = mean_loss()(one(examples.features), examples).item()
    assert report.objective == pytest.approx(loss + penalty, rel=1e-9)


def test_features_that_go_together_take_no_more_iterations() -> None:
    x, y = grades()
    together = x.double() @ torch.linspace(0.1, 1, 6).double().diag() + 20 * x[:, :1].double()
    apart = fit(linear(), Examples(x.double(), y), weight_decay=0.0)
    found = fit(linear(), Examples(together, y), weight_decay=0.0)
    assert found.converged
    assert found.iterations <= 2 * apart.iterations
    # The penalty apart, both see the same problem.
    assert found.objective == pytest.approx(apart.objective, rel=1e-4)


def test_features_that_repeat_one_another_or_are_constant() -> None:
    x, y = grades()
    x = torch.cat([x, x[:, :2], torch.zeros(len(x), 1)], 1).double()
    model = wl.models.Linear(9, LABELS)
    report = fit(model, Examples(x, y), weight_decay=0.0)
    assert report.converged
    assert all(parameter.isfinite().all() for parameter in model.parameters())


def test_giving_up() -> None:
    report = fit(linear(), several_labels(), max_iterations=2)
    assert not report.converged
    assert report.iterations == 2
    assert report.gradient > 1e-5


@pytest.mark.parametrize("make", [linear, perceptron])
def test_outputs_that_overflow(make: Any) -> None:
    x, y = grades()
    x[3, 2] = math.inf
    with pytest.raises(DivergedError, match="output is not finite; look for extreme values"):
        fit(make(), Examples(x.double(), y))
