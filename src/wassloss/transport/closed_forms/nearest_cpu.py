"""The potentials of a free target, compiled for the CPU.

`Nearest` gathers a block of costs too large for the cache and passes over it some six times. Here
each example's costs are read in place, twice, and only those of labels that its target has.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import torch
from torch import Tensor

from wassloss._checks import has_memory
from wassloss.kernels.launch import WORTH_PASSING, as_array
from wassloss.kernels.threads import spread
from wassloss.transport.closed_forms.nearest import Nearest
from wassloss.transport.newton.cpu import compiles_for, terms_of
from wassloss.transport.problem import Problem

if TYPE_CHECKING:
    from wassloss.kernels.numba.newton import Scratch


@dataclass(frozen=True)
class NearestCPU(Nearest):
    """`Nearest`, compiled. Needs Numba, as :class:`~wassloss.transport.NewtonCPU` does."""

    reads_table: ClassVar[bool] = True

    @classmethod
    def applies(cls, problem: Problem) -> bool:
        return Nearest.applies(problem) and compiles_for(problem)

    def potential(self, problem: Problem) -> Tensor:
        if not has_memory(problem.log_h):
            return super().potential(problem)
        from wassloss.kernels.numba.nearest import nearest_rows
        from wassloss.kernels.numba.newton import new_scratch

        log_h, f = problem.log_h, torch.empty_like(problem.log_h)
        terms = terms_of(problem.objective, log_h.dtype, tol=0, max_iterations=0, staged=False)
        cost, rows = problem.costs.rows()
        rows = rows.expand_as(problem.log_y)
        h_, y_, cost_, rows_, f_ = map(as_array, (log_h, problem.log_y, cost, rows, f))
        (batch, support), labels, dtype = rows.shape, cost.shape[1], h_.dtype

        def work(first: int, last: int, scratch: Scratch) -> None:
            nearest_rows(first, last, h_, y_, cost_, rows_, terms, scratch, f_)

        most_threads = 1 + batch * support * labels // WORTH_PASSING
        spread(work, batch, lambda: new_scratch(support, labels, dtype), most_threads)
        return f
