"""Exact transport for any cost: POT's network simplex, with examples spread over threads."""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wassloss.transport.problem import Problem
from wassloss.transport.solution import Solution, Status
from wassloss.transport.solver import SolveOptions, Solver

# Labels with a smaller share of the mass are left out: double precision does not resolve it.
SMALLEST_SHARE = 1e-15

Array = NDArray[np.float64]


@dataclass(frozen=True)
class NetworkSimplex(Solver):
    """The linear program `min <T, M>`, restricted to the labels that carry mass.

    The solver runs in double precision on the CPU and releases the GIL, so examples are spread over
    threads. `f` is the largest potential that `g` allows, `f_i = min_j (M_ij − g_j)`. It is also
    defined for labels without mass (and so is `g`), and is a subgradient of the loss.
    """

    max_iterations: int = 10_000_000

    @classmethod
    def applies(cls, problem: Problem) -> bool:
        return problem.objective.exact and problem.objective.balanced

    @classmethod
    def from_options(cls, options: SolveOptions) -> NetworkSimplex:
        return cls(options.max_iterations or cls.max_iterations)

    def solve(self, problem: Problem) -> Solution:
        cost = problem.cost()
        given = (problem.log_h.exp(), problem.log_y.exp(), cost)
        h, y, costs = (x.to("cpu", torch.float64).numpy() for x in given)
        plans, potentials, paid = np.zeros_like(costs), np.zeros_like(y), np.zeros(len(y))
        rows, columns = (x > SMALLEST_SHARE * x.sum(1, keepdims=True) for x in (h, y))
        optimal = np.ones(len(y), dtype=bool)

        def work(b: int) -> None:
            block, targets = np.ix_(columns[b], rows[b]), columns[b]
            active = np.ascontiguousarray(costs[b][block].T)
            part, g, optimal[b] = self._solve_one(h[b, rows[b]], y[b, targets], active)
            plans[b][block], potentials[b, targets] = part.T, g
            paid[b] = (part * active).sum()

        with warnings.catch_warnings():
            # The dispatcher's ConvergenceWarning says more.
            warnings.filterwarnings("ignore", "numItermax reached before optimality")
            _on_threads(work, len(y))

        # The value is the cost of the plan: from potentials it would lose digits to cancellation.
        plan, g, value = (torch.from_numpy(x).to(problem.log_h) for x in (plans, potentials, paid))
        used, converged = (torch.from_numpy(x).to(g.device) for x in (columns, optimal))
        f = (cost - g.unsqueeze(2)).masked_fill(~used.unsqueeze(2), torch.inf).amin(1)
        g = torch.where(used, g, (cost - f.unsqueeze(1)).amin(2))
        solution = Solution.exact(problem, value, f, g, plan)
        if optimal.all():
            return solution
        error, status = solution.error.where(converged, torch.inf), Status.ITERATIONS_EXHAUSTED
        return replace(solution, converged=converged, error=error, status=status)

    def _solve_one(self, source: Array, sink: Array, cost: Array) -> tuple[Array, Array, bool]:
        """The plan, the potentials of the sink, and whether they are optimal."""
        import ot  # slow to import, and only exact problems without a closed form need it

        sink = sink * (source.sum() / sink.sum())
        # The solver's tolerances are absolute, so scale masses and costs to about 1.
        mass, unit = _power_of_two(source.sum()), _power_of_two(cost.max())
        plan, log = ot.lp.emd(
            source / mass, sink / mass, cost / unit, numItermax=self.max_iterations, log=True
        )
        return plan * mass, log["v"] * unit, log["warning"] is None


def _on_threads(work: Callable[[int], None], count: int) -> None:
    """Call `work` for each example, on as many threads as torch may use."""
    threads = min(torch.get_num_threads(), count)
    if threads > 1:
        try:
            with ThreadPoolExecutor(threads) as pool:
                list(pool.map(work, range(count)))  # re-raises what an example raised
            return
        except RuntimeError:  # no new threads: the interpreter shuts down, or a limit is reached
            pass
    for b in range(count):
        work(b)


def simplex_plan(problem: Problem) -> Tensor:
    """An optimal plan on the support, for closed forms that find the value without one."""
    return NetworkSimplex().solve(problem).support_plan()


def _power_of_two(value: float) -> float:
    """A power of two of the size of a number, by which division is exact; 1 for 0."""
    return math.ldexp(1.0, min(max(math.frexp(value)[1], -1000), 1000)) if value > 0 else 1.0
