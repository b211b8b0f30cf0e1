"""Sinkhorn's updates: their errors and their rates. For laws, see test_conditions.py."""

import math
from typing import Any

import pytest
import torch

import wassloss as wl
from tests.generators import OBJECTIVE_NAMES, OBJECTIVES, random_masses, random_metric
from wassloss import ConvergenceWarning, _memory
from wassloss.transport import Newton, Sinkhorn, Status
from wassloss.transport import dispatch as dispatcher
from wassloss.transport.algorithm_one import AlgorithmOne
from wassloss.transport.conditions import Conditions
from wassloss.transport.kernel_sums import kernel_sums_of
from wassloss.transport.objective import Objective
from wassloss.transport.problem import Problem
from wassloss.transport.sinkhorn import solver as module
from wassloss.transport.sinkhorn.iterations import (
    LARGEST,
    LogIterations,
    OverRelaxation,
    ScalingIterations,
    first_steps,
)

F64 = torch.float64
each_objective = pytest.mark.parametrize(("gamma", "regularizer"), OBJECTIVES, ids=OBJECTIVE_NAMES)


def problem(gamma: Any, regularizer: str, epsilon: float = 0.1) -> dict[str, Any]:
    h, y = random_masses(2, 30, seed=1), random_masses(2, 30, support=5, seed=2)
    objective = {"epsilon": epsilon, "gamma": gamma, "regularizer": regularizer}
    return {"h": h, "y": y, "metric": random_metric(30), **objective}


@each_objective
def test_each_step_raises_the_dual(gamma: tuple[float, float], regularizer: str) -> None:
    values = []
    for count in range(1, 8):
        with pytest.warns(ConvergenceWarning):
            stopped = wl.solve(
                **problem(gamma, regularizer), solver=Sinkhorn(1e-15, max_iterations=count)
            )
        assert stopped.n_iterations.tolist() == [count, count]
        values.append(stopped.value)
    assert (torch.stack(values).diff(dim=0) > 0).all()


def test_an_example_is_done_when_its_own_error_is() -> None:
    given = problem((float("inf"), float("inf")), "plan")  # a single target converges in one step
    given["y"][0] = torch.eye(30, dtype=F64)[3]
    solution = wl.solve(**given, solver=Sinkhorn(1e-9))
    assert solution.n_iterations[0] < solution.n_iterations[1]
    assert (solution.error <= 1e-9).all()
    with pytest.warns(ConvergenceWarning, match="1 of 2 converged"):
        early = wl.solve(
            **given, solver=Sinkhorn(1e-9, max_iterations=int(solution.n_iterations[0]))
        )
    assert early.converged.tolist() == [True, False]
    assert early.status is Status.ITERATIONS_EXHAUSTED


@each_objective
def test_newton_needs_a_fraction_of_the_steps(gamma: tuple[float, float], regularizer: str) -> None:
    given = problem(gamma, regularizer, epsilon=0.01)
    slow = wl.solve(**given, solver=Sinkhorn(1e-8, max_iterations=100_000)).n_iterations
    assert (wl.solve(**given).n_iterations < 0.2 * slow).all()


def dense(
    labels: int, batch: int, epsilon: float, dtype: torch.dtype = F64, **objective: Any
) -> Problem:
    h, y = random_masses(batch, labels, seed=1), random_masses(batch, labels, seed=2)
    everything = torch.arange(labels).unsqueeze(0)
    metric = random_metric(labels)
    asked = Objective(epsilon, **objective)
    return Problem.from_log(h.log().to(dtype), y.to(dtype), everything, metric, asked)


def test_over_relaxation_cuts_iterations_severalfold() -> None:
    # Algorithm 1 takes plain steps: count how many reach Sinkhorn's tolerance.
    problem = dense(30, 4, 0.02)
    relaxed = int(Sinkhorn(1e-8).solve(problem).n_iterations.max())
    plain_error = AlgorithmOne(3 * relaxed).solve(problem).error.max()
    assert plain_error > 1e-8


@pytest.mark.parametrize("theta", [0.9, 0.99, 0.9999])
def test_the_best_relaxation_is_learned_from_the_rate(theta: float) -> None:
    relaxation = OverRelaxation(torch.ones(1, 1, dtype=F64))
    best = min(LARGEST, 2 / (1 + (1 - theta) ** 0.5))
    error = torch.tensor([0.01], dtype=F64)
    for _ in range(30):  # the inverse of Young's formula
        omega = float(relaxation.omega)
        root = max(0.0, omega**2 * theta - 4 * (omega - 1)) ** 0.5
        rate = max(omega - 1, ((omega * theta**0.5 + root) / 2) ** 2)
        error = (error * rate**20).clamp(min=1e-200)
        relaxation.judge(error, 20)
    assert float(relaxation.omega) == pytest.approx(best, rel=0.01)


def test_an_error_that_bursts_goes_back_to_the_best_potentials() -> None:
    relaxation = OverRelaxation(torch.ones(3, 1, dtype=F64))
    relaxation.omega.fill_(1.9)
    good, burst = relaxation.judge(torch.tensor([1e-3, 1e-3, 1e-3], dtype=F64), 5)
    assert good.all()
    assert not burst.any()
    good, burst = relaxation.judge(torch.tensor([5e-3, 1.0, torch.nan], dtype=F64), 5)
    assert burst.squeeze(1).tolist() == [False, True, True]
    assert not good.any()
    assert relaxation.omega.squeeze(1).tolist() == pytest.approx([1.9, 1.63, 1.63])
    assert relaxation.least.squeeze(1).tolist() == [1e-3] * 3


@pytest.mark.parametrize("gamma", [(float("inf"), float("inf")), (0.5, 2.0)])
def test_an_example_does_not_depend_on_the_rest_of_its_batch(gamma: tuple[float, float]) -> None:
    problem = dense(40, 9, 0.02, gamma=gamma)
    together = Sinkhorn(1e-9).solve(problem)
    for i in range(9):
        one = Sinkhorn(1e-9).solve(problem[i : i + 1])
        assert together.n_iterations[i] == one.n_iterations[0]
        torch.testing.assert_close(together.value[i], one.value[0], rtol=1e-11, atol=1e-12)
        torch.testing.assert_close(together.f[i], one.f[0], rtol=1e-6, atol=1e-8)


@pytest.mark.parametrize("budget", [1, 20, 10_000])
def test_double_precision_takes_over_where_single_gets_stuck(
    budget: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "SINGLE_ITERATIONS", 5)
    problem = dense(30, 3, 0.1, torch.float32)
    solution = Sinkhorn(1e-5, max_iterations=budget).solve(problem)
    assert solution.value.dtype == torch.float32
    assert solution.n_iterations.max() <= budget
    if budget == 10_000:
        assert solution.converged.all()
        expected = Newton(1e-10).solve(dense(30, 3, 0.1)).value
        torch.testing.assert_close(solution.value.double(), expected, rtol=1e-5, atol=1e-5)


def test_pieces_of_a_shared_support_make_the_same_whole(monkeypatch: pytest.MonkeyPatch) -> None:
    problem = dense(150, 7, 0.1)
    whole = dispatcher.solve_problem(problem, Sinkhorn(1e-9))
    monkeypatch.setattr(_memory, "LARGEST_BLOCK", 2 * 300)  # two examples per chunk
    pieces = dispatcher.solve_problem(problem, Sinkhorn(1e-9))
    # The error is checked every 20 iterations.
    assert (pieces.n_iterations - whole.n_iterations).abs().max() <= 20
    torch.testing.assert_close(pieces.value, whole.value, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("dtype", [torch.float32, F64], ids=str)
@pytest.mark.parametrize("gamma", [(float("inf"), float("inf")), (0.5, 2.0)])
def test_plain_scalings_take_the_steps_of_the_log_domain(
    gamma: tuple[float, float], dtype: torch.dtype
) -> None:
    asked = dense(40, 5, 0.2, dtype, gamma=gamma)
    conditions = Conditions.of(asked, kernel_sums_of(asked, dtype))
    g = torch.zeros_like(asked.log_y)
    opening = first_steps(conditions, g)
    assert isinstance(opening, ScalingIterations)
    walk = LogIterations(conditions, g)
    opening.step(5)
    walk.step(5)
    close = {"rtol": 1e-4, "atol": 1e-5} if dtype == torch.float32 else {}
    torch.testing.assert_close(opening.error, walk.error, **close)
    apart = opening.g() - walk.g()  # balanced potentials are unique up to a constant
    if gamma[0] == float("inf"):
        apart = apart - apart[:, :1]
    torch.testing.assert_close(apart, torch.zeros_like(apart), rtol=0, atol=1e-5)


def test_scalings_beyond_the_range_of_numbers_stay_in_the_log_domain() -> None:
    asked = dense(30, 2, 0.001)
    conditions = Conditions.of(asked, kernel_sums_of(asked))
    assert isinstance(first_steps(conditions, torch.zeros_like(asked.log_y)), LogIterations)


@pytest.mark.parametrize("dtype", [torch.float32, F64])
@pytest.mark.parametrize("gamma", [(300.0, 300.0), (math.inf, 100.0), (100.0, math.inf)])
@pytest.mark.parametrize("regularizer", ["plan", "product"])
def test_scalings_that_unequal_masses_take_out_of_range_stay_in_the_log_domain(
    regularizer: str, gamma: tuple[float, float], dtype: torch.dtype
) -> None:
    # Costs are a few ε, but the price of missing mass is thousands of ε.
    given = problem(gamma, regularizer, epsilon=1.0)
    y = 1e12 * random_masses(2, 30, seed=2)  # dense, sharing a kernel
    given = {**given, "h": given["h"].to(dtype), "y": y.to(dtype)}
    found = wl.solve(**given, solver=Sinkhorn())
    torch.testing.assert_close(
        found.value.double(), wl.solve(**given, solver=Newton()).value.double(), rtol=1e-4, atol=0
    )


@pytest.mark.parametrize("epsilon", [0.042, 0.049, 0.056, 0.058])
def test_labels_without_mass_under_a_strong_damping(epsilon: float) -> None:
    # The log that stands for no mass is huge, and so is β of the product regulariser: a scaling
    # recovered from such a label's potential would be rounding noise, up to infinity.
    h = torch.tensor([[0, 0, 0, 0, 9.173, 0, 0, 0]])
    y = torch.tensor([[0, 0.2994, 2.975, 0, 0, 5.45e-6, 2.201, 2.505]])
    asked: dict[str, Any] = {"epsilon": epsilon, "gamma": (math.inf, 0.018)}
    metric = wl.ground.Ordinal(8, power=2, scale=28.0)
    found = []
    for solver in (Sinkhorn(), Newton()):
        target = y.clone().requires_grad_()  # so that labels without mass have a gradient
        value = wl.wasserstein(h, target, metric, regularizer="product", solver=solver, **asked)
        found.append((value, *torch.autograd.grad(value.sum(), target)))
    torch.testing.assert_close(found[0], found[1], rtol=1e-4, atol=1e-5)
