"""Sinkhorn's updates: what they count, and how slow they are. The laws are in test_entropic.py."""

from typing import Any

import pytest
import torch

import wassloss as wl
from tests.generators import OBJECTIVE_NAMES, OBJECTIVES, random_masses, random_metric
from wassloss import ConvergenceWarning
from wassloss.transport import AlgorithmOne, Newton, Sinkhorn, Status

F64 = torch.float64
each_objective = pytest.mark.parametrize(("gamma", "regularizer"), OBJECTIVES, ids=OBJECTIVE_NAMES)


def problem(gamma: Any, regularizer: str, epsilon: float = 0.1) -> dict[str, Any]:
    h, y = random_masses(2, 30, seed=1), random_masses(2, 30, support=5, seed=2)
    objective = {"epsilon": epsilon, "gamma": gamma, "regularizer": regularizer}
    return {"h": h, "y": y, "metric": random_metric(30), **objective}


@each_objective
def test_starting_at_the_solution_takes_no_step(
    gamma: tuple[float, float], regularizer: str
) -> None:
    given = problem(gamma, regularizer)
    cold = wl.solve(**given, solver=Newton(1e-12))
    warm = wl.solve(**given, solver=Sinkhorn(1e-11), start=cold)
    assert warm.n_iterations.tolist() == [0, 0]
    torch.testing.assert_close(warm.value, cold.value, rtol=1e-14, atol=0)


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
    given = problem((float("inf"), float("inf")), "plan")  # one target is met in one step
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


def test_balanced_steps_are_those_of_algorithm_one() -> None:
    # The paper starts from u = 1, which is half a step before Sinkhorn's g = 0.
    given = problem((float("inf"), float("inf")), "plan")
    paper = wl.solve(**given, solver=AlgorithmOne(6))
    with pytest.warns(ConvergenceWarning):
        ours = wl.solve(
            **given,
            solver=Sinkhorn(1e-15, max_iterations=5),
            start=wl.solve(**given, solver=AlgorithmOne(1)),
        )
    torch.testing.assert_close(ours.f, paper.f)
