"""Exact transport for any cost: POT's network simplex, examples spread over threads."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wassloss.kernels.threads import spread
from wassloss.transport.problem import Problem
from wassloss.transport.solution import Solution
from wassloss.transport.solver import SolveOptions, Solver

# Labels with a smaller share of the mass are left out: double precision cannot tell the difference.
SMALLEST_SHARE = 1e-15

Array = NDArray[np.float64]
Answer = tuple[Array, float, Array, NDArray[np.bool_], bool]  # plan, cost, g, support, optimal?


@dataclass(frozen=True)
class NetworkSimplex(Solver):
    """The linear program `min <T, M>`, restricted to the labels that carry mass.

    The solver runs in double precision on the CPU and releases Python's lock, so examples are
    spread over threads. `f` is the largest potential that `g` allows, `f_i = min_j (M_ij − g_j)`:
    defined for labels without mass too (and `g` likewise), it is a subgradient of the loss.
    """

    max_iterations: int = 10_000_000

    @classmethod
    def applies(cls, problem: Problem) -> bool:
        return problem.objective.exact

    @classmethod
    def from_options(cls, options: SolveOptions) -> NetworkSimplex:
        given = options.max_iterations
        return cls() if given is None else cls(given)

    def solve(self, problem: Problem, start: Tensor | None = None) -> Solution:
        cost = problem.cost()
        given = (problem.log_h.exp(), problem.log_y.exp(), cost)
        examples = list(zip(*(x.to("cpu", torch.float64).numpy() for x in given), strict=True))
        found: list[Answer] = [None] * len(examples)  # type: ignore[list-item]

        def work(first: int, last: int, scratch: None) -> None:
            found[first:last] = [self._solve_one(example) for example in examples[first:last]]

        with warnings.catch_warnings():
            # Ours says more, and which examples it is about.
            warnings.filterwarnings("ignore", "numItermax reached before optimality")
            spread(work, len(examples), lambda: None, len(examples))
        plans, paid, potentials, supports, optimal = zip(*found, strict=True)

        plan = torch.from_numpy(np.stack(plans)).to(problem.log_h)
        g = torch.from_numpy(np.stack(potentials)).to(problem.log_h)
        used = torch.from_numpy(np.stack(supports)).to(g.device)
        f = (cost - g.unsqueeze(2)).masked_fill(~used.unsqueeze(2), torch.inf).amin(1)
        g = torch.where(used, g, (cost - f.unsqueeze(1)).amin(2))
        # What the plan costs, in double precision: potentials would cancel to it, and lose digits.
        value = torch.tensor(paid, dtype=torch.float64).to(problem.log_h)
        solution = Solution.exact(problem, value, f, g, plan)
        if not all(optimal):
            solution = solution.unfinished(torch.tensor(optimal, device=g.device))
        return solution

    def _solve_one(self, example: tuple[Array, Array, Array]) -> Answer:
        import ot  # slow to import, and only exact problems without a closed form need it

        h, y, cost = example
        rows, columns = h > SMALLEST_SHARE * h.sum(), y > SMALLEST_SHARE * y.sum()
        source, sink = h[rows], y[columns]
        sink = sink * (source.sum() / sink.sum())
        active = np.ascontiguousarray(cost[np.ix_(columns, rows)].T)
        # The solver's tolerances are absolute: hand it masses and costs of about 1.
        mass, unit = _power_of_two(source.sum()), _power_of_two(active.max())
        part, log = ot.lp.emd(
            source / mass, sink / mass, active / unit, numItermax=self.max_iterations, log=True
        )
        part = part * mass
        plan, g = np.zeros_like(cost), np.zeros_like(y)
        plan[np.ix_(columns, rows)] = part.T
        g[columns] = log["v"] * unit
        return plan, float((part * active).sum()), g, columns, log["warning"] is None


def simplex_plan(problem: Problem) -> Tensor:
    """An optimal plan on the support, for closed forms that find the value without one."""
    return NetworkSimplex().solve(problem).support_plan()


def _power_of_two(value: float) -> float:
    """A power of two of the size of a number, so that dividing by it is exact; 1 for 0."""
    return math.ldexp(1.0, min(max(math.frexp(value)[1], -1000), 1000)) if value > 0 else 1.0
