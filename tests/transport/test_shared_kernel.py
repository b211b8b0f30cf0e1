"""Dense targets share one kernel: products with it are the sums that they replace."""

import pytest
import torch

from tests.generators import OBJECTIVE_NAMES, OBJECTIVES, random_masses, random_metric
from wassloss.transport import AlgorithmOne, Newton, Objective, Problem, Regularizer, Sinkhorn
from wassloss.transport.entropic import Equations
from wassloss.transport.shared_kernel import LARGEST_EXPONENT, SharedKernel, equations_of

each_objective = pytest.mark.parametrize(("gamma", "regularizer"), OBJECTIVES, ids=OBJECTIVE_NAMES)


def dense_problem(
    gamma: tuple[float, float], regularizer: str, epsilon: float, dtype: torch.dtype = torch.float64
) -> Problem:
    h, y = random_masses(4, 30, seed=1), random_masses(4, 30, seed=2)
    objective = Objective(epsilon, gamma, Regularizer(regularizer))
    everything = torch.arange(30).unsqueeze(0)
    return Problem.from_log(
        h.log().to(dtype), y.to(dtype), everything, random_metric(30), objective
    )


@each_objective
@pytest.mark.parametrize("epsilon", [0.005, 0.1, 10.0])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
def test_products_are_the_sums_they_replace(dtype, epsilon, gamma, regularizer):
    problem = dense_problem(gamma, regularizer, epsilon, dtype)
    shared, plain = equations_of(problem), Equations.of(problem)
    assert isinstance(shared, SharedKernel)
    g = 0.3 * torch.randn(4, 30, dtype=dtype)
    few = torch.tensor([True, False, True, False])
    for fast, slow, start in ((shared, plain, g), (shared[few], plain[few], g[few])):
        f = slow.f_of(start)
        close = {"rtol": 1e-5, "atol": 1e-5} if dtype == torch.float32 else {}
        torch.testing.assert_close(fast.f_of(start), f, **close)
        torch.testing.assert_close(fast.column_log_sum(f), slow.column_log_sum(f), **close)


@each_objective
def test_solvers_that_use_it_find_the_optimum(gamma, regularizer):
    problem = dense_problem(gamma, regularizer, 0.1)
    expected = Newton(1e-12).solve(problem)
    for solver in (Sinkhorn(1e-11), AlgorithmOne(3000)):
        found = solver.solve(problem)
        torch.testing.assert_close(found.value, expected.value, rtol=1e-8, atol=1e-10)
        torch.testing.assert_close(found.f, expected.f, rtol=1e-7, atol=1e-7)


def test_a_range_that_products_cannot_hold_goes_to_the_log_domain():
    problem = dense_problem((1.0, 1.0), "plan", 0.1)
    smallest = float(problem.cost().max()) / LARGEST_EXPONENT
    for factor, kind in ((1.01, SharedKernel), (0.99, Equations)):
        objective = Objective(factor * smallest, (1.0, 1.0), Regularizer.PLAN)
        other = Problem(problem.log_h, problem.log_y, problem.support, problem.metric, objective)
        assert type(equations_of(other)) is kind


def test_over_relaxation_cuts_iterations_severalfold():
    # Algorithm 1 takes plain steps: count those that Sinkhorn's tolerance would need.
    problem = dense_problem((float("inf"), float("inf")), "plan", 0.02)
    relaxed = int(Sinkhorn(1e-8).solve(problem).n_iterations.max())
    plain_error = AlgorithmOne(3 * relaxed).solve(problem).error.max()
    assert plain_error > 1e-8
