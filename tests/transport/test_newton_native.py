"""The compiled Newton method: the answers of `Newton`, in any thread and process."""

import math
import os
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any

import pytest
import torch

import wassloss as wl
from tests.evaluators import needs_native
from tests.generators import (
    OBJECTIVE_NAMES,
    OBJECTIVES,
    is_finite,
    random_masses,
    random_metric,
)
from tests.newtons import LockstepNewton, NativeNewton
from tests.oracles import INF
from wassloss import ConvergenceWarning, Solution
from wassloss.transport import Status
from wassloss.transport.objective import Objective
from wassloss.transport.problem import Problem

pytestmark = needs_native

F32, F64 = torch.float32, torch.float64
LABELS = 300  # more than a block, and not a multiple of it

each_objective = pytest.mark.parametrize(("gamma", "regularizer"), OBJECTIVES, ids=OBJECTIVE_NAMES)
each_dtype = pytest.mark.parametrize("dtype", [F32, F64], ids=["single", "double"])


def masses(dtype: torch.dtype = F64) -> tuple[torch.Tensor, torch.Tensor]:
    """Predictions with empty labels, and targets with 1, 4 and 7 labels: two have padding."""
    h = random_masses(3, LABELS, support=250, seed=1)
    y = torch.cat([random_masses(1, LABELS, support=n, seed=n) for n in (1, 4, 7)])
    return h.to(dtype), y.to(dtype)


def both(*args: Any, tol: float, **keywords: Any) -> tuple[Solution, Solution]:
    compiled = wl.solve(*args, **keywords, solver=NativeNewton(tol))
    return compiled, wl.solve(*args, **keywords, solver=LockstepNewton(tol))


def run_python(code: str, **environment: str) -> str:
    """Return what a new process prints."""
    done = subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


# The same answers


@each_dtype
@pytest.mark.parametrize("epsilon", [10.0, 0.5, 0.05, 0.002])
@each_objective
def test_equals_newton(
    gamma: tuple[float, float], regularizer: str, epsilon: float, dtype: torch.dtype
) -> None:
    tol = 1e-5 if dtype == F32 else 1e-10
    given: dict[str, Any] = {"epsilon": epsilon, "gamma": gamma, "regularizer": regularizer}
    compiled, plain = both(*masses(dtype), random_metric(LABELS), tol=tol, **given)
    assert compiled.converged.all()
    assert compiled.status is plain.status is Status.CONVERGED
    assert (compiled.error <= tol).all()
    close = 1e-4 if dtype == F32 else 1e-8
    torch.testing.assert_close(compiled.value, plain.value, rtol=close, atol=close)
    torch.testing.assert_close(compiled.f, plain.f, rtol=close, atol=close)
    there = compiled.problem.log_y > -INF
    torch.testing.assert_close(compiled.g[there], plain.g[there], rtol=close, atol=close)
    for part, like in ((compiled.value, plain.value), (compiled.error, plain.error)):
        assert part.dtype == like.dtype
    # The same steps, unless rounding changes a decision.
    assert (compiled.n_iterations - plain.n_iterations).abs().max() <= 2


@each_objective
def test_equals_newton_at_an_epsilon_where_plans_are_all_but_exact(
    gamma: tuple[float, float], regularizer: str
) -> None:
    given: dict[str, Any] = {"epsilon": 1e-4, "gamma": gamma, "regularizer": regularizer}
    compiled, plain = both(*masses(), random_metric(LABELS), tol=1e-8, **given)
    assert compiled.converged.all()
    torch.testing.assert_close(compiled.value, plain.value, rtol=1e-9, atol=1e-9)
    torch.testing.assert_close(compiled.f, plain.f, rtol=0, atol=1e-6)


def test_every_example_has_its_own_number_of_iterations() -> None:
    given: dict[str, Any] = {"epsilon": 0.003, "solver": NativeNewton()}
    h, y = masses()
    together = wl.solve(h, y, random_metric(LABELS), **given)
    assert together.n_iterations[0] < together.n_iterations[1:].min()


@pytest.mark.parametrize("labels", [1, 2, 255, 256, 257, 513])
@pytest.mark.parametrize("gamma", [(INF, INF), (0.5, 2.0)], ids=["balanced", "relaxed"])
def test_any_number_of_labels(labels: int, gamma: tuple[float, float]) -> None:
    h = random_masses(2, labels, seed=1)
    y = random_masses(2, labels, support=min(labels, 3), seed=2)
    compiled, plain = both(h, y, random_metric(labels + 1).cost()[:-1, :-1], epsilon=0.1,
                           gamma=gamma, tol=1e-10)  # fmt: skip
    torch.testing.assert_close(compiled.value, plain.value)
    torch.testing.assert_close(compiled.f, plain.f)


@each_dtype
@pytest.mark.parametrize("support", [2, 3, 40, 41])
def test_supports_of_any_size(support: int, dtype: torch.dtype) -> None:
    h = random_masses(2, LABELS, seed=1).to(dtype)
    y = random_masses(2, LABELS, support=support, seed=2).to(dtype)
    tol = 1e-5 if dtype == F32 else 1e-10
    compiled, plain = both(h, y, random_metric(LABELS), epsilon=0.1, tol=tol)
    assert compiled.converged.all()
    torch.testing.assert_close(compiled.value, plain.value)
    assert compiled.n_iterations.tolist() == pytest.approx(plain.n_iterations.tolist(), abs=2)


@each_objective
@pytest.mark.parametrize(("mass_h", "mass_y"), [(1e-6, 1e6), (1e6, 1e-6), (1e-6, 1e-6)])
def test_masses_may_differ_by_any_factor(
    gamma: tuple[float, float], regularizer: str, mass_h: float, mass_y: float
) -> None:
    if gamma == (INF, INF):
        mass_h = mass_y
    h, y = mass_h * random_masses(2, 20, seed=1), mass_y * random_masses(2, 20, support=4, seed=2)
    given: dict[str, Any] = {"epsilon": 0.5, "gamma": gamma, "regularizer": regularizer}
    compiled, plain = both(h, y, random_metric(20), tol=1e-10, **given)
    assert compiled.converged.all()
    torch.testing.assert_close(compiled.value, plain.value, rtol=1e-8, atol=0)
    torch.testing.assert_close(compiled.gradient(0), plain.gradient(0), rtol=1e-6, atol=1e-6)
    torch.testing.assert_close(compiled.gradient(1), plain.gradient(1), rtol=1e-6, atol=1e-6)


@each_dtype
@each_objective
def test_targets_of_vanishing_mass(
    gamma: tuple[float, float], regularizer: str, dtype: torch.dtype
) -> None:
    h = random_masses(2, 50, seed=1).to(dtype)
    y = random_masses(2, 50, support=5, seed=2).to(dtype)
    first = y.argmax(1)
    y[torch.arange(2), first] = torch.tensor([1e-30, 1e-12], dtype=dtype)
    y = y / y.sum(1, keepdim=True)
    given: dict[str, Any] = {"epsilon": 0.1, "gamma": gamma, "regularizer": regularizer}
    compiled, plain = both(h, y, random_metric(50), tol=1e-5 if dtype == F32 else 1e-9, **given)
    assert compiled.converged.all()
    assert is_finite(compiled.value, compiled.f, compiled.g, compiled.support_plan())
    close = 1e-4 if dtype == F32 else 1e-7
    torch.testing.assert_close(compiled.value, plain.value, rtol=close, atol=close)
    torch.testing.assert_close(compiled.f, plain.f, rtol=close, atol=close)


# Location of the costs


def problem_of(h: torch.Tensor, y: torch.Tensor, support: torch.Tensor, metric: Any) -> Problem:
    return Problem.from_log(h.log(), y, support, metric, Objective(0.05))


def test_a_shared_support_is_not_copied() -> None:
    metric, support = random_metric(LABELS), torch.tensor([[3, 50, 7, 120]])
    h, y = random_masses(5, LABELS, seed=1), random_masses(5, 4, seed=2)
    shared = problem_of(h, y, support, metric)
    cost, _ = shared.costs.rows()
    assert cost.shape == (4, LABELS)
    assert cost.data_ptr() == shared.cost().data_ptr()
    apart = problem_of(h, y, support.expand(5, -1).clone(), metric)
    assert apart.costs.rows()[0].data_ptr() == apart.cost().data_ptr()
    one, other = NativeNewton().solve(shared), NativeNewton().solve(apart)
    torch.testing.assert_close(one.f, other.f, rtol=0, atol=1e-12)
    torch.testing.assert_close(one.g, other.g, rtol=0, atol=1e-12)


def test_a_table_of_costs_is_read_in_place() -> None:
    metric = random_metric(LABELS)
    support = torch.stack([torch.randperm(LABELS)[:4] for _ in range(5)])
    h, y = random_masses(5, LABELS, seed=1), random_masses(5, 4, seed=2)
    gathered = problem_of(h, y, support, metric)
    tabulated = problem_of(h, y, support, metric.tabulated())
    assert tabulated.costs.rows()[0] is tabulated.metric.known_costs
    one, other = NativeNewton().solve(gathered), NativeNewton().solve(tabulated)
    torch.testing.assert_close(one.f, other.f, rtol=0, atol=1e-12)
    assert (one.n_iterations - other.n_iterations).abs().max() <= 1
    # A table in another precision than the problem's must be converted.
    assert NativeNewton().solve(tabulated.to(F32)).f.dtype == F32


def test_costs_that_are_not_finite_are_an_error() -> None:
    metric = wl.ground.Ordinal(torch.arange(9, dtype=F64), power=500)  # 8 ** 500 overflows
    problem = problem_of(random_masses(2, 9), random_masses(2, 2), torch.tensor([[2, 3]]), metric)
    with pytest.raises(ValueError, match="metric must have finite costs"):
        NativeNewton(max_iterations=3).solve(problem)


# Budgets and bad numbers


def test_running_out_of_iterations_is_said() -> None:
    with pytest.warns(ConvergenceWarning, match="Raise `max_iterations`"):
        solution = wl.solve(
            *masses(), random_metric(LABELS), epsilon=0.05, solver=NativeNewton(max_iterations=3)
        )
    assert solution.converged.tolist() == [True, False, False]
    assert solution.n_iterations.tolist()[1:] == [3, 3]
    assert is_finite(solution.value, solution.f, solution.g)


def test_a_tolerance_below_rounding_is_said_to_be_that() -> None:
    solver = NativeNewton(1e-18, max_iterations=50)
    with pytest.warns(ConvergenceWarning, match="Rounding keeps the error above `tol`"):
        solution = wl.solve(*masses(), random_metric(LABELS), epsilon=0.1, solver=solver)
    assert (solution.error < 1e-13).all()


@each_dtype
@pytest.mark.parametrize("bad", [math.nan, INF])
def test_a_bad_number_spoils_its_own_example_only(bad: float, dtype: torch.dtype) -> None:
    h, y = masses(dtype)
    good = problem_of(h, y.topk(7).values, y.topk(7).indices, random_metric(LABELS).to(dtype=dtype))
    spoilt = good.log_h.clone()
    spoilt[1, 5] = bad
    solver = NativeNewton(1e-4, max_iterations=30)
    expected, solution = solver.solve(good), solver.solve(replace(good, log_h=spoilt))
    assert expected.converged.all()
    assert solution.converged.tolist() == [True, False, True]
    for b in (0, 2):
        assert torch.equal(solution.f[b], expected.f[b])


# Threads and processes


@each_dtype
def test_the_number_of_threads_changes_no_bit(dtype: torch.dtype) -> None:
    h = random_masses(70, LABELS, seed=1).to(dtype)
    y = random_masses(70, LABELS, support=5, seed=2).to(dtype)
    given: dict[str, Any] = {"epsilon": 0.05, "solver": NativeNewton()}
    metric = random_metric(LABELS).tabulated()  # the same costs for any number of columns
    several = wl.solve(h, y, metric, **given)
    threads = torch.get_num_threads()
    try:
        torch.set_num_threads(1)
        single = wl.solve(h, y, metric, **given)
    finally:
        torch.set_num_threads(threads)
    alone = wl.solve(h[33:34], y[33:34], metric, **given)
    for name in ("value", "f", "g", "error", "n_iterations"):
        assert torch.equal(getattr(several, name), getattr(single, name))
        assert torch.equal(getattr(several, name)[33:34], getattr(alone, name))


def test_two_threads_may_solve_at_once() -> None:
    h, y = random_masses(70, LABELS, seed=1), random_masses(70, LABELS, support=5, seed=2)
    metric = random_metric(LABELS)

    def solve(epsilon: float) -> torch.Tensor:
        return wl.solve(h, y, metric, epsilon=epsilon, solver=NativeNewton()).f

    epsilons = [0.5, 0.1, 0.05, 0.02] * 2
    with ThreadPoolExecutor(4) as pool:
        together = list(pool.map(solve, epsilons))
    for epsilon, f in zip(epsilons, together, strict=True):
        assert torch.equal(f, solve(epsilon))


def test_tiny_masses_do_not_let_potentials_drift() -> None:
    """One target label leaves `g` undetermined; if rounding moved it far, digits would be lost."""
    few = [5.062466e-24, 0, 0, 9.949274477e-13, 0, 5.062466e-15, 0, 5e-18, 0, 5e-18, 0, 0]
    h, y = torch.tensor([few, [1e-12 / 12] * 12]), torch.zeros(2, 12)
    y[0, 10], y[1] = 1e-12, 1e-12 / 12
    metric = wl.ground.Grid((2, 2, 3), power=2, scale="max")
    plan = wl.solve(h, y, metric, epsilon=0.0265770856).plan()
    torch.testing.assert_close(plan.sum(2), h, rtol=1e-4, atol=1e-17)
