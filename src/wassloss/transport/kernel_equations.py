"""The optimality conditions with their sums taken the cheapest way: see `log_sums.py`."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from wassloss._checks import checking
from wassloss.transport.entropic import Conditions
from wassloss.transport.log_sums import LogSums, axis_costs, log_sums_of, shares_kernel
from wassloss.transport.problem import Problem


@dataclass(frozen=True)
class KernelEquations(Conditions):
    """The conditions at one fixed `epsilon`; no costs are kept but those `sums` needs."""

    epsilon: float
    sums: LogSums
    largest: Tensor  # a scalar

    @classmethod
    def of(cls, problem: Problem, dtype: torch.dtype = torch.float64) -> KernelEquations:
        """The equations of a problem; matrix products, if any, are taken in `dtype`."""
        sums, largest = log_sums_of(problem, dtype), largest_cost(problem)
        return cls(**cls.parts_of(problem), sums=sums, largest=largest)

    def __getitem__(self, rows: Tensor) -> KernelEquations:
        return replace(
            self,
            log_h=self.log_h[rows],
            log_y=self.log_y[rows],
            alpha=self.alpha[rows],
            beta=self.beta[rows],
            least_mass=self.least_mass[rows],
            sums=self.sums[rows],
        )

    def largest_cost(self) -> Tensor:
        return self.largest

    def column_log_sum(self, f: Tensor) -> Tensor:
        return self.sums.over_labels(f / self.epsilon + self.alpha)

    def _row_log_sum(self, g: Tensor) -> Tensor:
        return self.sums.over_support(g / self.epsilon + self.beta)


def largest_cost(problem: Problem) -> Tensor:
    """The largest cost of a problem, a scalar in its dtype; no matrix is built for a grid."""
    if not checking():
        return problem.cost().max()
    axes = axis_costs(problem)
    if axes is not None:
        return torch.stack([axis.max() for axis in axes]).sum().to(problem.log_h.dtype)
    table = problem.metric.known_costs
    if not shares_kernel(problem):
        return problem.cost().max()
    if problem.columns is not None or problem.support.shape[0] == 1 or table is None:
        return problem.shared_cost().max()
    return table.max().to(problem.log_h.dtype)
