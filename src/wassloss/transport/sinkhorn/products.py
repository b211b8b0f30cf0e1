"""What solvers share whose iterations are products with the kernel."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from wassloss.transport.kernel_conditions import KernelConditions
from wassloss.transport.kernel_sums import KernelProducts, shares_kernel
from wassloss.transport.problem import Problem
from wassloss.transport.solution import Solution
from wassloss.transport.solver import IterativeSolver


class CutTooShortError(Exception):
    """A cut kernel neglects what this problem needs."""


@dataclass(frozen=True)
class ProductSolver(IterativeSolver):
    """A solver that keeps no block of costs where one kernel serves the whole batch.

    It chooses its own precision: products in single precision are cheaper, and only the solver
    knows when their digits no longer suffice.
    """

    max_iterations: int = 10_000

    def elements_per_example(self, problem: Problem) -> int:
        if problem.costs.axes is not None or shares_kernel(problem):
            return problem.log_h.shape[1] + problem.log_y.shape[1]
        return super().elements_per_example(problem)

    def with_costs(self, problem: Problem) -> Problem:
        costs = problem.costs
        by_table = shares_kernel(problem) and not costs.shared
        return problem if costs.axes is not None or by_table else problem.gathered()

    def answer(self, problem: Problem, start: Tensor | None) -> Solution:
        return self.solve(self.with_costs(problem), start).to(problem)


def solved_by_products(
    problem: Problem, tol: float, iterate: Callable[[KernelConditions], Solution]
) -> Solution:
    """What `iterate` makes of a problem's conditions, with products wherever they will do.

    Beyond the range of products they are tried with a cut kernel, and the answer is kept if what
    was neglected is bounded by a fraction of the tolerance; the bound is part of its error.
    """
    conditions = KernelConditions.of(problem, problem.dtype)
    if not isinstance(conditions.sums, KernelProducts) and problem.dtype == torch.float64:
        cut = KernelConditions.of(problem, cut=True)
        if isinstance(cut.sums, KernelProducts):
            with suppress(CutTooShortError):
                return _admitted(iterate(cut), cut, tol)
    return iterate(conditions)


def _admitted(solution: Solution, cut: KernelConditions, tol: float) -> Solution:
    """The solution with all of its error, if what was neglected does not matter."""
    bound = cut.neglected(solution.f, solution.g)
    error = solution.error + bound
    fine = (bound <= 0.1 * tol) & ((error <= tol) == solution.converged)
    if not bool(fine.all()):
        raise CutTooShortError
    return replace(solution, error=error)
