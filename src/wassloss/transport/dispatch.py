"""Which solver answers which problem, and the care every solve is given."""

from __future__ import annotations

import math
import warnings
from dataclasses import replace
from typing import Protocol

import torch
from torch import Tensor

from wassloss import _checks
from wassloss._checks import check_fits, first_row
from wassloss.transport.algorithm_one import AlgorithmOne
from wassloss.transport.closed_forms.line import LineArea, LineQuantiles
from wassloss.transport.closed_forms.nearest import Nearest
from wassloss.transport.closed_forms.nearest_cpu import NearestCPU
from wassloss.transport.closed_forms.one_hot import OneHot
from wassloss.transport.closed_forms.tree import TreeFlow
from wassloss.transport.closed_forms.zero_one import ZeroOne
from wassloss.transport.conditions import default_tolerance, rounding_of
from wassloss.transport.kernel_sums import axis_costs, shares_kernel
from wassloss.transport.network_simplex import NetworkSimplex
from wassloss.transport.newton.cpu import NewtonCPU
from wassloss.transport.newton.gpu import NewtonGPU
from wassloss.transport.newton.solver import Newton
from wassloss.transport.problem import Problem
from wassloss.transport.sinkhorn.solver import Sinkhorn
from wassloss.transport.sinkhorn.symmetric import Symmetric
from wassloss.transport.solution import ConvergenceWarning, Solution, Status


class Solver(Protocol):
    """How to answer a problem: an algorithm with its budget."""

    def applies(self, problem: Problem) -> bool: ...

    def solve(self, problem: Problem, start: Tensor | None = None) -> Solution: ...


CLOSED_FORMS = (OneHot, ZeroOne, LineArea, LineQuantiles, TreeFlow)
TRACEABLE = (AlgorithmOne, *CLOSED_FORMS)  # no data-dependent control flow

# A Newton step solves a system the size of the support: beyond this, many cheap steps win; sooner
# where the support is shared, for then a cheap step is a matrix product (see kernel_sums.py).
LARGEST_NEWTON_SUPPORT = 512
LARGEST_SHARED_NEWTON_SUPPORT = 128
# Elements of the (examples, support, labels) block solved at once: bounds the memory of a batch.
LARGEST_BLOCK = 2**24
LARGEST_BLOCK_ON_GPU = 2**28  # a gigabyte in single precision: less would leave it idle


def choose_solver(
    problem: Problem,
    *,
    tol: float | None = None,
    max_iterations: int | None = None,
    iterations: int | None = None,
) -> Solver:
    """The solver for a problem: the paper's where asked for, else the cheapest that is exact."""
    if Nearest.applies(problem):
        return NearestCPU() if NearestCPU.applies(problem) else Nearest()
    if iterations is not None:
        return AlgorithmOne(iterations)
    for closed_form in CLOSED_FORMS:
        if closed_form.applies(problem):
            return closed_form()
    budget = {} if max_iterations is None else {"max_iterations": max_iterations}
    if problem.objective.exact:
        return NetworkSimplex(**budget)
    if NewtonGPU.applies(problem):
        return NewtonGPU(tol, **budget)
    shared = problem.support.shape[0] == 1
    largest = LARGEST_SHARED_NEWTON_SUPPORT if shared else LARGEST_NEWTON_SUPPORT
    if problem.log_y.shape[1] <= largest:
        return NewtonCPU(tol, **budget) if NewtonCPU.applies(problem) else Newton(tol, **budget)
    return Sinkhorn(tol, **budget)


@torch.no_grad()
def solve_problem(
    problem: Problem,
    solver: Solver,
    start: Tensor | None = None,
    unsolved: Tensor | None = None,
) -> Solution:
    """Answer a problem, in pieces that fit in memory and in a dtype that can reach `tol`.

    Args:
        problem: what is asked.
        solver: how to answer it.
        start: target potentials to start from.
        unsolved: an integer to which a CUDA graph adds, at each replay, the examples that went
            wrong. Without it they have a value of NaN.
    """
    if not solver.applies(problem) or problem.objective.free_target != isinstance(solver, Nearest):
        raise ValueError(
            f"solver must fit the problem, got {solver} for {problem.objective} on "
            f"{problem.metric!r}"
        )
    _check_strengths(problem)
    if _strengths_need_double(problem):
        wide = None if start is None else start.double()
        fine = solve_problem(problem.to(torch.float64), solver, wide, unsolved)
        return replace(fine.to(problem), fine=fine)
    if not problem.batch:
        value = problem.log_h.sum(1)
        plan = value.new_zeros(0, problem.log_y.shape[1], problem.log_h.shape[1])
        return Solution.exact(problem, value, problem.log_h, problem.log_y, plan)
    # Mixed precision is for networks: a product in half precision has too few digits for a solver.
    with torch.autocast(problem.log_h.device.type, enabled=False):
        if isinstance(solver, TRACEABLE):
            return _checked(solver.solve(problem, start), unsolved)
        run = _solve_in_pieces
        if torch.compiler.is_compiling():
            # Loops that end on data cannot be traced. Not a decorator: that loads the compiler.
            run = torch.compiler.disable(run)
        return run(problem, solver, start, unsolved)


def _check_strengths(problem: Problem) -> None:
    """Refuse strengths that solvers cannot compute with in the dtype of the problem."""
    dtype = problem.log_h.dtype
    check_fits("epsilon", problem.objective.epsilon, dtype)
    for gamma in problem.objective.gamma:
        check_fits("gamma", gamma, dtype)


def _strengths_need_double(problem: Problem) -> bool:
    """Whether dividing by a strength overflows in the dtype of the problem."""
    objective, dtype = problem.objective, problem.log_h.dtype
    smallest = 1 / torch.finfo(dtype).max
    tiny = any(0 < strength < smallest for strength in (objective.epsilon, *objective.gamma))
    return tiny and dtype == torch.float32


def _checked(solution: Solution, unsolved: Tensor | None) -> Solution:
    """The solution as it is, if the dtype can hold it: masses times costs may be too much."""
    if torch.compiler.is_compiling():
        return solution
    if not _checks.can_read_values():
        return _accounted_for(solution, unsolved)
    value, f = solution.value, solution.f
    # Sums, for they are not finite where a summand is not, and need no second pass.
    if math.isfinite(value.sum() + f.sum()):
        return solution
    row = first_row(~(value.isfinite() & f.isfinite().all(1)).unsqueeze(1))
    if row is None:  # each is finite, and only their sum was not
        return solution
    masses = " and ".join(f"{float(mass[row]):.3g}" for mass in solution.problem.masses())
    raise ValueError(
        f"h, target, metric and epsilon must have a cost of transport that {value.dtype} can hold, "
        f"got {float(value[row])} in example {row} from masses of {masses} and "
        f"{solution.problem.objective}; use float64, or divide masses or costs by their maximum"
    )


def _accounted_for(solution: Solution, unsolved: Tensor | None) -> Solution:
    """A CUDA graph can neither raise nor warn: count the examples that went wrong, or mark them."""
    value = solution.value
    wrong = value.isnan()
    if solution.status is not Status.FIXED_ITERATIONS:  # which do not ask for convergence
        wrong = wrong | ~solution.converged
    if unsolved is None:
        return replace(solution, value=value.masked_fill(wrong, math.nan))
    unsolved += wrong.sum()
    return solution


def _solve_in_pieces(
    problem: Problem, solver: Solver, start: Tensor | None, unsolved: Tensor | None
) -> Solution:
    size = max(1, largest_block(problem.log_h.device) // _elements_per_example(problem, solver))
    pieces = [slice(i, i + size) for i in range(0, problem.batch, size)]
    parts = [_solve_piece(problem[p], solver, None if start is None else start[p]) for p in pieces]
    solution = parts[0] if len(parts) == 1 else Solution.concatenate(problem, parts)
    solution = _checked(solution, unsolved)
    if solution.status not in (Status.CONVERGED, Status.EXACT):
        warnings.warn(f"{solution}", ConvergenceWarning, stacklevel=2)
    return solution


def largest_block(device: torch.device) -> int:
    """Elements of a block of costs that may be in memory at once."""
    return LARGEST_BLOCK_ON_GPU if device.type == "cuda" else LARGEST_BLOCK


def _elements_per_example(problem: Problem, solver: Solver) -> int:
    if isinstance(solver, Sinkhorn | Symmetric) and (axis_costs(problem) or shares_kernel(problem)):
        return problem.log_h.shape[1] + problem.log_y.shape[1]  # its costs are the batch's
    return problem.block_size


def _solve_piece(problem: Problem, solver: Solver, start: Tensor | None) -> Solution:
    asked = problem
    if isinstance(solver, Sinkhorn | Symmetric):  # which look after their costs and precision
        if not (axis_costs(problem) or (shares_kernel(problem) and problem.support.shape[0] > 1)):
            problem = problem.with_columns()
        return solver.solve(problem, start).to(asked)
    # Compiled solvers read a table of costs in place; else costs are computed once, here.
    reads_tables = isinstance(solver, NewtonCPU | NewtonGPU | NearestCPU)
    in_place = reads_tables and problem.metric.known_costs is not None
    if not in_place:
        problem = problem.with_columns()
    if not isinstance(solver, Newton | NewtonGPU):
        return solver.solve(problem, start).to(asked)
    tol = default_tolerance(asked.log_h.dtype) if solver.tol is None else solver.tol
    solver = replace(solver, tol=tol)
    if not _needs_double(problem, tol):
        solution = solver.solve(problem, start)
        if not _left_the_range(solution):
            return solution.to(asked)
    problem = asked.to(torch.float64)  # and its costs as the metric has them
    problem = problem if in_place else problem.with_columns()
    return solver.solve(problem, start).to(asked)


def _left_the_range(solution: Solution) -> bool:
    """Whether single precision failed to hold a mass on the way, `h e^{−f/γ}` with a small `γ`."""
    log_h = solution.problem.log_h
    narrow = log_h.dtype == torch.float32 and log_h.device.type != "mps"
    if solution.status is Status.CONVERGED or not narrow or not _checks.can_read_values():
        return False
    return not bool(solution.value.isfinite().all())


def _needs_double(problem: Problem, tol: float) -> bool:
    """Whether rounding alone would keep the error above `tol` in the problem's own dtype."""
    if problem.log_h.dtype == torch.float64 or problem.log_h.device.type == "mps":
        return False  # nothing wider to go to
    largest = problem.metric.largest_known_cost if problem.columns is None else None
    if largest is None:
        largest = float(problem.cost().max())
    reach = largest + problem.largest_shift()
    return rounding_of(reach, problem.objective.epsilon, problem.log_h.dtype) > tol
