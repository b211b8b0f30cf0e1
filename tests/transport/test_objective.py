"""The terms in which objectives differ: marginal terms and their derivatives."""

import math

import numpy as np
import pytest
import torch

import wassloss as wl
from tests.generators import OBJECTIVE_NAMES, OBJECTIVES, is_finite, random_masses, random_metric
from tests.oracles import INF
from wassloss.transport.objective import Objective, Regularizer

F64 = torch.float64


def tensor(*values: float, dtype: torch.dtype = F64) -> torch.Tensor:
    return torch.tensor([values], dtype=dtype)


# Laws and limits


def test_exact_and_balanced_are_limits_of_the_strengths() -> None:
    assert Objective(0.0).exact
    assert Objective(0.0).balanced
    assert not Objective(0.1).exact
    assert not Objective(0.1, (INF, 1.0)).balanced
    assert not Objective(0.1, (1.0, INF)).balanced


def test_mass_term_tends_to_mass_times_potential() -> None:
    log_mass, potential = tensor(0.0, -1.0, -2.0), tensor(0.7, -3.0, 20.0)
    limit = Objective(1.0).mass_term(log_mass, potential, 0)
    torch.testing.assert_close(limit, log_mass.exp() * potential)
    for gamma in (1e4, 1e8, 1e12):
        term = Objective(1.0, (gamma, INF)).mass_term(log_mass, potential, 0)
        # m p − m p²/2γ + …: the remainder of the series, without cancellation.
        expected = limit - log_mass.exp() * potential**2 / (2 * gamma)
        torch.testing.assert_close(term, expected, rtol=1e-13 + 1e3 / gamma**2, atol=0)


@pytest.mark.parametrize("side", [0, 1])
def test_mass_term_is_its_formula_across_both_branches(side: int) -> None:
    gamma = 0.8
    objective = Objective(1.0, (gamma, INF) if side == 0 else (INF, gamma))
    potential = torch.linspace(-3, 3, 101, dtype=F64).unsqueeze(0)
    log_mass = torch.full_like(potential, -0.4)
    expected = gamma * np.exp(-0.4) * (1 - np.exp(-potential.numpy() / gamma))
    term = objective.mass_term(log_mass, potential, side)
    torch.testing.assert_close(term, torch.from_numpy(expected), rtol=1e-13, atol=1e-15)


def test_marginal_and_damping_are_those_of_the_propositions() -> None:
    objective = Objective(0.25, (2.0, INF))
    assert objective.damping(0.25, 0) == pytest.approx(2.0 * 4 / (2.0 * 4 + 1))
    assert objective.damping(0.25, 1) == 1.0
    log_mass, potential = tensor(-1.0), tensor(0.6)
    torch.testing.assert_close(
        objective.marginal(log_mass, potential, 0), tensor(math.exp(-1 - 0.3))
    )
    torch.testing.assert_close(objective.marginal(log_mass, potential, 1), log_mass.exp())


def test_reference_is_one_over_e_or_the_product_and_nothing_on_padding() -> None:
    log_h, log_y = tensor(-1.0, -2.0, -3.0), tensor(-0.5, -INF)
    alpha, beta = Objective(1.0).log_reference(log_h, log_y)
    assert alpha.tolist() == [[0.0, 0.0, 0.0]]
    assert beta.tolist() == [[-1.0, -INF]]
    product = Objective(1.0, regularizer=Regularizer.PRODUCT)
    assert product.log_reference(log_h, log_y) == (log_h, log_y)


@pytest.mark.parametrize(("gamma", "regularizer"), OBJECTIVES, ids=OBJECTIVE_NAMES)
def test_derivative_in_the_log_is_the_mass_times_the_derivative(
    gamma: tuple[float, float], regularizer: str
) -> None:
    objective = Objective(0.3, gamma, Regularizer(regularizer))
    log_mass, potential = tensor(-0.1, -1.0, -5.0), tensor(0.4, -2.0, 1.0)
    for side in (0, 1):
        given = (log_mass, potential, tensor(1.7), side)
        torch.testing.assert_close(
            objective.log_gradient(*given), log_mass.exp() * objective.gradient(*given)
        )


def test_gradient_at_a_vanished_mass_is_the_largest_number_rather_than_infinite() -> None:
    for gamma in (0.1, 1.0, 1e6):
        slope = Objective(1.0, (gamma, INF)).gradient(tensor(-800.0), tensor(-1e12), tensor(1.0), 0)
        assert -INF < slope.item() < -1e300


@pytest.mark.parametrize("dtype", [torch.float32, F64])
@pytest.mark.parametrize("epsilon", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize("gamma", [0.5, 100.0, 1e4])
@pytest.mark.parametrize("regularizer", ["plan", "product"])
def test_gradients_are_finite_where_there_is_no_mass(
    regularizer: str, gamma: float, epsilon: float, dtype: torch.dtype
) -> None:
    h = random_masses(2, 6, support=3).to(dtype)
    y = random_masses(2, 6, support=2, seed=1).to(dtype)
    everywhere = wl.SparseTarget(torch.arange(6).expand(2, 6), y)
    cost = random_metric(6).cost().to(dtype)
    for target in (y, everywhere):
        solution = wl.solve(h, target, cost, epsilon=epsilon, gamma=gamma, regularizer=regularizer)
        assert is_finite(
            solution.value, solution.gradient(0), solution.gradient(1), solution.log_gradient()
        )
        assert (solution.log_gradient()[h == 0].abs() < 1e-9 * gamma).all()


@pytest.mark.parametrize("regularizer", list(Regularizer))
def test_gradients_fit_where_an_exponential_alone_would_not(regularizer: Regularizer) -> None:
    """`γ e^{−g/γ}` is about 900 here, while `e^{−g/γ}` is 4e40."""
    objective, potential = Objective(1e-36, (INF, 2e-38), regularizer), -93.5 * 2e-38
    single, double = (
        objective.gradient(
            tensor(0.0, dtype=dtype), tensor(potential, dtype=dtype), tensor(1.0, dtype=dtype), 1
        )
        for dtype in (torch.float32, F64)
    )
    torch.testing.assert_close(single.double(), double, rtol=1e-4, atol=0)
