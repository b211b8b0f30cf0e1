"""Labels that are all equally far apart: half the ℓ1 distance."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from torch import Tensor

from wassloss.ground import Discrete
from wassloss.transport.network_simplex import simplex_plan
from wassloss.transport.problem import Problem
from wassloss.transport.solution import Solution
from wassloss.transport.solver import Solver


@dataclass(frozen=True)
class ZeroOne(Solver):
    """Exact transport under the 0-1 metric: `W = ½ Σ |h − y|`, times the one cost there is."""

    traceable: ClassVar[bool] = True

    @classmethod
    def applies(cls, problem: Problem) -> bool:
        return problem.objective.exact and isinstance(problem.metric, Discrete)

    def solve(self, problem: Problem, start: Tensor | None = None) -> Solution:
        excess = problem.log_h.exp() - problem.dense_target()
        metric = problem.metric
        cost = (1.0 / metric.scale) ** metric.power
        f = 0.5 * cost * excess.sign()
        return Solution.exact(
            problem, 0.5 * cost * excess.abs().sum(1), f, -problem.on_support(f), simplex_plan
        )
