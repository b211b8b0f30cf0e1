"""One label in the target: only one plan meets both marginals, so there is nothing to search."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from wassloss.transport.objective import Regularizer
from wassloss.transport.problem import Problem
from wassloss.transport.solution import Solution
from wassloss.transport.solver import Solver


@dataclass(frozen=True)
class OneHot(Solver):
    """All of `h` goes to the one target κ: `W = Σ_i h_i M_iκ`, for any `epsilon` and regulariser.

    The regulariser adds its value at that plan: `ε Σ h log h` for ``"plan"``, nothing for
    ``"product"`` when the mass is 1.
    """

    traceable: ClassVar[bool] = True

    @classmethod
    def applies(cls, problem: Problem) -> bool:
        return problem.log_y.shape[1] == 1 and problem.objective.balanced

    def solve(self, problem: Problem, start: Tensor | None = None) -> Solution:
        epsilon, log_y = problem.objective.epsilon, problem.log_y
        h, cost = problem.log_h.exp(), problem.cost().squeeze(1)
        if problem.objective.regularizer is Regularizer.PRODUCT:
            mass = log_y.exp().squeeze(1)  # (batch,)
            f, g = cost, -epsilon * log_y
            value = (h * cost).sum(1) - epsilon * mass * (log_y.squeeze(1) + 1 - mass)
        else:
            f, g = cost + epsilon * (problem.log_h + 1), torch.zeros_like(log_y)
            value = (h * (cost + epsilon * problem.log_h)).sum(1)
        return Solution.exact(problem, value, f, g, plan=h.unsqueeze(1))
