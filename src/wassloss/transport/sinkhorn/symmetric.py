"""A measure against itself, for the debiased divergence: one potential, averaged updates."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from wassloss.transport.conditions import Conditions, conclude
from wassloss.transport.kernel_sums import kernel_sums_of
from wassloss.transport.precision import can_widen, products_fit_single
from wassloss.transport.problem import Problem
from wassloss.transport.sinkhorn.solver import ProductSolver
from wassloss.transport.solution import Solution

STRIDE = 5  # iterations between looks at the error
# Smaller scalings are raised to this: they change nothing, and their products would be denormal.
LEAST_LOG_SCALING = {torch.float64: -300.0, torch.float32: -60.0}


@dataclass(frozen=True)
class Symmetric(ProductSolver):
    """`log u ← ½ (log u + log h − log K u)`, which only needs some tens of iterations.

    By symmetry both scalings of `T = diag(u) K diag(u)` are one. Sinkhorn's update alone would
    swing around it; the mean of the two sides of a swing shrinks the error by half or better,
    whatever `ε`, where `K` is positive semi-definite. (The update's derivative has eigenvalues
    `−λ`, with `0 ≤ λ ≤ 1` those of `T` between its marginals: the mean has `½ (1 − λ)`.) Distances
    of vectors, trees and lines make it so; for other costs the rate may be worse, never above 1.
    """

    @classmethod
    def applies(cls, problem: Problem) -> bool:
        square = problem.log_h.shape == problem.log_y.shape
        return square and problem.objective.balanced and not problem.objective.exact

    def solve(self, problem: Problem, start: Tensor | None = None) -> Solution:
        """Solve; the target's masses are taken to be the prediction's, label by label."""
        tol, epsilon = self.tolerance(problem), problem.objective.epsilon
        if not can_widen(problem.log_h) or products_fit_single(problem.reach(), epsilon, tol):
            return self._solve(problem, tol)
        return self._solve(problem.to(torch.float64), tol).to(problem)

    def _solve(self, problem: Problem, tol: float) -> Solution:
        """Solve in the problem's own precision."""
        conditions = Conditions.of(problem, kernel_sums_of(problem, problem.dtype))
        log_h, mass = conditions.log_h, conditions.log_h.exp()
        total, least = mass.sum(1), LEAST_LOG_SCALING[log_h.dtype]
        log_u = 0.5 * log_h
        sums = conditions.sums.log_sum(log_u, over_labels=False)
        n_iterations = torch.zeros_like(total, dtype=torch.long)
        for iteration in range(self.max_iterations + 1):
            if iteration % STRIDE == 0 or iteration == self.max_iterations:
                error = ((log_u + sums).exp() - mass).abs().sum(1) / total
                # Half the tolerance: the error is measured once more, after half an update.
                running = ~(error <= 0.5 * tol)
                n_iterations = torch.where(running, iteration, n_iterations)
                if not running.any():
                    break
            log_u = (0.5 * (log_u + log_h - sums)).clamp_(min=least)
            sums = conditions.sums.log_sum(log_u, over_labels=False)
        return conclude(problem, conditions, conditions.potential(log_u), n_iterations, tol)
