"""The interface of a solver: how it solves a problem, and what the dispatcher needs to know."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any, ClassVar

import torch

from wassloss import _checks
from wassloss.transport.objective import Objective
from wassloss.transport.precision import can_widen, needs_double, tolerance
from wassloss.transport.problem import Problem
from wassloss.transport.solution import Solution, Status


@dataclass(frozen=True)
class SolveOptions:
    """The solver and its budget, checked on construction and stored as plain numbers.

    Attributes:
        tol: marginal error to solve to; None for the dtype's default.
        max_iterations: iterations after which to give up (and warn); None for the solver's own.
        scaling_iterations: run the paper's Algorithm 1 for exactly this many iterations instead.
        solver: use this solver instead of choosing one.
    """

    tol: float | None = None
    max_iterations: int | None = None
    scaling_iterations: int | None = None
    solver: Solver | None = None

    def __post_init__(self) -> None:
        limits = ("tol", "max_iterations", "scaling_iterations")
        names = [name for name in limits if getattr(self, name) is not None]
        for name in names:
            check: Any = _checks.check_number if name == "tol" else _checks.check_count
            object.__setattr__(self, name, check(name, getattr(self, name)))
        if self.tol is not None and not self.tol > 0:
            raise ValueError(f"tol must be positive, got {self.tol}")
        solver = self.solver
        if solver is not None and (isinstance(solver, type) or not hasattr(solver, "solve")):
            raise TypeError(
                f"solver must be a solver of wassloss.transport, such as Newton(), got {solver!r}"
            )
        if solver is not None and names:
            raise ValueError(f"solver has its own budget: leave out {', '.join(names)}")
        if self.scaling_iterations is not None and len(names) > 1:
            raise ValueError(
                f"scaling_iterations is the whole budget: leave out {', '.join(names[:-1])}"
            )

    def budget(self, otherwise: int) -> int:
        """Number of iterations: exact for Algorithm 1, otherwise the maximum."""
        return self.scaling_iterations or self.max_iterations or otherwise

    def check_objective(self, objective: Objective) -> None:
        """Raise a ValueError if Algorithm 1 is requested but not defined for the objective."""
        count = self.scaling_iterations
        if count is not None and objective.free_target:
            raise ValueError(
                "scaling_iterations must be left out if the target's gamma is 0, because the "
                f"solution has a closed form, got {count}"
            )
        if count is not None and objective.exact:
            raise ValueError(f"epsilon must be positive where scaling_iterations={count}, got 0")


class Solver(ABC):
    """An algorithm with its budget.

    To add one, write a subclass and put it in the list of `dispatch.py`.

    Attributes:
        traceable: no control flow depends on data, so `torch.compile` can trace `solve`.
    """

    traceable: ClassVar[bool] = False

    @classmethod
    @abstractmethod
    def applies(cls, problem: Problem) -> bool:
        """Whether this solver can solve a problem correctly."""

    @classmethod
    def preferred(cls, problem: Problem, options: SolveOptions) -> bool:
        """Whether to choose this solver if none before it applies."""
        return cls.applies(problem)

    @classmethod
    def from_options(cls, options: SolveOptions) -> Solver:
        """The solver with the budget of a loss."""
        return cls()

    @abstractmethod
    def solve(self, problem: Problem) -> Solution:
        """Solve a problem in its own dtype."""

    def elements_per_example(self, problem: Problem) -> int:
        """How many numbers a solve stores per example, in the problem's dtype."""
        return problem.log_y.shape[1] * problem.log_h.shape[1]

    def answer(self, problem: Problem) -> Solution:
        """Solve in a dtype that can reach the tolerance; called for one piece of a batch."""
        return self.solve(problem)


@dataclass(frozen=True)
class IterativeSolver(Solver):
    """A solver that iterates until the marginal error is within `tol`.

    If rounding alone would keep the error above `tol`, `answer` solves in double precision.
    """

    tol: float | None = None
    max_iterations: int = 1000

    @classmethod
    def applies(cls, problem: Problem) -> bool:
        return not problem.objective.exact and not problem.objective.free_target

    @classmethod
    def from_options(cls, options: SolveOptions) -> Solver:
        given = options.max_iterations
        return cls(options.tol, cls.max_iterations if given is None else given)

    def tolerance(self, problem: Problem) -> float:
        """The marginal error to solve to, from `tol` or the default of the problem's dtype."""
        tol, objective = tolerance(self.tol, problem.dtype), problem.objective
        return objective.marginal_error(tol, problem.reach()) if objective.values_are_costs else tol

    def answer(self, problem: Problem) -> Solution:
        solver = replace(self, tol=tolerance(self.tol, problem.dtype))
        log_h, epsilon = problem.log_h, problem.objective.epsilon
        if not needs_double(log_h, problem.reach, epsilon, solver.tolerance(problem)):
            solution = solver.solve(problem)
            if not (can_widen(log_h) and _left_the_range(solution)):
                return solution
        return solver.solve(problem.to(torch.float64))


def _left_the_range(solution: Solution) -> bool:
    """Whether a mass or a potential overflowed single precision.

    A mass is `h e^{−f/γ}`, which is large at a small `γ`; a potential is −inf without mass.
    """
    if solution.status is Status.CONVERGED or not _checks.can_read_values():
        return False
    return not bool(solution.value.isfinite().all() and solution.f.isfinite().all())
