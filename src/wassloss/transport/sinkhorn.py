"""Sinkhorn's alternating updates in the log domain, each example until it has converged."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from wassloss.transport.entropic import Equations, conclude, default_tolerance, initial_potential
from wassloss.transport.problem import Problem
from wassloss.transport.solution import Solution


@dataclass(frozen=True)
class Sinkhorn:
    """Alternate `f ← f(g)` and `g ← g(f)`: simple and sturdy, slow where `epsilon` is small.

    Balanced or relaxed, the two updates differ only in the damping of Proposition 4.2. An example
    leaves the batch as soon as its own error is within `tol`.
    """

    tol: float | None = None
    max_iterations: int = 10_000

    @staticmethod
    def applies(problem: Problem) -> bool:
        return not problem.objective.exact

    def solve(self, problem: Problem, start: Tensor | None = None) -> Solution:
        tol = self.tol if self.tol is not None else default_tolerance(problem.log_h.dtype)
        whole = Equations.of(problem)
        result = initial_potential(whole, start)
        n_iterations = torch.full((problem.batch,), self.max_iterations, device=result.device)

        active = torch.arange(problem.batch, device=result.device)
        equations, g = whole, result.clone()
        for iteration in range(self.max_iterations + 1):
            log_sum = equations.column_log_sum(equations.f_of(g))
            done = equations.error(equations.column_mass(log_sum, g), g) <= tol
            if done.any() or iteration == self.max_iterations:
                result[active] = g
                n_iterations[active[done]] = iteration
                left = ~done
                active, equations, g, log_sum = (
                    active[left],
                    equations[left],
                    g[left],
                    log_sum[left],
                )
                if not active.numel():
                    break
            g = equations.g_of(log_sum)
        return conclude(problem, whole, result, n_iterations, tol)
