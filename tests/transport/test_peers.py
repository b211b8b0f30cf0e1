"""Problems that other libraries get wrong (see their issue trackers), against an oracle.

Only our numbers are asserted. Other libraries appear to show which quantity is meant.
"""

import math
from typing import Any

import numpy as np
import ot
import pytest
import torch

import wassloss as wl
from tests.generators import random_masses, random_metric
from tests.oracles import INF, algorithm_one, convex, derivative, linear_program
from tests.transport.one_problem import K, Masses, one_problem, ours
from wassloss.ground import Ordinal

F64 = torch.float64


@pytest.fixture
def masses() -> Masses:
    return one_problem()


def slope(h: Any, y: Any, M: Any, direction: Any, **keywords: Any) -> float:
    """The slope of our value along a direction of the prediction."""
    return derivative(lambda x: ours(x, y, M, **keywords).value.item(), h, direction, 1e-4)


@pytest.mark.parametrize("regularizer", ["plan", "product"])
def test_the_relaxed_value_and_its_gradient_are_not_nearly_zero(
    masses: Masses, regularizer: str
) -> None:
    h, y, M = masses
    keywords = {"epsilon": 0.05, "gamma": (1.0, 1.0), "regularizer": regularizer}
    solution = ours(h, 1.5 * y, M, **keywords)
    truth, _ = convex(h, 1.5 * y, M, *keywords.values())
    assert abs(truth) > 0.05
    assert solution.value.item() == pytest.approx(truth, rel=1e-6)
    for i in range(K):
        direction = np.eye(K)[i]
        # A slope of the convex solver's own value: coarse, but independent of ours.
        coarse = derivative(
            lambda x: convex(x, 1.5 * y, M, *keywords.values())[0], h, direction, 1e-3
        )
        assert solution.gradient()[0, i].item() == pytest.approx(coarse, rel=1e-3, abs=1e-3)
    assert solution.gradient().abs().max() > 0.05


@pytest.mark.parametrize("regularizer", ["plan", "product"])
def test_each_regulariser_has_its_own_gradient(masses: Masses, regularizer: str) -> None:
    h, y, M = masses
    gradients = {
        kind: ours(h, y, M, epsilon=0.5, regularizer=kind).gradient()[0].numpy()
        for kind in ("plan", "product")
    }
    other = "product" if regularizer == "plan" else "plan"
    direction = np.zeros(K)
    direction[[h.argmax(), h.argmin()]] = 1.0, -1.0
    truth = slope(h, y, M, direction, epsilon=0.5, regularizer=regularizer)
    assert gradients[regularizer] @ direction == pytest.approx(truth, rel=1e-6)
    # They differ by ε log h (test_conventions.py), which is not small.
    assert abs(gradients[other] @ direction - truth) > 0.1


def test_an_exact_batch_is_exact() -> None:
    h, y = random_masses(8, 7, seed=1), random_masses(8, 7, seed=2)
    M = random_metric(7).cost()
    values = wl.solve(h, y, M).value
    for b in range(8):
        truth = linear_program(h[b].numpy(), y[b].numpy(), M.numpy())
        assert values[b].item() == pytest.approx(truth, abs=1e-7)
        assert values[b].item() == pytest.approx(
            ot.emd2(h[b].numpy(), y[b].numpy(), M.numpy()), rel=1e-12
        )


@pytest.mark.parametrize("dtype", [torch.float32, F64])
@pytest.mark.parametrize("epsilon", [1e-2, 1e-3, 1e-4])
def test_one_hot_at_small_epsilon_is_the_expected_cost(epsilon: float, dtype: torch.dtype) -> None:
    h, M = random_masses(1, K, seed=1).to(dtype), random_metric(K).cost().to(dtype)
    closed = (h[0] * M[2]).sum().item()
    assert closed > 0.1
    for target in (
        torch.tensor([2]),
        torch.eye(K, dtype=dtype)[[2]],
        wl.SparseTarget(torch.tensor([[2, 0]]), torch.tensor([[1.0, 0.0]], dtype=dtype)),  # Newton
    ):
        value = wl.solve(h, target, M, epsilon=epsilon, regularizer="product").value.item()
        assert value == pytest.approx(closed, rel=1e-6 if dtype == torch.float32 else 1e-11)


@pytest.mark.parametrize("gamma", [(0.3, 0.3), (0.3, 2.0), (INF, 0.3), (0.3, INF)])
@pytest.mark.parametrize("regularizer", ["plan", "product"])
def test_the_relaxed_gradient_has_all_its_terms(
    masses: Masses, gamma: tuple[float, float], regularizer: str
) -> None:
    # Without the reference's dependence on h the gradient would lack ε (1 − e^{−f/γ}), or half of
    # it if self-transport is subtracted: 17 % of the whole in one library.
    h, y, M = masses
    keywords = {"epsilon": 0.4, "gamma": gamma, "regularizer": regularizer}
    gradient = ours(h, 2 * y, M, **keywords).gradient()[0]
    for i in range(K):
        truth = slope(h, 2 * y, M, np.eye(K)[i], **keywords)
        assert gradient[i].item() == pytest.approx(truth, rel=1e-6, abs=1e-8)


@pytest.mark.parametrize("epsilon", [0.1, 0.01])
def test_the_balanced_gradient_is_right_at_the_default_tolerance(
    masses: Masses, epsilon: float
) -> None:
    h, y, M = masses
    solution = wl.solve(
        *(torch.from_numpy(x[None]) for x in (h, y)), torch.from_numpy(M), epsilon=epsilon
    )
    assert solution.n_iterations.item() < 50
    for i in range(1, K):
        direction = np.eye(K)[i] - np.eye(K)[0]
        truth = slope(h, y, M, direction, epsilon=epsilon)
        assert (solution.gradient()[0].numpy() @ direction) == pytest.approx(truth, rel=1e-6)


def test_the_gradient_is_centred_by_the_mean_of_log_u(masses: Masses) -> None:
    h, y, M = masses
    lam = 5.0
    u, _, gradient = algorithm_one(h, y, M, lam, 500)
    solution = ours(h, y, M, epsilon=1 / lam)
    np.testing.assert_allclose(solution.gradient()[0].numpy(), gradient, atol=1e-10)
    assert solution.gradient().sum().item() == pytest.approx(0.0, abs=1e-12)
    # Two published versions add log(Σ u)/(λK) instead, which is neither centred nor equal.
    wrong = np.log(u) / lam + math.log(u.sum()) / (lam * K)
    assert np.abs(wrong - gradient).max() > 1e-2


def test_the_gradient_is_that_of_the_value(masses: Masses) -> None:
    # The authors' layer returns <T, M> with the gradient of <T, M> − ε H(T).
    h, y, M = masses
    solution = ours(h, y, M, epsilon=0.3)
    T = solution.plan()[0].numpy()
    entropic = float((T * M).sum() + 0.3 * (T * np.log(T)).sum())
    assert solution.value.item() == pytest.approx(entropic, rel=1e-10)
    assert abs(entropic - (T * M).sum()) > 0.1
    direction = np.eye(K)[1] - np.eye(K)[4]
    truth = slope(h, y, M, direction, epsilon=0.3)
    assert solution.gradient()[0].numpy() @ direction == pytest.approx(truth, rel=1e-6)


def test_a_prediction_with_zeros_has_a_gradient_to_learn_from() -> None:
    h = torch.tensor([[0.5, 0.5, 0.0, 0.0]], dtype=F64)
    y = torch.tensor([[0.0, 0.0, 0.5, 0.5]], dtype=F64)
    for keywords in ({"epsilon": 0.0}, {"epsilon": 0.01, "regularizer": "product"}):
        gradient = wl.solve(h, y, Ordinal(4), **keywords).gradient()[0]
        assert gradient.isfinite().all()
        # The nearer mass is to the target the better, also at labels without mass.
        assert (gradient.diff() < 0).all()
