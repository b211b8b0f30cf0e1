"""A target whose marginal is free (`γ_b = 0`): each label's mass goes wherever that is cheapest."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from wassloss._checks import has_memory
from wassloss.kernels.launch import WORTH_PASSING
from wassloss.transport.kernel_sums import BlockLogSums
from wassloss.transport.newton.cpu import compiles_for, run_compiled, terms_of
from wassloss.transport.problem import Problem
from wassloss.transport.solution import Solution
from wassloss.transport.solver import Solver


@dataclass(frozen=True)
class Nearest(Solver):
    """No target has to be reached by any mass, so that labels do not compete for targets.

    Their potentials are zero, and each label has its own from the costs alone: the cost of the
    nearest target, or with an entropy a soft minimum of the costs, `−ε log Σ_j y_j e^{−M_ij/ε}`
    for ``"product"``. In torch that takes some six passes over a block of costs; compiled code
    reads each example's costs in place, twice.
    """

    reads_table: ClassVar[bool] = True
    meets_free_target: ClassVar[bool] = True

    @classmethod
    def applies(cls, problem: Problem) -> bool:
        return problem.objective.free_target

    def solve(self, problem: Problem, start: Tensor | None = None) -> Solution:
        objective, log_h, log_y = problem.objective, problem.log_h, problem.log_y
        compiled = compiles_for(problem) and has_memory(log_h)
        f, g = (compiled_potential if compiled else potential)(problem), torch.zeros_like(log_y)
        plan_mass = objective.marginal(log_h, f, 0).sum(1)
        value = objective.dual(log_h, log_y, f, g, plan_mass, objective.epsilon)
        return Solution.exact(problem, value, f, g, nearest_plan if objective.exact else None)


def potential(problem: Problem) -> Tensor:
    """`f`, `(batch, labels)`."""
    objective = problem.objective
    if objective.exact:
        return _costs_of_present(problem).amin(1)
    alpha, beta = objective.log_reference(problem.log_h, problem.log_y)
    sums = BlockLogSums(problem.costs.gathered(), objective.epsilon)
    strength = objective.damping(objective.epsilon, 0) * objective.epsilon
    return strength * (problem.log_h - alpha - sums.log_sum(beta, over_labels=False))


def compiled_potential(problem: Problem) -> Tensor:
    """`potential`, compiled for the CPU; NaN where there is no target at all."""
    from wassloss.kernels.numba.nearest import nearest_rows

    f = torch.empty_like(problem.log_h)
    terms = terms_of(problem.objective, f.dtype, tol=0, max_iterations=0, staged=False)
    run_compiled(nearest_rows, problem, terms, (f,), WORTH_PASSING)
    return f


def nearest_plan(problem: Problem) -> Tensor:
    """The plan without an entropy, `(batch, support, labels)`: all to the nearest target."""
    costs = _costs_of_present(problem)
    place, plan = costs.argmin(1, keepdim=True), costs.new_zeros(costs.shape)
    return plan.scatter_(1, place, problem.log_h.exp().unsqueeze(1))


def _costs_of_present(problem: Problem) -> Tensor:
    absent = (problem.log_y == -torch.inf).unsqueeze(2)
    return problem.cost().masked_fill(absent, torch.inf)
