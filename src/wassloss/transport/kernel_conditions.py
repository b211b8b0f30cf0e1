"""The optimality conditions with their sums taken the cheapest way: see `kernel_sums.py`."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from wassloss.transport.conditions import OptimalityConditions
from wassloss.transport.kernel_sums import (
    KernelSums,
    kernel_sums_of,
    neglected,
)
from wassloss.transport.problem import Problem


@dataclass(frozen=True)
class KernelConditions(OptimalityConditions):
    """The conditions at one fixed `epsilon`; no costs are kept but those `sums` needs."""

    epsilon: float
    sums: KernelSums
    cut: bool = False  # whether `sums` may neglect something

    @classmethod
    def of(
        cls, problem: Problem, dtype: torch.dtype = torch.float64, *, cut: bool = False
    ) -> KernelConditions:
        """The conditions of a problem; for `dtype` and `cut` see `kernel_sums_of`."""
        sums = kernel_sums_of(problem, dtype, cut=cut)
        return cls(**cls.parts_of(problem), sums=sums, cut=cut)

    def __getitem__(self, rows: Tensor) -> KernelConditions:
        return replace(self, **self.parts_in(rows), sums=self.sums[rows])

    def neglected(self, f: Tensor, g: Tensor) -> Tensor:
        """What a cut kernel may have added to the error at these potentials, `(batch,)`."""
        log_u, log_v = f / self.epsilon + self.alpha, g / self.epsilon + self.beta
        return neglected(self.sums, log_u, log_v)

    def potential(self, log_v: Tensor) -> Tensor:
        """The target's potentials of log-scalings `g/ε + β`, `(batch, support)`; 0 on padding."""
        return (self.epsilon * (log_v - self.beta)).where(self.present, 0)

    def column_log_sum(self, f: Tensor) -> Tensor:
        return self.sums.over_labels(f / self.epsilon + self.alpha)

    def _row_log_sum(self, g: Tensor) -> Tensor:
        return self.sums.over_support(g / self.epsilon + self.beta)
