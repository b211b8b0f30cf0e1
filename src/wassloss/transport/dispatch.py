"""Choose a solver for a problem, then chunk, cast and validate."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import replace

import torch
from torch import Tensor

from wassloss import _checks
from wassloss._memory import largest_block, pieces
from wassloss.kernels.newton_constants import NO_LOG_MASS
from wassloss.transport.algorithm_one import AlgorithmOne
from wassloss.transport.closed_forms import CLOSED_FORMS, Nearest
from wassloss.transport.network_simplex import NetworkSimplex
from wassloss.transport.newton import Newton
from wassloss.transport.problem import Problem
from wassloss.transport.sinkhorn import Sinkhorn
from wassloss.transport.solution import ConvergenceWarning, Solution, Status
from wassloss.transport.solver import SolveOptions, Solver

# In order of preference: Algorithm 1 if its iterations are requested, closed forms, then the
# cheapest solver that converges.
SOLVERS: list[type[Solver]] = [
    Nearest, AlgorithmOne, *CLOSED_FORMS, NetworkSimplex, Newton, Sinkhorn,
]  # fmt: skip

_DEFAULTS = SolveOptions()
_COLLECTED: ContextVar[list[str] | None] = ContextVar("unconverged solves", default=None)


def choose_solver(problem: Problem, options: SolveOptions = _DEFAULTS) -> Solver:
    """The solver for a problem: the one requested, or the first that applies."""
    if options.solver is not None:
        return options.solver
    for solver in SOLVERS:
        if solver.preferred(problem, options):
            return solver.from_options(options)
    raise ValueError(f"no solver applies to {problem.objective} on {problem.metric!r}")


@torch.no_grad()
def solve_problem(problem: Problem, solver: Solver, unsolved: Tensor | None = None) -> Solution:
    """Solve a problem, in pieces that fit in memory and in a dtype that can reach `tol`.

    In a CUDA graph, each replay adds the number of failed examples to `unsolved`. Without
    `unsolved`, their value is NaN.
    """
    if not solver.applies(problem):
        raise ValueError(
            f"solver must fit the problem, got {solver} for {problem.objective} on "
            f"{problem.metric!r}"
        )
    if not problem.batch:
        value = problem.log_h.sum(1)
        plan = value.new_zeros(0, problem.log_y.shape[1], problem.log_h.shape[1])
        return Solution.exact(problem, value, problem.log_h, problem.log_y, plan)
    # Autocast would compute products in half precision, which has too few digits for a solver.
    with torch.autocast(problem.log_h.device.type, enabled=False):
        if solver.traceable:
            own = replace(problem, costs=problem.costs.uncached())
            return _checked(replace(solver.solve(own), problem=problem), unsolved)
        run = _solve_in_pieces
        if _checks.is_traced():
            # Data-dependent loops cannot be traced. A decorator would load the compiler on import.
            run = torch.compiler.disable(run)
        return run(problem, solver, unsolved)


def _solve_in_pieces(problem: Problem, solver: Solver, unsolved: Tensor | None) -> Solution:
    width, budget = solver.elements_per_example(problem), largest_block(problem.log_h.device)
    # Slice again for the solution: the slice that was solved caches its costs.
    parts = [
        solver.answer(problem[rows]).to(problem[rows])
        for rows in pieces(problem.batch, width, budget)
    ]
    solution = parts[0] if len(parts) == 1 else Solution.concatenate(problem, parts)
    solution = _checked(solution, unsolved)
    if solution.status not in (Status.CONVERGED, Status.EXACT):
        collected = _COLLECTED.get()
        if collected is None:
            warnings.warn(f"{solution}", ConvergenceWarning, stacklevel=2)
        else:
            collected.append(f"{solution}")
    return solution


@contextmanager
def unconverged_solves() -> Iterator[list[str]]:
    """Collect the messages of unconverged solves in this thread, instead of warning."""
    messages: list[str] = []
    token = _COLLECTED.set(messages)
    try:
        yield messages
    finally:
        _COLLECTED.reset(token)


def _checked(solution: Solution, unsolved: Tensor | None) -> Solution:
    """Return the solution; raise a ValueError if masses times costs overflowed."""
    if _checks.is_traced():
        return solution
    if not _checks.can_read_values():
        return _accounted_for(solution, unsolved)
    value, f = solution.value, solution.f
    # A sum is finite only if its terms are, so one pass is usually enough.
    if math.isfinite(value.sum() + f.sum()):
        return solution
    # In relaxed transport, the potential of a label without mass is −inf in theory.
    held = f.isfinite() | (solution.problem.log_h <= NO_LOG_MASS)
    row = _checks.first_row(~(value.isfinite() & held.all(1)))
    if row is None:  # only the sum overflowed
        return solution
    masses = " and ".join(f"{float(mass[row]):.3g}" for mass in solution.problem.masses())
    raise ValueError(
        f"h, target, metric and epsilon must give a transport cost that {value.dtype} can hold, "
        f"got {float(value[row])} in example {row} from masses of {masses} and "
        f"{solution.problem.objective}; use float64, or divide masses or costs by their maximum"
    )


def _accounted_for(solution: Solution, unsolved: Tensor | None) -> Solution:
    """Count or mark failed examples, because a CUDA graph can neither raise nor warn."""
    value, wrong = solution.value, solution.value.isnan()
    if solution.status is not Status.FIXED_ITERATIONS:  # those have no tolerance to reach
        wrong = wrong | ~solution.converged
    if unsolved is None:
        return replace(solution, value=value.masked_fill(wrong, math.nan))
    unsolved += wrong.sum()
    return solution
