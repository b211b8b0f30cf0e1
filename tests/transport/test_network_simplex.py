"""Exact transport with arbitrary costs."""

import ot
import pytest
import torch
from hypothesis import given

import wassloss as wl
from tests.generators import Case, assignments, exact_cases, is_finite, random_masses, random_metric
from tests.oracles import linear_program
from tests.transport.certificates import assert_dual_certificate, assert_primal_certificate
from wassloss import ConvergenceWarning, SparseTarget
from wassloss.transport import Status
from wassloss.transport.network_simplex import NetworkSimplex

F64 = torch.float64


# Laws and limits


@given(case=exact_cases())
def test_a_plan_priced_by_potentials_is_optimal(case: Case) -> None:
    solution = wl.solve(case.h, case.y, case.metric)
    assert solution.value.item() == pytest.approx(case.value, rel=1e-12, abs=1e-12)
    assert_dual_certificate(solution, 1e-12)
    assert_primal_certificate(solution, 1e-12)


@given(case=assignments())
def test_the_one_free_matching_is_found(case: Case) -> None:
    solution = wl.solve(case.h, case.y, case.metric)
    assert solution.value.item() == pytest.approx(0.0, abs=1e-13)
    torch.testing.assert_close(solution.plan()[0], torch.from_numpy(case.plan), rtol=0, atol=1e-13)


def test_one_label_to_another_costs_their_distance() -> None:
    cost = random_metric(5).cost()
    one_hot = torch.eye(5, dtype=F64)
    for j in range(5):
        target = SparseTarget(torch.tensor([[j, 0]]).expand(5, 2), torch.tensor([[1.0, 0.0]] * 5))
        values = wl.solve(one_hot, target, cost, solver=NetworkSimplex()).value
        torch.testing.assert_close(values, cost[:, j])


@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_a_measure_costs_itself_nothing(dtype: torch.dtype) -> None:
    h = random_masses(3, 20).to(dtype)
    solution = wl.solve(h, h, random_metric(20))
    assert (solution.value >= 0).all()
    assert (solution.value < 10 * torch.finfo(dtype).eps).all()
    assert_primal_certificate(solution, 1e-12 if dtype == F64 else 1e-6)


def test_exchanging_prediction_and_target_changes_nothing() -> None:
    h, y = random_masses(3, 12, seed=1), random_masses(3, 12, seed=2)
    there, back = (wl.solve(*pair, random_metric(12)) for pair in ((h, y), (y, h)))
    torch.testing.assert_close(there.value, back.value)
    torch.testing.assert_close(there.plan(), back.plan().transpose(1, 2))


def test_value_and_potentials_scale_with_mass_and_cost() -> None:
    h, y, metric = random_masses(3, 12, seed=1), random_masses(3, 12, seed=2), random_metric(12)
    plain = wl.solve(h, y, metric)
    scaled = wl.solve(5e4 * h, 5e4 * y, metric.with_cost(scale=metric.scale / 3))
    torch.testing.assert_close(scaled.value, 1.5e5 * plain.value)
    torch.testing.assert_close(scaled.f, 3 * plain.f)
    torch.testing.assert_close(scaled.plan(), 5e4 * plain.plan())


def test_labels_without_mass_have_potentials_too() -> None:
    h, y = random_masses(4, 30, support=7, seed=1), random_masses(4, 30, support=5, seed=2)
    everywhere = SparseTarget(torch.arange(30).expand(4, 30), y)
    for target in (y, everywhere):
        solution = wl.solve(h, target, random_metric(30))
        assert is_finite(solution.f, solution.g)
        torch.testing.assert_close(solution.f.mean(1), torch.zeros(4, dtype=F64))
        assert_dual_certificate(solution, 1e-12)
    # f is the largest that g allows, so it is the cost of a first bit of mass.
    slack = solution.problem.cost() - solution.f.unsqueeze(1) - solution.g.unsqueeze(2)
    torch.testing.assert_close(slack.amin(1), torch.zeros_like(solution.f), rtol=0, atol=1e-13)


@pytest.mark.parametrize("dtype", [torch.float32, F64])
def test_potentials_are_a_subgradient(dtype: torch.dtype) -> None:
    y, metric = random_masses(1, 8, support=3, seed=2).to(dtype), random_metric(8)
    predictions = random_masses(6, 8, support=4, seed=3).to(dtype)
    solution = wl.solve(predictions, y.expand(6, -1), metric)
    for b in range(6):
        bound = solution.value[b] + (predictions - predictions[b]) @ solution.gradient()[b]
        assert (solution.value >= bound - 100 * torch.finfo(dtype).eps).all()


# Oracles


@pytest.mark.parametrize("support", [3, 9])
def test_against_linear_programming_and_pot(support: int) -> None:
    h, y = random_masses(5, 9, seed=1), random_masses(5, 9, support=support, seed=2)
    cost = random_metric(9).cost()
    solution = wl.solve(h, y, cost)
    assert solution.status is Status.EXACT
    assert solution.converged.all()
    assert solution.n_iterations.tolist() == [0] * 5
    for b in range(5):
        value = solution.value[b].item()
        assert value == pytest.approx(linear_program(*(x.numpy() for x in (h[b], y[b], cost))))
        assert value == pytest.approx(ot.emd2(h[b].numpy(), y[b].numpy(), cost.numpy()))
    assert_dual_certificate(solution, 1e-12)
    assert_primal_certificate(solution, 1e-12)


def test_single_precision_is_right_to_its_last_digits() -> None:
    h, y = random_masses(5, 200, seed=1), random_masses(5, 200, support=9, seed=2)
    double = wl.solve(h, y, random_metric(200))
    single = wl.solve(h.float(), y.float(), random_metric(200))
    assert single.value.dtype == single.f.dtype == torch.float32
    torch.testing.assert_close(single.value.double(), double.value, rtol=1e-6, atol=0)
    assert_dual_certificate(single, 2e-6)
    assert_primal_certificate(single, 2e-6)


def test_a_small_distance_keeps_its_digits_beside_large_costs() -> None:
    near = torch.tensor([[0.5, 0.25, 0.25, 0.0]]), torch.tensor([[0.5, 0.25, 0.125, 0.125]])
    cost = torch.full((4, 4), 3e4).fill_diagonal_(0)
    cost[2, 3] = cost[3, 2] = 1e-3
    assert wl.solve(*near, cost).value.item() == pytest.approx(0.125e-3, rel=1e-6)


# Status


def test_running_out_of_pivots_is_a_warning() -> None:
    h, y = random_masses(2, 60, seed=1), random_masses(2, 60, seed=2)
    y[0] = torch.eye(60, dtype=F64)[3]
    with pytest.warns(ConvergenceWarning, match="1 of 2 converged"):
        solution = wl.solve(h, y, random_metric(60), max_iterations=100)
    assert solution.converged.tolist() == [True, False]
    assert solution.status is Status.ITERATIONS_EXHAUSTED
    assert solution.error[0] == 0
    assert solution.error[1] == torch.inf


@pytest.mark.parametrize("unit", [1e-200, 1e-30, 1e-6, 1e12, 1e200])
@pytest.mark.parametrize("mass", [1e-30, 1e-6, 1e12, 1e30])
def test_masses_and_costs_of_any_size(mass: float, unit: float) -> None:
    """The underlying solver has absolute tolerances, which must not matter."""
    h, y = random_masses(2, 6, seed=1), random_masses(2, 6, seed=2)
    cost = random_metric(6).cost()
    expected = wl.solve(h, y, wl.ground.Matrix(cost))
    found = wl.solve(mass * h, mass * y, wl.ground.Matrix(unit * cost))
    torch.testing.assert_close(found.value / mass / unit, expected.value, rtol=1e-9, atol=0)
    torch.testing.assert_close(found.plan() / mass, expected.plan(), rtol=1e-9, atol=1e-12)
