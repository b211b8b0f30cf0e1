"""Newton's method on the semi-dual, compiled for the CPU.

Every operation of the torch version passes over a block of costs too large for the cache. Here the
same iteration runs one example at a time: an evaluation reads the costs once, and everything else
stays in the cache.
"""

from __future__ import annotations

from typing import Any

import torch

from wassloss import native
from wassloss._checks import has_memory
from wassloss.transport.objective import Objective, Regularizer
from wassloss.transport.problem import Problem
from wassloss.transport.solution import Solution, Status


def runs(problem: Problem) -> bool:
    """Whether the compiled core is installed and can read the problem."""
    x = problem.log_h
    readable = x.device.type == "cpu" and x.dtype in (torch.float32, torch.float64)
    return readable and native.available() and has_memory(x) and has_memory(problem.log_y)


def maximize(problem: Problem, tol: float, max_iterations: int) -> Solution:
    """Solve each example; see `lockstep.py`."""
    threads = torch.get_num_threads()
    settings = settings_of(problem.objective, tol, max_iterations, threads=threads)
    cost, rows = problem.costs.rows()
    rows = rows.expand_as(problem.log_y)
    value, f, g, n_iterations, error = native.maximize(
        settings, problem.log_h, problem.log_y, rows, cost
    )
    converged = error <= tol
    status = Status.of(problem, converged, tol)
    return Solution(problem, value, f, g, n_iterations, error, converged, status).centred()


def settings_of(
    objective: Objective, tol: float, max_iterations: int, **others: Any
) -> native.Settings:
    """The compiled core's settings for a solve; `others` are those of a loss."""
    return native.settings(
        epsilon=objective.epsilon,
        gamma=objective.gamma,
        unequal_price=objective.price_of_unequal_masses,
        product=objective.regularizer is Regularizer.PRODUCT,
        tol=tol,
        max_iterations=max_iterations,
        **others,
    )
