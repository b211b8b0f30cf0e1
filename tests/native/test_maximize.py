"""Compiled potentials of entropic problems, compared with torch and the optimality conditions."""

import math
from typing import Any

import pytest
import torch
from torch import Tensor

from tests.generators import OBJECTIVE_NAMES, OBJECTIVES, is_finite, random_masses, random_metric
from tests.native.core import F32, F64, each_dtype, skip_module_without_core
from tests.newtons import LockstepNewton
from wassloss.native import calls
from wassloss.native.calls import Potentials
from wassloss.transport import Solution
from wassloss.transport.objective import Objective, Regularizer
from wassloss.transport.problem import Problem

skip_module_without_core()

INF = math.inf
LABELS = 600  # more than a block, and not a multiple of it

each_objective = pytest.mark.parametrize(("gamma", "regularizer"), OBJECTIVES, ids=OBJECTIVE_NAMES)


def problem_of(
    h: Tensor, y: Tensor, epsilon: float, gamma: tuple[float, float], regularizer: str
) -> Problem:
    """A problem on the labels of `y`, heaviest first, with padding if there are fewer."""
    weights, support = y.topk(int((y > 0).sum(1).max()))
    objective = Objective(epsilon, gamma, Regularizer(regularizer))
    return Problem.from_log(h.log(), weights, support, random_metric(h.shape[1]), objective)


def masses(dtype: torch.dtype = F64) -> tuple[Tensor, Tensor]:
    """Predictions with empty labels, and targets on 1, 4 and 7 labels."""
    h = random_masses(3, LABELS, support=500, seed=1)
    y = torch.cat([random_masses(1, LABELS, support=n, seed=n) for n in (1, 4, 7)])
    return h.to(dtype), y.to(dtype)


def solved(problem: Problem, tol: float, max_iterations: int = 200, threads: int = 1) -> Potentials:
    objective, (cost, rows) = problem.objective, problem.costs.rows()
    record = calls.settings(
        epsilon=objective.epsilon,
        gamma=objective.gamma,
        product=objective.regularizer is Regularizer.PRODUCT,
        unequal_price=objective.price_of_unequal_masses,
        tol=tol,
        max_iterations=max_iterations,
        threads=threads,
    )
    return calls.maximize(record, problem.log_h, problem.log_y, rows.expand_as(problem.log_y), cost)


def compare(problem: Problem, tol: float, close: float) -> tuple[Potentials, Solution]:
    """Compare with torch in double precision; `g` only where there is mass."""
    found, wide = solved(problem, tol), problem.to(F64)
    expected = LockstepNewton(1e-11).solve(wide)
    assert (found.error <= tol).all()
    value, f, g = (x.double() for x in found[:3])
    torch.testing.assert_close(value, expected.value, rtol=close, atol=close)
    if problem.objective.balanced:
        h = wide.log_h.exp()
        shift = ((f - expected.f) * h).sum(1, keepdim=True) / h.sum(1, keepdim=True)
        f, g = f - shift, g + shift
    torch.testing.assert_close(f, expected.f, rtol=close, atol=close)
    there = problem.log_y > -INF
    torch.testing.assert_close(g[there], expected.g[there], rtol=close, atol=close)
    assert (found.g[~there] == 0).all()
    return found, expected


@each_dtype
@pytest.mark.parametrize("epsilon", [10.0, 0.5, 0.05])
@each_objective
def test_equals_newton(
    gamma: tuple[float, float], regularizer: str, epsilon: float, dtype: torch.dtype
) -> None:
    tol = 1e-5 if dtype == F32 else 1e-10
    problem = problem_of(*masses(dtype), epsilon, gamma, regularizer)
    close = (1e-3 if epsilon == 10 else 2e-4) if dtype == F32 else 1e-8
    found, expected = compare(problem, tol, close)
    if dtype == F64:  # the same steps, unless rounding changes a decision
        steps = LockstepNewton(tol).solve(problem).n_iterations
        assert (found.n_iterations - steps).abs().max() <= 2
    assert expected.converged.all()


@each_objective
@pytest.mark.parametrize("epsilon", [0.002, 1e-4])
def test_equals_newton_where_plans_are_all_but_exact(
    epsilon: float, gamma: tuple[float, float], regularizer: str
) -> None:
    compare(problem_of(*masses(), epsilon, gamma, regularizer), 1e-9, 1e-6)


@each_objective
@pytest.mark.parametrize("epsilon", [0.3, 0.03])
def test_the_conditions_of_an_optimum(
    epsilon: float, gamma: tuple[float, float], regularizer: str
) -> None:
    """The plan's marginals match the potentials; no other solver is involved."""
    problem = problem_of(*masses(), epsilon, gamma, regularizer)
    found = solved(problem, 1e-11)
    alpha, beta = problem.objective.log_reference(problem.log_h, problem.log_y)
    exponent = (found.f.unsqueeze(1) + found.g.unsqueeze(2) - problem.cost()) / epsilon
    plan = (exponent + alpha.unsqueeze(1) + beta.unsqueeze(2)).exp()  # (batch, support, labels)
    for side, log_mass, potential in ((0, problem.log_h, found.f), (1, problem.log_y, found.g)):
        wanted = (log_mass - potential / gamma[side]).exp()
        torch.testing.assert_close(plan.sum(1 + side), wanted, rtol=1e-7, atol=1e-10)


@each_objective
@pytest.mark.parametrize(("mass_h", "mass_y"), [(1e-6, 1e6), (1e6, 1e-6), (1e-6, 1e-6)])
def test_masses_may_differ_by_any_factor(
    gamma: tuple[float, float], regularizer: str, mass_h: float, mass_y: float
) -> None:
    if gamma == (INF, INF):
        mass_h = mass_y
    h, y = mass_h * random_masses(2, 20, seed=1), mass_y * random_masses(2, 20, support=4, seed=2)
    problem = problem_of(h, y, 0.5, gamma, regularizer)
    found, expected = solved(problem, 1e-10), LockstepNewton(1e-10).solve(problem)
    assert (found.error <= 1e-10).all()
    torch.testing.assert_close(found.value, expected.value, rtol=1e-8, atol=0)


@each_dtype
@each_objective
def test_targets_of_vanishing_mass(
    gamma: tuple[float, float], regularizer: str, dtype: torch.dtype
) -> None:
    h = random_masses(2, 50, seed=1).to(dtype)
    y = random_masses(2, 50, support=5, seed=2).to(dtype)
    y[torch.arange(2), y.argmax(1)] = torch.tensor([1e-30, 1e-12], dtype=dtype)
    y = y / y.sum(1, keepdim=True)
    problem = problem_of(h, y, 0.1, gamma, regularizer)
    tol, close = (1e-5, 1e-3) if dtype == F32 else (1e-9, 1e-6)
    found = solved(problem, tol)
    expected = LockstepNewton(1e-11).solve(problem.to(F64))
    assert is_finite(*found)
    torch.testing.assert_close(found.value.double(), expected.value, rtol=close, atol=close)


@pytest.mark.parametrize("labels", [1, 2, 15, 16, 17, 511, 512, 513])
@pytest.mark.parametrize("gamma", [(INF, INF), (0.5, 2.0)], ids=["balanced", "relaxed"])
def test_any_number_of_labels(labels: int, gamma: tuple[float, float]) -> None:
    h, y = random_masses(2, labels, seed=1), random_masses(2, labels, min(labels, 3), seed=2)
    weights, support = y.topk(min(labels, 3))
    objective = Objective(0.1, gamma)
    cost = random_metric(labels + 1).cost()[:-1, :-1]
    block = cost.T[support]
    problem = Problem.from_log(
        h.log(), weights, support, random_metric(labels + 1), objective, block
    )
    compare(problem, 1e-10, 1e-7)


@each_dtype
@pytest.mark.parametrize("support", [2, 3, 5, 40, 41])
def test_supports_of_any_size(support: int, dtype: torch.dtype) -> None:
    h = random_masses(2, LABELS, seed=1).to(dtype)
    y = random_masses(2, LABELS, support=support, seed=2).to(dtype)
    problem = problem_of(h, y, 0.1, (INF, INF), "plan")
    compare(problem, *((1e-5, 1e-3) if dtype == F32 else (1e-10, 1e-7)))


def test_every_example_has_its_own_number_of_iterations() -> None:
    found = solved(problem_of(*masses(), 0.003, (INF, INF), "plan"), 1e-8)
    assert found.n_iterations[0] < found.n_iterations[1:].min()


def test_running_out_of_iterations() -> None:
    found = solved(problem_of(*masses(), 0.05, (INF, INF), "plan"), 1e-10, max_iterations=3)
    assert (found.error[1:] > 1e-10).all()
    assert found.n_iterations.tolist()[1:] == [3, 3]
    assert is_finite(*found)


@each_dtype
@pytest.mark.parametrize("bad", [math.nan, INF])
def test_a_bad_number_spoils_its_own_example_only(bad: float, dtype: torch.dtype) -> None:
    problem = problem_of(*masses(dtype), 0.05, (INF, INF), "plan")
    good, spoilt = solved(problem, 1e-4), problem.log_h.clone()
    spoilt[1, 5] = bad
    given: dict[str, Any] = {**vars(problem), "log_h": spoilt}
    fields = ("log_h", "log_y", "costs", "objective")
    found = solved(Problem(**{name: given[name] for name in fields}), 1e-4, max_iterations=30)
    assert not found.error[1] <= 1e-4
    for b in (0, 2):
        assert torch.equal(found.f[b], good.f[b])
