"""How a problem processes its masses."""

import math

import pytest
import torch

import wassloss as wl
from tests.generators import OBJECTIVE_NAMES, OBJECTIVES, random_masses, random_metric
from tests.oracles import convex
from wassloss import SparseTarget
from wassloss.ground import Ordinal
from wassloss.transport import Newton
from wassloss.transport.objective import Objective
from wassloss.transport.precision import smallest_mass
from wassloss.transport.problem import Problem

BALANCED = Objective(0.1)


def problem_of(objective: Objective = BALANCED, dtype: torch.dtype = torch.float64) -> Problem:
    h, y = random_masses(3, 5, seed=1).to(dtype), random_masses(3, 2, seed=2).to(dtype)
    support = torch.tensor([[0, 4], [1, 2], [3, 0]])
    return Problem.from_log(h.log(), y, support, random_metric(5), objective)


# Laws and limits


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_balanced_masses_are_equal_to_the_last_digits(dtype: torch.dtype) -> None:
    h, y = random_masses(3, 5).to(dtype), random_masses(3, 5, seed=1).to(dtype) * (1 + 1e-6)
    support = torch.arange(5).unsqueeze(0)
    problem = Problem.from_log(h.log(), y, support, random_metric(5), BALANCED)
    mass_h, mass_y = problem.masses()
    torch.testing.assert_close(mass_h, mass_y, rtol=4 * torch.finfo(dtype).eps, atol=0)
    mass_h, mass_y = problem.to(torch.float64).masses()
    torch.testing.assert_close(mass_h, mass_y, rtol=1e-14, atol=0)


def test_relaxed_masses_are_left_as_they_are() -> None:
    y = 3 * random_masses(2, 5, seed=1)
    problem = Problem.from_log(
        random_masses(2, 5).log(), y, torch.arange(5)[None], random_metric(5), Objective(1, (1, 1))
    )
    torch.testing.assert_close(problem.masses()[1], y.sum(1, keepdim=True))


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("epsilon", [0.1, 10.0, 1000.0])
@pytest.mark.parametrize(("gamma", "regularizer"), OBJECTIVES, ids=OBJECTIVE_NAMES)
def test_a_label_without_mass_is_as_good_as_absent_at_any_epsilon(
    gamma: tuple[float, float], regularizer: str, epsilon: float, dtype: torch.dtype
) -> None:
    # A relaxed plan has h^ρ with ρ = γ/(γ + ε): a tiny h does not give a tiny row of the plan.
    h, y = random_masses(2, 4, seed=1), random_masses(2, 4, seed=2)
    cost = random_metric(6).cost()
    keep, tol = torch.arange(4), 1e-11 if dtype == torch.float64 else 1e-6
    keywords = {"epsilon": epsilon, "gamma": gamma, "regularizer": regularizer, "tol": tol}
    absent = wl.solve(h.to(dtype), y.to(dtype), cost[:4, :4].to(dtype), **keywords)
    h, y = (torch.cat([x, torch.zeros(2, 2)], 1).to(dtype) for x in (h, y))
    empty = wl.solve(h, y, cost.to(dtype), **keywords)
    everywhere = SparseTarget(torch.arange(6).expand(2, 6), y)
    learned = SparseTarget(everywhere.indices, y.clone().requires_grad_())
    close = {"rtol": 100 * tol, "atol": 100 * tol}
    torch.testing.assert_close(empty.value, absent.value, **close)
    torch.testing.assert_close(empty.plan()[:, keep][:, :, keep], absent.plan(), **close)
    # A target that requires a gradient keeps its empty labels in the problem.
    value = wl.wasserstein(h, learned, cost.to(dtype), **keywords)
    torch.testing.assert_close(value.detach(), absent.value, **close)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("far", [1.0, 1e2, 1e4])
@pytest.mark.parametrize(("gamma_h", "gamma_y"), [(1.0, 1.0), (0.01, 10.0), (10.0, 0.01)])
@pytest.mark.parametrize("epsilon", [0.1, 1e4])
@pytest.mark.parametrize("regularizer", ["plan", "product"])
def test_a_label_without_mass_is_as_good_as_absent_however_far_the_others_are(
    regularizer: str,
    epsilon: float,
    gamma_h: float,
    gamma_y: float,
    far: float,
    dtype: torch.dtype,
) -> None:
    # All of h is at label 0 and all of y at label 1, far away. With a trace of mass at the other's
    # label on either side, growing it would be cheaper than moving mass.
    h, y = 2.0, 3.0
    reference = math.log(h * y) if regularizer == "product" else -1.0
    pull = epsilon * reference + gamma_h * math.log(h) + gamma_y * math.log(y)
    moved = math.exp((pull - far) / (epsilon + gamma_h + gamma_y))  # slope 0
    value = gamma_h * h + gamma_y * y - (epsilon + gamma_h + gamma_y) * moved
    value += epsilon * h * y if regularizer == "product" else 0.0
    keywords = {"epsilon": epsilon, "gamma": (gamma_h, gamma_y), "regularizer": regularizer}
    target = torch.tensor([[0.0, y]], dtype=dtype, requires_grad=True)
    found = wl.wasserstein(
        torch.tensor([[h, 0.0]], dtype=dtype), target, Ordinal([0.0, far]), **keywords
    )
    rounding = 2e-6 * (epsilon * h * y + gamma_h * h + gamma_y * y)
    assert found.item() == pytest.approx(value, abs=rounding, rel=0)


@pytest.mark.parametrize("regularizer", ["plan", "product"])
def test_the_slope_at_no_mass_is_that_at_the_smallest_mass(regularizer: str) -> None:
    # Without any mass it is infinite.
    keywords = {"epsilon": 0.1, "gamma": (1.0, 2.0), "regularizer": regularizer, "tol": 1e-10}
    cost = random_metric(4).cost()

    def slopes(least: float) -> list[torch.Tensor]:
        h = torch.tensor([[0.5, least, 0.3, 0.7]], dtype=torch.float64, requires_grad=True)
        y = torch.tensor([[least, 0.5, 0.3, 0.7]], dtype=torch.float64, requires_grad=True)
        return list(torch.autograd.grad(wl.wasserstein(h, y, cost, **keywords).sum(), (h, y)))

    none, least = slopes(0.0), slopes(1.0001 * smallest_mass(torch.float64))
    assert all(slope.isfinite().all() for slope in none)
    torch.testing.assert_close(none, least, rtol=1e-4, atol=1e-6)


def test_rows_of_a_problem_are_problems() -> None:
    problem = problem_of()
    part = problem[1:3]
    assert part.batch == 2
    torch.testing.assert_close(part.cost(), problem.cost()[1:3])
    torch.testing.assert_close(part.dense_target(), problem.dense_target()[1:3])


def test_support_may_be_shared() -> None:
    y = random_masses(3, 2, seed=2)
    shared = Problem.from_log(
        random_masses(3, 5).log(), y, torch.tensor([[4, 1]]), random_metric(5), BALANCED
    )
    assert shared.cost().shape == (3, 2, 5)
    assert shared[1:].support.shape == (1, 2)
    expected = torch.zeros(3, 5, dtype=torch.float64)
    expected[:, [4, 1]] = y
    torch.testing.assert_close(shared.dense_target(), expected)
    torch.testing.assert_close(shared.on_support(expected), y)


def test_costs_computed_once_are_kept_in_any_dtype() -> None:
    problem = problem_of().to(torch.float32)
    assert problem.cost().data_ptr() == problem.cost().data_ptr()
    assert problem.cost().dtype == torch.float32


# Oracles


def test_log_masses_below_the_smallest_number_count_where_the_plan_takes_a_root_of_them() -> None:
    # e⁻⁸⁰⁰ underflows, but at γ = 1, ε = 400 its row of the plan is h^(1/401): e⁻². A model of logs
    # can represent it, and the answer is that of an equivalent problem with ordinary masses.
    log_h = torch.tensor([[-800.0, -1.0]], dtype=torch.float64)
    cost = torch.tensor([[[0.3, 1.0], [2.0, 0.2]]], dtype=torch.float64)
    y = torch.tensor([[0.4, 0.6]], dtype=torch.float64)
    objective = Objective(400.0, (1.0, 1.0))
    metric, support = Ordinal(2), torch.tensor([[0, 1]])
    problem = Problem.from_log(log_h, y, support, metric, objective, block=cost)
    solution = Newton(1e-12).solve(problem)
    # Adding a constant c to log h_0 is the same as adding γ c to f_0, or subtracting γ c from M_0j.
    dearer = cost + torch.tensor([799.0, 0.0])
    moved = Problem.from_log(log_h.clamp(min=-1), y, support, metric, objective, block=dearer)
    same = Newton(1e-12).solve(moved)
    torch.testing.assert_close(solution.support_plan(), same.support_plan())


def test_an_empty_label_costs_what_a_convex_solver_says_without_it() -> None:
    h, y, cost = random_masses(1, 3), random_masses(1, 3, seed=1), random_metric(5).cost()
    value, _ = convex(h[0].numpy(), y[0].numpy(), cost[:3, :3].numpy(), 100.0, (1.0, 1.0))
    h, y = (torch.cat([x, torch.zeros(1, 2)], 1).float() for x in (h, y))
    solution = wl.solve(h, y, cost.float(), epsilon=100.0, gamma=1.0)
    assert solution.value.item() == pytest.approx(value, rel=1e-5)


def test_a_shared_cost_stays_shared_in_another_precision():
    y = torch.rand(5, 20, dtype=torch.float32)
    log_h = torch.rand(5, 20).log_softmax(1)
    everything = torch.arange(20).unsqueeze(0)
    metric = wl.ground.Ordinal(20)
    problem = Problem.from_log(log_h, y, everything, metric, Objective(0.1))
    wide = problem.to(torch.float64)
    assert wide.costs.shared
    assert wide.cost().dtype == torch.float64
    torch.testing.assert_close(wide.cost(), problem.cost().double())
