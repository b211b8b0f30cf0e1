"""Sums with the kernel `exp(−M/ε)`, as matrix products wherever these stay in range.

Entropic solvers need two: `log Σ_j exp(log_v_j − M_ij/ε)` over the support for every label, and the
same over labels for every target. The ways to compute them, cheapest first:

================  ==========================================================================
`Products`        one kernel for the whole batch, in a matrix product; where the cost is a sum over
                  the axes of a grid, one small product per axis, `O(labels^{3/2})` in the plane
`AxisLogSums`     along the axes too, but term by term in the log domain, for any `M/ε`
`BlockLogSums`    term by term over each example's own block of costs
================  ==========================================================================

Only the last stores a number for every example, target and label. Products can also be tried beyond
their range: the kernel is cut off where it would underflow, and what that neglects is bounded
afterwards. This works for steep costs, such as the paper's `power=13`, because plans use only the
smallest of them.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import TypeAlias, TypeVar, cast

import torch
from torch import Tensor

from wassloss import _checks, _memory
from wassloss._memory import pieces
from wassloss.kernels import launch
from wassloss.transport.precision import (
    LARGEST_EXPONENT,
    LARGEST_PLAIN_EXPONENT,
    LEAST_LOG_FACTOR,
    negligible_exponent,
)
from wassloss.transport.problem import Problem, some_rows

Buffer = Tensor | None  # overwritten if given
Shared = TypeVar("Shared", bound="SharedKernelSums")


@dataclass(frozen=True)
class SharedKernelSums:
    """Sums with one kernel for all examples; only the support differs."""

    support: Tensor | None  # (batch, support); None if it is all labels, in order

    def __getitem__(self: Shared, rows: Tensor) -> Shared:
        """The sums of some examples."""
        return self if self.support is None else replace(self, support=self.support[rows])


@dataclass(frozen=True)
class Products(SharedKernelSums):
    """Products with one kernel for all examples, or with one per axis of a grid.

    The kernel is `exp(−M/ε)`, `(support, labels)`, or `(labels, labels)` if `support` is given. If
    the cost is `Σ_a M_a`, there is one `exp(−M_a/ε)`, `(cells, cells)`, per axis.
    """

    kernels: tuple[Tensor, ...]
    plain: bool  # whether exponentials are safe without subtracting the maximum
    cut: bool = False  # whether the kernel is cut off, so that `neglected` has to be checked

    @property
    def dtype(self) -> torch.dtype:
        """The precision of the products."""
        return self.kernels[0].dtype

    def product(self, x: Tensor, out: Tensor | None = None, *, over_labels: bool) -> Tensor:
        """`Kᵀu (batch, support)` if `over_labels`, else `K v (batch, labels)`."""
        if self.support is None:
            return self._product(x, out, over_labels)
        if over_labels:
            return torch.gather(self._product(x, None, True), 1, self.support, out=out)
        size = math.prod(len(kernel) for kernel in self.kernels)
        return self._product(_scattered(x, self.support, size), out, False)

    def _product(self, x: Tensor, out: Tensor | None, over_labels: bool) -> Tensor:
        *others, last = self.kernels
        if not others:
            return torch.mm(x, last.T if over_labels else last, out=out)
        shape, before = x.shape, len(x)
        for kernel in others:
            x = kernel @ x.reshape(before, len(kernel), -1)  # an axis's kernel is symmetric
            before *= len(kernel)
        out = None if out is None else out.view(-1, len(last))
        return torch.mm(x.reshape(-1, len(last)), last, out=out).view(shape)

    def log_sum(
        self, x: Tensor, scratch: Buffer = None, out: Buffer = None, *, over_labels: bool
    ) -> Tensor:
        """The log of `product(exp(x))`; `scratch` has the shape of `x`."""
        if self.plain and x.dtype == self.dtype:
            return self.product(torch.exp(x, out=scratch), out, over_labels=over_labels).log_()
        largest = x.amax(1, keepdim=True)
        shifted = torch.sub(x, largest, out=scratch if x.dtype == self.dtype else None)
        factors = shifted.to(self.dtype).clamp_(min=LEAST_LOG_FACTOR[self.dtype]).exp_()
        logs = self.product(factors, out, over_labels=over_labels).log_().add_(largest)
        return logs.to(x.dtype)

    def neglected(self, log_u: Tensor, log_v: Tensor) -> Tensor:
        """A bound on the relative error of the sums due to cutting off the kernel, `(batch,)`.

        A term beyond the cut is at most the largest factor times the kernel there.
        """
        on_labels = self.log_sum(log_v, over_labels=False)
        on_support = self.log_sum(log_u, over_labels=True).where(log_v > -torch.inf, torch.inf)
        worst = []
        for factors, sums in ((log_v, on_labels), (log_u, on_support)):
            largest = factors.amax(1) - LARGEST_EXPONENT[torch.float64] + math.log(factors.shape[1])
            worst.append((largest - sums.amin(1)).exp())
        return worst[0] + worst[1]


@dataclass(frozen=True)
class AxisLogSums(SharedKernelSums):
    """Log-sums along one axis of a grid after the other."""

    exponents: tuple[Tensor, ...]  # −M_a/ε (cells, cells) of each axis; the cost is Σ_a M_a

    def log_sum(
        self, x: Tensor, scratch: Buffer = None, out: Buffer = None, *, over_labels: bool
    ) -> Tensor:
        if self.support is not None and not over_labels:
            # Scatter in the log domain: −inf at labels without a target.
            labels = math.prod(len(exponent) for exponent in self.exponents)
            empty = x.new_full((len(x), labels), -math.inf)
            shift = _finite(empty.scatter_reduce(1, self.support, x, "amax"))
            powers = (x - shift.gather(1, self.support)).exp()
            x = _scattered(powers, self.support, labels).log_() + shift
        x = self._along_axes(x)
        if self.support is not None and over_labels:
            x = x.gather(1, self.support)
        return x if out is None else out.copy_(x)

    def _along_axes(self, x: Tensor) -> Tensor:
        shape, before = x.shape, len(x)
        for exponent in self.exponents:
            cells = len(exponent)
            rows = x.reshape(before, cells, -1)  # (…, cells, cells of the axes after)
            parts = []
            for piece in pieces(len(rows), cells * cells * rows.shape[2], _memory.LARGEST_BLOCK):
                terms = rows[piece].unsqueeze(1) + exponent.unsqueeze(2)
                shift = _finite(terms.amax(2, keepdim=True))
                parts.append((terms - shift).exp_().sum(2).log_() + shift.squeeze(2))
            x, before = torch.cat(parts), before * cells
        return x.reshape(shape)


@dataclass(frozen=True)
class BlockLogSums:
    """Log-sums over a block of costs per example, or one block for all."""

    block: Tensor  # (batch or 1, support, labels)
    epsilon: float | Tensor  # a number or (batch, 1, 1)

    def log_sum(
        self, x: Tensor, scratch: Buffer = None, out: Buffer = None, *, over_labels: bool
    ) -> Tensor:
        dim = 2 if over_labels else 1
        parts = list(pieces(len(x), self.block.shape[1:].numel(), _memory.LARGEST_BLOCK))
        if len(parts) <= 1:
            logs = log_sum_exp(self.terms(x, over_labels=over_labels), dim)
            return logs if out is None else out.copy_(logs)
        found = [self[rows].log_sum(x[rows], over_labels=over_labels) for rows in parts]
        return torch.cat(found, out=out)

    def terms(self, x: Tensor, *, over_labels: bool) -> Tensor:
        """The exponents that are summed, `(batch, support, labels)`."""
        x = x.unsqueeze(1 if over_labels else 2)
        if isinstance(self.epsilon, Tensor):
            return x - self.block / self.epsilon
        return torch.sub(x, self.block, alpha=1 / self.epsilon)

    def __getitem__(self, rows: slice | Tensor) -> BlockLogSums:
        epsilon = self.epsilon[rows] if isinstance(self.epsilon, Tensor) else self.epsilon
        return BlockLogSums(some_rows(self.block, rows), epsilon)


KernelSums: TypeAlias = Products | AxisLogSums | BlockLogSums  # with `log_sum` and `[rows]`


def kernel_sums_of(
    problem: Problem, dtype: torch.dtype = torch.float64, *, cut: bool = False
) -> KernelSums:
    """Choose the cheapest way to compute a problem's sums, with products in `dtype`.

    If `cut`, the kernel may be cut off at the end of their range: see `Products.neglected`.
    """
    epsilon, costs, support = problem.objective.epsilon, problem.costs, None
    # The range is unknown in a trace, and there is no double precision on mps.
    readable = _checks.can_read_values()
    if not readable or (problem.log_h.device.type == "mps" and dtype == torch.float64):
        return BlockLogSums(costs.block(), epsilon)
    labels = torch.arange(problem.metric.size, device=problem.support.device)
    if costs.axes is not None:
        tables = costs.axes
        if not (costs.shared and torch.equal(costs.support[0], labels)):
            support = costs.support.expand_as(problem.log_y)
    elif not shares_kernel(problem):
        return BlockLogSums(costs.block(), epsilon)
    elif costs.shared:
        tables = (costs.block()[0],)
    else:
        tables, support = (costs.of_labels(labels),), costs.support
    exponent = costs.largest / epsilon
    if cut or exponent <= LARGEST_EXPONENT[dtype]:
        kernels = tuple(_kernel(table, epsilon, dtype) for table in tables)
        plain = exponent + problem.largest_shift() / epsilon <= LARGEST_PLAIN_EXPONENT[dtype]
        return Products(support, kernels, plain, cut)
    if costs.axes is not None:
        return AxisLogSums(support, tuple(x.to(problem.dtype) / -epsilon for x in costs.axes))
    return BlockLogSums(costs.block(), epsilon)


def _kernel(cost: Tensor, epsilon: float, dtype: torch.dtype) -> Tensor:
    """`exp(−M/ε)`, computed in double precision and cut off at the end of its range."""
    lowest = -LARGEST_EXPONENT[torch.float64]
    if launch.triton_available(cost.device) and _checks.has_memory(cost):
        from wassloss.kernels.triton.gibbs import gibbs_kernel

        return cast(Tensor, gibbs_kernel(cost, epsilon, lowest, dtype))
    exponent = cost.double() / -epsilon
    return exponent.exp().masked_fill_(exponent < lowest, 0).to(dtype)


def shares_kernel(problem: Problem) -> bool:
    """Whether one kernel serves the whole batch, and takes no more memory than blocks would."""
    costs = problem.costs
    if costs.shared or costs.table is None:
        return costs.shared
    within = costs.largest / problem.objective.epsilon <= LARGEST_EXPONENT[torch.float64]
    return within and len(costs.table) <= problem.log_y.numel()


def log_sum_exp(x: Tensor, dim: int) -> Tensor:
    """`log Σ exp(x)` along `dim`, without overflow, underflow or denormal numbers."""
    largest = x.amax(dim, keepdim=True)
    terms = (x - largest).clamp_(min=negligible_exponent(x.dtype)).exp_()
    return largest.squeeze(dim) + terms.sum(dim).log()


def _scattered(v: Tensor, support: Tensor, labels: int) -> Tensor:
    """Scatter the value of each target to its label, `(batch, labels)`; 0 elsewhere."""
    # Padding may repeat a label, but adds 0 to it.
    return v.new_zeros(len(v), labels).scatter_add_(1, support, v)


def _finite(shift: Tensor) -> Tensor:
    """Replace `−inf` by a finite number, so that it can be subtracted from itself."""
    return shift.clamp(min=torch.finfo(shift.dtype).min)
