"""A target whose marginal is free (`γ_b = 0`): each label's mass goes wherever that is cheapest."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from wassloss.transport.entropic import Equations
from wassloss.transport.problem import Problem
from wassloss.transport.solution import Solution


@dataclass(frozen=True)
class Nearest:
    """No target has to be reached by any mass, so that labels do not compete for targets.

    Their potentials are zero, and each label has its own from the costs alone: the cost of the
    nearest target, or with an entropy a soft minimum of the costs, `−ε log Σ_j y_j e^{−M_ij/ε}`
    for ``"product"``.
    """

    @staticmethod
    def applies(problem: Problem) -> bool:
        return problem.objective.free_target

    def solve(self, problem: Problem, start: torch.Tensor | None = None) -> Solution:
        objective, g = problem.objective, torch.zeros_like(problem.log_y)
        if objective.exact:
            absent = (problem.log_y == -torch.inf).unsqueeze(2)
            f, place = problem.cost().masked_fill(absent, torch.inf).min(1)
            h = problem.log_h.exp()
            plan = torch.zeros_like(problem.cost()).scatter_(1, place.unsqueeze(1), h.unsqueeze(1))
            return Solution.exact(problem, (h * f).sum(1), f, g, plan)
        equations = Equations.of(problem)
        f = equations.f_of(g)
        plan_mass = objective.marginal(problem.log_h, f, 0).sum(1)
        return Solution.exact(problem, equations.dual(f, g, plan_mass), f, g)
