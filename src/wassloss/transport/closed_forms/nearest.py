"""A target whose marginal is free (`γ_b = 0`): each label's mass goes wherever that is cheapest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from wassloss.transport.kernel_sums import BlockLogSums
from wassloss.transport.problem import Problem
from wassloss.transport.solution import Solution
from wassloss.transport.solver import Solver


@dataclass(frozen=True)
class Nearest(Solver):
    """No target has to be reached by any mass, so that labels do not compete for targets.

    Their potentials are zero, and each label has its own from the costs alone: the cost of the
    nearest target, or with an entropy a soft minimum of the costs, `−ε log Σ_j y_j e^{−M_ij/ε}`
    for ``"product"``.
    """

    meets_free_target: ClassVar[bool] = True

    @classmethod
    def applies(cls, problem: Problem) -> bool:
        return problem.objective.free_target

    def solve(self, problem: Problem, start: Tensor | None = None) -> Solution:
        objective, log_h, log_y = problem.objective, problem.log_h, problem.log_y
        f, g = self.potential(problem), torch.zeros_like(log_y)
        plan_mass = objective.marginal(log_h, f, 0).sum(1)
        value = objective.dual(log_h, log_y, f, g, plan_mass, objective.epsilon)
        plan = nearest_plan if objective.exact else None
        return Solution.exact(problem, value, f, g, plan)

    def potential(self, problem: Problem) -> Tensor:
        """`f`, `(batch, labels)`."""
        objective = problem.objective
        if objective.exact:
            return _costs_of_present(problem).amin(1)
        alpha, beta = objective.log_reference(problem.log_h, problem.log_y)
        log_sum = BlockLogSums(problem.costs.gathered(), objective.epsilon).over_support(beta)
        strength = objective.damping(objective.epsilon, 0) * objective.epsilon
        return strength * (problem.log_h - alpha - log_sum)


def nearest_plan(problem: Problem) -> Tensor:
    """The plan without an entropy, `(batch, support, labels)`: all to the nearest target."""
    costs = _costs_of_present(problem)
    place, plan = costs.argmin(1, keepdim=True), costs.new_zeros(costs.shape)
    return plan.scatter_(1, place, problem.log_h.exp().unsqueeze(1))


def _costs_of_present(problem: Problem) -> Tensor:
    absent = (problem.log_y == -torch.inf).unsqueeze(2)
    return problem.cost().masked_fill(absent, torch.inf)
