"""The optimality conditions with their sums taken the cheapest way: see `kernel_sums.py`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from wassloss.transport.conditions import OptimalityConditions
from wassloss.transport.kernel_sums import (
    AxisLogSums,
    BlockLogSums,
    KernelProducts,
    KernelSums,
    axis_costs,
    kernel_sums_of,
    neglected,
    shares_kernel,
)
from wassloss.transport.problem import Problem
from wassloss.transport.solution import Solution


class CutTooShortError(Exception):
    """A cut kernel neglects what this problem needs."""


@dataclass(frozen=True)
class KernelConditions(OptimalityConditions):
    """The conditions at one fixed `epsilon`; no costs are kept but those `sums` needs."""

    epsilon: float
    sums: KernelSums
    problem: Problem
    cut: bool = False  # whether `sums` may neglect something

    @classmethod
    def of(
        cls, problem: Problem, dtype: torch.dtype = torch.float64, *, cut: bool = False
    ) -> KernelConditions:
        """The equations of a problem; for `dtype` and `cut` see `kernel_sums_of`."""
        sums = kernel_sums_of(problem, dtype, cut=cut)
        return cls(**cls.parts_of(problem), sums=sums, problem=problem, cut=cut)

    def __getitem__(self, rows: Tensor) -> KernelConditions:
        """The equations of some examples; `problem` stays that of all."""
        return replace(
            self,
            log_h=self.log_h[rows],
            log_y=self.log_y[rows],
            alpha=self.alpha[rows],
            beta=self.beta[rows],
            least_mass=self.least_mass[rows],
            sums=self.sums[rows],
        )

    def neglected(self, f: Tensor, g: Tensor) -> Tensor:
        """What a cut kernel may have added to the error at these potentials, `(batch,)`."""
        log_u, log_v = f / self.epsilon + self.alpha, g / self.epsilon + self.beta
        return neglected(self.sums, log_u, log_v)

    def potential(self, log_v: Tensor) -> Tensor:
        """The target's potentials of log-scalings `g/ε + β`, `(batch, support)`; 0 on padding."""
        return (self.epsilon * (log_v - self.beta)).where(self.present, 0)

    def largest_cost(self) -> float:
        return largest_cost(self.problem)

    def column_log_sum(self, f: Tensor) -> Tensor:
        return self.sums.over_labels(f / self.epsilon + self.alpha)

    def _row_log_sum(self, g: Tensor) -> Tensor:
        return self.sums.over_support(g / self.epsilon + self.beta)


def solved_by_products(
    problem: Problem, tol: float, iterate: Callable[[KernelConditions], Solution]
) -> Solution:
    """What `iterate` makes of a problem's equations, with products wherever they will do.

    Beyond the range of products they are tried with a cut kernel, and the answer is kept if what
    was neglected is bounded by a fraction of the tolerance; the bound is part of its error.
    """
    equations = KernelConditions.of(problem, problem.log_h.dtype)
    by_terms = isinstance(equations.sums, BlockLogSums | AxisLogSums)
    if by_terms and problem.log_h.dtype == torch.float64:
        cut = KernelConditions.of(problem, cut=True)
        if isinstance(cut.sums, KernelProducts):
            with suppress(CutTooShortError):
                return _admitted(iterate(cut), cut, tol)
    return iterate(equations)


def _admitted(solution: Solution, cut: KernelConditions, tol: float) -> Solution:
    """The solution with all of its error, if what was neglected does not matter."""
    bound = cut.neglected(solution.f, solution.g)
    error = solution.error + bound
    fine = (bound <= 0.1 * tol) & ((error <= tol) == solution.converged)
    if not bool(fine.all()):
        raise CutTooShortError
    return replace(solution, error=error)


def largest_cost(problem: Problem) -> float:
    """The largest cost of a problem; no matrix is built for a grid."""
    axes = axis_costs(problem)
    if axes is not None:
        return sum(float(axis.max()) for axis in axes)
    if not shares_kernel(problem):
        return float(problem.cost().max())
    return problem.largest_shared_cost
