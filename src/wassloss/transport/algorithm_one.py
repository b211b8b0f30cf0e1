"""The paper's Algorithm 1, run for exactly the requested number of iterations."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar

import torch

from wassloss.transport.conditions import Conditions
from wassloss.transport.kernel_sums import kernel_sums_of
from wassloss.transport.problem import Problem
from wassloss.transport.solution import Solution, Status
from wassloss.transport.solver import SolveOptions, Solver


@dataclass(frozen=True)
class AlgorithmOne(Solver):
    """`iterations` matrix scalings from `u = 1`, in the log domain, with the paper's gradient.

    One iteration is `u ← h ⊘ K (y ⊘ Kᵀu)` (with the paper's exponents when relaxed), where
    `u = e^{λf}`. Balanced problems take their gradient from `log u / λ`, centred; relaxed ones
    refresh `v` once more and use `γ_a (1 − T1 ⊘ h)`.

    No data-dependent control flow: the loop traces under `torch.compile`.
    """

    traceable: ClassVar[bool] = True

    iterations: int

    @classmethod
    def applies(cls, problem: Problem) -> bool:
        return not problem.objective.exact and not problem.objective.free_target

    @classmethod
    def preferred(cls, problem: Problem, options: SolveOptions) -> bool:
        return options.scaling_iterations is not None

    @classmethod
    def from_options(cls, options: SolveOptions) -> AlgorithmOne:
        return cls(options.scaling_iterations or 1)

    def solve(self, problem: Problem) -> Solution:
        conditions, objective = Conditions.of(problem, kernel_sums_of(problem)), problem.objective
        f = torch.zeros_like(conditions.log_h)
        for _ in range(self.iterations):
            g = conditions.g_of(conditions.column_log_sum(f))
            f = conditions.f_of(g)
        log_sum = conditions.column_log_sum(f)
        error = conditions.error(conditions.column_mass(log_sum, g), conditions.wanted(g))

        slope_f = None
        if not objective.balanced:
            g = conditions.g_of(log_sum)
        if not math.isinf(objective.gamma[0]):
            # −γ_a log(T1 ⊘ h), which is f at convergence: T1 = h e^{−f(g)/γ_a} e^{(f − f(g))/ε}.
            best = conditions.f_of(g)
            slope_f = best - objective.gamma[0] * ((f - best) / objective.epsilon)

        value = conditions.dual(f, g, conditions.column_mass(log_sum, g).sum(1))
        n_iterations = torch.full_like(error, self.iterations, dtype=torch.long)
        parts = value, f, g, n_iterations, error, torch.zeros_like(error, dtype=torch.bool)
        return Solution(problem, *parts, Status.FIXED_ITERATIONS, slope_f).centred()
