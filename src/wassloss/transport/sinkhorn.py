"""Sinkhorn's alternating updates, over-relaxed, each example until it has converged."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from wassloss.transport.entropic import conclude, default_tolerance, initial_potential
from wassloss.transport.problem import Problem
from wassloss.transport.shared_kernel import equations_of
from wassloss.transport.solution import Solution

PERIOD = 20  # iterations over which the rate of convergence is measured
LARGEST_RELAXATION = 1.95
TOO_MUCH = 0.9  # what is left of the excess over 1 where the rate says it may be too much
MUCH_TOO_MUCH = 0.7  # and where the error grew


@dataclass(frozen=True)
class Sinkhorn:
    """Alternate `f ← f(g)` and `g ← g(f)`, each step lengthened by a factor `1 ≤ ω < 2`.

    Balanced or relaxed, the two updates differ only in the damping of Proposition 4.2. Plain
    updates (`ω = 1`) shrink the error by a factor `θ` an iteration, with `1 − θ` of the order of
    `ε`; the best `ω` brings that to its square root (Thibault et al., *Overrelaxed Sinkhorn-Knopp*,
    2021). `θ` is estimated from the rate observed. An example leaves the batch as soon as its own
    error is within `tol`.
    """

    tol: float | None = None
    max_iterations: int = 10_000

    @staticmethod
    def applies(problem: Problem) -> bool:
        return not problem.objective.exact

    def solve(self, problem: Problem, start: Tensor | None = None) -> Solution:
        tol = self.tol if self.tol is not None else default_tolerance(problem.log_h.dtype)
        whole = equations_of(problem)
        result = initial_potential(whole, start)
        n_iterations = torch.full((problem.batch,), self.max_iterations, device=result.device)

        active = torch.arange(problem.batch, device=result.device)
        equations, g = whole, result.clone()
        best = f = whole.f_of(g)
        omega = torch.ones_like(g[:, :1])
        before = torch.full_like(g[:, 0], torch.inf)  # the error a period ago
        for iteration in range(self.max_iterations + 1):
            log_sum = equations.column_log_sum(f)
            error = equations.error(equations.column_mass(log_sum, g), g)
            # A lengthened step leaves f short of its best, and the other marginal in error too.
            error = error + equations.row_error(f, best)
            done = error <= tol
            if done.any() or iteration == self.max_iterations:
                result[active] = g
                n_iterations[active[done]] = iteration
                left = ~done
                active, equations = active[left], equations[left]
                log_sum, error, before = log_sum[left], error[left], before[left]
                f, g, omega = f[left], g[left], omega[left]
                if not active.numel():
                    break
            if iteration % PERIOD == 0:
                if iteration > PERIOD:
                    omega = better_relaxation(omega, (error / before).unsqueeze(1))
                before = error
            g = g + omega * (equations.g_of(log_sum) - g)
            best = equations.f_of(g)
            f = f + omega * (best - f)
        return conclude(problem, whole, result, n_iterations, tol)


def better_relaxation(omega: Tensor, progress: Tensor) -> Tensor:
    """The `ω` to go on with, from the factor by which the error changed over a period.

    Young's formula for successive over-relaxation: where the rate `λ` per iteration is above
    `ω − 1`, it tells `θ = (λ + ω − 1)² / (λ ω²)`, and `2 / (1 + √(1 − θ))` would be best. A rate of
    `ω − 1` is what any `ω` beyond the best gives: try less.
    """
    rate = progress.clamp(1e-12, 1e12) ** (1 / PERIOD)
    theta = ((rate + omega - 1) ** 2 / (rate * omega**2)).clamp(max=1 - 1e-6)
    best = 2 / (1 + (1 - theta).sqrt())
    told = torch.where(rate > omega - 0.99, torch.maximum(best, omega), 1 + (omega - 1) * TOO_MUCH)
    told = torch.where(rate > 1, 1 + (omega - 1) * MUCH_TOO_MUCH, told)
    return told.clamp(1.0, LARGEST_RELAXATION)
