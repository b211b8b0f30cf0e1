"""Equations of a batch whose targets share one support: sums over labels as matrix products.

Dense targets all have the same columns, so one kernel `exp(−M/ε)` serves the whole batch and an
update is a product of a `(batch, labels)` matrix with it, instead of `batch · labels²`
exponentials.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from torch import Tensor

from wassloss._checks import checking
from wassloss.transport.entropic import Equations
from wassloss.transport.problem import Problem

# Each sum has a term of at least e^{−max M/ε} beside its largest factor, so below this exponent
# whatever underflows in double precision is less than 1e-48 of the sum.
LARGEST_EXPONENT = 600.0


@dataclass(frozen=True, kw_only=True)
class SharedKernel(Equations):
    """`Equations` at one fixed `epsilon`, with `kernel = exp(−M/ε)`, `(support, labels)`."""

    kernel: Tensor

    def __getitem__(self, rows: Tensor) -> SharedKernel:
        parts: dict[str, Any] = vars(super().__getitem__(rows))
        return SharedKernel(**parts, kernel=self.kernel)

    def _row_log_sum(self, g: Tensor) -> Tensor:
        return _log_product(g / self.epsilon + self.beta, self.kernel)

    def column_log_sum(self, f: Tensor) -> Tensor:
        return _log_product(f / self.epsilon + self.alpha, self.kernel.T)


def equations_of(problem: Problem) -> Equations:
    """The equations of a problem, with a shared kernel where its support and range allow."""
    equations = Equations.of(problem)
    shared = problem.support.shape[0] == 1 and problem.batch > 1
    # Looking at the range would break a trace; and there is no double precision on mps.
    if not shared or not checking() or equations.cost.device.type == "mps":
        return equations
    exponent = equations.cost[0].double() / problem.objective.epsilon
    if not exponent.max() <= LARGEST_EXPONENT:
        return equations
    return SharedKernel(**vars(equations), kernel=exponent.neg_().exp_())


def _log_product(log_factor: Tensor, kernel: Tensor) -> Tensor:
    """`log(exp(log_factor) @ kernel)`, row by row clear of overflow."""
    largest = log_factor.amax(1, keepdim=True)
    product = (log_factor - largest).double().exp() @ kernel
    return largest + product.log().to(log_factor.dtype)
