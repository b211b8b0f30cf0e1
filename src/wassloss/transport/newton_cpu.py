"""Newton's method on the semi-dual, compiled for the CPU.

:class:`~wassloss.transport.newton.Newton` advances a whole batch by torch calls, each of which
passes over a block of costs too large for the cache. Here the same iteration is compiled and run
one example at a time: an evaluation reads the costs once, and the rest stays in the cache.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import torch
from torch import Size, Tensor

from wassloss.transport import newton
from wassloss.transport._threads import spread
from wassloss.transport.entropic import (
    Equations,
    conclude,
    default_tolerance,
    initial_potential,
    negligible_exponent,
)
from wassloss.transport.newton import Newton
from wassloss.transport.objective import Objective, Regularizer
from wassloss.transport.problem import Problem
from wassloss.transport.solution import Solution

if TYPE_CHECKING:
    from wassloss.transport._newton_kernel import Scratch, Terms

# How many costs are worth a helper's 0.1 ms of coming and going, over a solve and in one pass.
WORTH_SOLVING = 2**14
WORTH_PASSING = 2**20


# Numba compiles the loops; it is optional. Looked up once, for a tracer cannot follow the look-up.
COMPILES = importlib.util.find_spec("numba") is not None


def available() -> bool:
    """Whether Numba is there."""
    return COMPILES


@dataclass(frozen=True)
class NewtonCPU(Newton):
    """`Newton`, compiled: the same steps to the same answer, three to ten times faster.

    Needs Numba: see `available`. The first solve in each precision compiles for some seconds;
    later processes find the result on disk, if there is a directory to write to. Examples are
    spread over as many threads as torch uses.
    """

    @staticmethod
    def applies(problem: Problem) -> bool:
        known = problem.log_h.dtype in (torch.float32, torch.float64)
        on_cpu = problem.log_h.device.type == "cpu"
        return available() and on_cpu and known and not problem.objective.exact

    def solve(self, problem: Problem, start: Tensor | None = None) -> Solution:
        if not has_memory(problem.log_h):
            return super().solve(problem, start)
        from wassloss.transport._newton_kernel import maximize

        tol = self.tol if self.tol is not None else default_tolerance(problem.log_h.dtype)
        equations = CompiledEquations.of(problem)
        g = initial_potential(equations, start).contiguous()
        n_iterations = torch.empty(problem.batch, dtype=torch.long)
        terms = terms_of(
            problem.objective, problem.log_h.dtype, tol, self.max_iterations, staged=start is None
        )
        log_h, log_y, least_mass = map(
            as_array, (problem.log_h, problem.log_y, equations.least_mass)
        )
        cost, rows = as_array(equations.cost), as_array(equations.rows)
        best, counted = as_array(g), as_array(n_iterations)

        def work(first: int, last: int, scratch: Scratch) -> None:
            maximize(
                first, last, log_h, log_y, cost, rows, least_mass, terms, scratch, best, counted
            )

        equations.spread(work, WORTH_SOLVING)
        solution = conclude(problem, equations, g, n_iterations, tol)
        if not solution.converged.all():
            problem.cost()  # raises where the costs are to blame
        return solution


def terms_of(
    objective: Objective, dtype: torch.dtype, tol: float, max_iterations: int, *, staged: bool
) -> Terms:
    """What the compiled code is told of a problem, apart from its data."""
    from wassloss.transport._newton_kernel import Terms

    info = torch.finfo(dtype)
    return Terms(
        epsilon=float(objective.epsilon),
        gamma_h=float(objective.gamma[0]),
        gamma_y=float(objective.gamma[1]),
        product=objective.regularizer is Regularizer.PRODUCT,
        eps=info.eps,
        tiny=info.tiny,
        largest=info.max,
        negligible=negligible_exponent(dtype),
        tol=float(tol),
        max_iterations=max_iterations,
        staged=staged,
        first_exponent=newton.FIRST_EXPONENT,
        stage_factor=newton.STAGE_FACTOR,
        stage_tolerance=newton.STAGE_TOLERANCE,
        last_stage_tolerance=newton.LAST_STAGE_TOLERANCE,
        sufficient_increase=newton.SUFFICIENT_INCREASE,
        shrink=newton.SHRINK,
        smallest_step=newton.SMALLEST_STEP,
        ridge=newton.RIDGE,
        longest_step=newton.LONGEST_STEP,
    )


@dataclass(frozen=True, kw_only=True)
class CompiledEquations(Equations):
    """`Equations` at one `epsilon`, whose passes over the cost are compiled.

    `cost` is `(any number, labels)` and `rows` says which of it belongs to a target: costs that
    examples share, or that the metric has a table of, are not copied.
    """

    rows: Tensor  # (batch, support)

    @classmethod
    def of(cls, problem: Problem) -> CompiledEquations:
        cost, rows = _costs(problem)
        return cls(**vars(Equations.of(replace(problem, columns=cost))), rows=rows)

    def _row_log_sum(self, g: Tensor) -> Tensor:
        from wassloss.transport._newton_kernel import row_log_sums

        w = (g / self.epsilon + self.beta).double()
        return self._pass(row_log_sums, w, self.log_h.shape)

    def column_log_sum(self, f: Tensor) -> Tensor:
        from wassloss.transport._newton_kernel import column_log_sums

        return self._pass(column_log_sums, f / self.epsilon + self.alpha, self.log_y.shape)

    def _pass(self, function: Callable[..., None], exponent: Tensor, shape: Size) -> Tensor:
        result = torch.empty(shape, dtype=self.cost.dtype)
        given = as_array(exponent), as_array(self.cost), as_array(self.rows)
        rate, low, out = (
            1 / float(self.epsilon),
            negligible_exponent(result.dtype),
            as_array(result),
        )

        def work(first: int, last: int, scratch: Scratch) -> None:
            function(first, last, *given, rate, low, scratch, out)

        self.spread(work, WORTH_PASSING)
        return result

    def spread(self, work: Callable[[int, int, Scratch], None], worth_a_thread: int) -> None:
        """Call `work(first, last, scratch)` for all examples, on as many threads as it is worth."""
        from wassloss.transport._newton_kernel import new_scratch

        (batch, support), labels = self.rows.shape, self.cost.shape[1]
        most_threads = 1 + batch * support * labels // worth_a_thread
        dtype = as_array(self.log_h).dtype
        spread(work, batch, lambda: new_scratch(support, labels, dtype), most_threads)


def _costs(problem: Problem) -> tuple[Tensor, Tensor]:
    """Costs `(any number, labels)`, and which of them belongs to each target `(batch, support)`."""
    shape, table = problem.log_y.shape, problem.metric.known_costs_in(problem.log_h.dtype)
    if problem.columns is None and table is not None:
        return table, problem.support.expand(shape)
    columns = problem.cost()
    if columns.stride(0) == 0:
        return columns[0], torch.arange(shape[1]).expand(shape)
    return columns.flatten(0, 1), torch.arange(shape.numel()).view(shape)


def has_memory(x: Tensor) -> bool:
    """Whether NumPy can see the numbers: inside the transforms of `torch.func` it cannot."""
    try:
        x.data_ptr()
    except RuntimeError:
        return False
    return True


def as_array(x: Tensor) -> Any:
    """The same numbers as a NumPy array, in the same memory if they are contiguous there."""
    return x.detach().contiguous().numpy()
