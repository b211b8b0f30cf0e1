"""The fused kernel takes the steps of `Newton`; on a GPU if there is one, else interpreted."""

import math
from dataclasses import replace
from typing import Any

import pytest
import torch

from tests.generators import (
    OBJECTIVE_NAMES,
    OBJECTIVES,
    is_finite,
    random_masses,
    random_metric,
)
from tests.newtons import LockstepNewton, TritonNewton
from tests.triton_kernels import CUDA, DEVICE, quiet
from wassloss.kernels.launch import LARGEST_SUPPORT, MOST_UNROLLED, triton_available
from wassloss.transport import Solution, Status
from wassloss.transport.conditions import conclude
from wassloss.transport.newton import gpu
from wassloss.transport.newton.lockstep import DenseConditions
from wassloss.transport.objective import Objective, Regularizer
from wassloss.transport.problem import Problem

pytestmark = quiet

F32, F64 = torch.float32, torch.float64
INF = math.inf

each_objective = pytest.mark.parametrize(("gamma", "regularizer"), OBJECTIVES, ids=OBJECTIVE_NAMES)
# The interpreter is slow: use only two objectives, which differ in every branch.
two_objectives = pytest.mark.parametrize(
    ("gamma", "regularizer"), OBJECTIVES[1:3], ids=OBJECTIVE_NAMES[1:3]
)
each_dtype = pytest.mark.parametrize("dtype", [F32, F64])


def random_problem(
    gamma: tuple[float, float] = (INF, INF),
    regularizer: str = "plan",
    epsilon: float = 0.05,
    *,
    batch: int = 1,
    labels: int = 30,
    support: int = 3,
    dtype: torch.dtype = F64,
    seed: int = 0,
) -> Problem:
    """Sparse targets with median cost 1; the first example has padding."""
    metric = random_metric(labels).to(DEVICE, dtype)
    h = random_masses(batch, labels, seed=seed + 1)
    y = random_masses(batch, labels, support, seed=seed + 2)
    weights, places = y.topk(support)
    if support > 1:
        weights[0, -1] = 0
        weights[0] /= weights[0].sum()
    return Problem.from_log(
        h.log().to(DEVICE, dtype),
        weights.to(DEVICE, dtype),
        places.to(DEVICE),
        metric,
        Objective(epsilon, gamma, Regularizer(regularizer)),
    )


def with_costs(problem: Problem, **changes: Any) -> Problem:
    costs = problem.costs.uncached()
    for name, value in changes.items():
        setattr(costs, name, value)
    return replace(problem, costs=costs)


def tolerance(dtype: torch.dtype) -> float:
    return 1e-5 if dtype == F32 else 1e-9


def assert_same(solution: Solution, expected: Solution, **close: Any) -> None:
    """Equal up to `close`; values on padding are ignored."""
    present = expected.problem.log_y > -INF
    torch.testing.assert_close(solution.value, expected.value, **close)
    torch.testing.assert_close(solution.f, expected.f, **close)
    torch.testing.assert_close(solution.g[present], expected.g[present], **close)
    assert solution.status is expected.status
    assert torch.equal(solution.converged, expected.converged)
    assert solution.n_iterations.dtype == expected.n_iterations.dtype
    assert is_finite(solution.g, solution.log_gradient(), solution.support_plan())


def solve_both(problem: Problem, **budget: Any) -> tuple[Solution, ...]:
    return TritonNewton(**budget).solve(problem), LockstepNewton(**budget).solve(problem)


@pytest.mark.one_in(3)
@each_objective
@pytest.mark.parametrize("epsilon", [1.0, 0.05])
def test_the_optimum_is_that_of_newton(
    gamma: tuple[float, float], regularizer: str, epsilon: float
) -> None:
    fused, expected = solve_both(random_problem(gamma, regularizer, epsilon, batch=2), tol=1e-9)
    assert_same(fused, expected, rtol=0, atol=1e-8)
    assert (fused.error <= 1e-9).all()
    assert (fused.n_iterations - expected.n_iterations).abs().max() <= 3


@pytest.mark.one_in(5)
@each_dtype
@pytest.mark.parametrize("support", [1, 6, MOST_UNROLLED + 1])
@two_objectives
def test_any_size_of_support(
    gamma: tuple[float, float], regularizer: str, support: int, dtype: torch.dtype
) -> None:
    problem = random_problem(gamma, regularizer, support=support, dtype=dtype)
    fused, expected = solve_both(problem, tol=tolerance(dtype))
    assert_same(fused, expected, rtol=0, atol=tolerance(dtype))


@each_dtype
def test_more_labels_than_a_tile(dtype: torch.dtype) -> None:
    problem = random_problem(labels=301, dtype=dtype)  # not a multiple of a tile
    fused, expected = solve_both(problem, tol=tolerance(dtype))
    assert_same(fused, expected, rtol=0, atol=tolerance(dtype))


@two_objectives
def test_the_potential_of_a_target_without_mass_follows_from_f(
    gamma: tuple[float, float], regularizer: str
) -> None:
    problem = random_problem(gamma, regularizer, 0.5)
    log_y = problem.log_y.clone()
    log_y[:, 1] = -700.0
    fused, expected = solve_both(replace(problem, log_y=log_y)._with_equal_masses(), tol=1e-9)
    assert_same(fused, expected, rtol=1e-9, atol=1e-7)


def test_masses_may_differ_by_any_factor() -> None:
    for mass_h, mass_y in [(1e-6, 1e6), (1e6, 1e-6)]:
        problem = random_problem((0.5, 2.0), "product", 0.5)
        problem = replace(
            problem,
            log_h=problem.log_h + math.log(mass_h),
            log_y=problem.log_y + math.log(mass_y),
        )
        fused, expected = solve_both(problem)
        assert_same(fused, expected, rtol=1e-6, atol=1e-7)


def test_costs_come_from_a_table_or_from_columns() -> None:
    problem = random_problem(batch=2)  # each with its own support
    table = problem.metric.tabulated()
    tabulated = with_costs(problem, metric=table)
    single = with_costs(problem, metric=table.to(dtype=F32))
    expected = TritonNewton().solve(problem)
    for other, atol in ((problem, 1e-12), (tabulated, 1e-7), (single, 1e-5)):
        fused = TritonNewton().solve(other)
        torch.testing.assert_close(fused.f, expected.f, rtol=0, atol=atol)
        torch.testing.assert_close(fused.value, expected.value, rtol=0, atol=atol)


def test_a_support_may_be_shared() -> None:
    problem = random_problem(batch=2)
    shared = with_costs(problem, support=problem.support[:1], metric=problem.metric.tabulated())
    fused, expected = solve_both(shared, tol=1e-9)
    assert_same(fused, expected, rtol=0, atol=1e-8)


@pytest.mark.parametrize("max_iterations", [0, 1, 4])
def test_says_when_iterations_run_out(max_iterations: int) -> None:
    problem = random_problem(epsilon=0.01, batch=2)
    fused = TritonNewton(max_iterations=max_iterations).solve(problem)
    assert fused.status is Status.ITERATIONS_EXHAUSTED
    assert not fused.converged.any()
    assert (fused.n_iterations == max_iterations).all()
    measured = conclude(
        problem, DenseConditions.over_blocks(problem), fused.g, fused.n_iterations, 1e-9
    )
    torch.testing.assert_close(fused.error, measured.error, rtol=1e-6, atol=0)
    torch.testing.assert_close(fused.f, measured.f, rtol=0, atol=1e-9)
    torch.testing.assert_close(fused.value, measured.value, rtol=1e-9, atol=0)


def test_says_when_digits_run_out() -> None:
    problem = random_problem(epsilon=1e-3, dtype=F32)
    fused = TritonNewton(tol=1e-9, max_iterations=9).solve(problem)
    assert fused.status is Status.PRECISION_EXHAUSTED


def test_applies_to_few_targets_on_a_gpu() -> None:
    assert not triton_available(torch.device("cpu"))
    assert gpu.runs(random_problem()) is CUDA
    assert not gpu.runs(random_problem(labels=80, support=LARGEST_SUPPORT + 1))


needs_cuda = pytest.mark.skipif(not CUDA, reason="needs a CUDA device")


@needs_cuda
@each_dtype
@pytest.mark.parametrize(
    ("support", "gamma", "regularizer"),
    [(5, *objective) for objective in OBJECTIVES]
    + [(n, *OBJECTIVES[1]) for n in (1, 8, 12, 20, 32)],
)
def test_the_compiled_kernel_finds_the_optimum_of_newton(
    support: int, gamma: tuple[float, float], regularizer: str, dtype: torch.dtype
) -> None:
    shape: dict[str, Any] = {"batch": 64, "labels": 1000, "support": support, "dtype": dtype}
    problem = random_problem(gamma, regularizer, 0.02, **shape)
    fused, expected = solve_both(problem, tol=tolerance(dtype))
    assert fused.converged.all()
    # Potentials of targets with little mass may differ more, because the tolerance is on masses.
    close = {"rtol": 0, "atol": 5 * tolerance(dtype)}
    torch.testing.assert_close(fused.value, expected.value, **close)
    torch.testing.assert_close(fused.log_gradient(), expected.log_gradient(), **close)


@needs_cuda
def test_the_launch_can_be_part_of_a_cuda_graph() -> None:
    from wassloss.transport.newton.gpu import launch

    problem = random_problem(batch=8, dtype=F32)
    expected = TritonNewton(tol=1e-5).solve(problem)  # compiles
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        f, *_ = launch(problem, 1e-5, 1000)
    graph.replay()
    torch.testing.assert_close(f, expected.f)
