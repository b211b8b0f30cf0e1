"""Sums with the kernel `exp(−M/ε)`: as matrix products where numbers can hold them.

Every entropic solver needs two sums, `log Σ_j exp(log_v_j − M_ij/ε)` over the support for every
label, and the same over labels for the support. Four ways to take them, cheapest first:

================  ==========================================================================
`AxisProducts`    the cost is a sum over the axes of a grid, so that the kernel is a product over
                  them: one small matrix product an axis, `O(labels^{3/2})` in two dimensions
`Products`        one kernel for the whole batch: a matrix product
`AxisLogSums`     as `AxisProducts`, but term by term in the log domain, for any `M/ε`
`BlockLogSums`    term by term over each example's own block of costs
================  ==========================================================================

Only the last holds a number for every example, target and label; only `Products` one for every
pair of labels. Products can also be tried beyond their range, with the kernel cut off where it
would underflow, and what that neglects be bounded afterwards: a steep cost, such as the paper's
`power=13`, has a wide range of which the plan only uses the lower end.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Protocol

import torch
from torch import Tensor

from wassloss import _checks
from wassloss.transport.conditions import log_sum_exp
from wassloss.transport.costs import Costs
from wassloss.transport.precision import (
    LARGEST_EXPONENT,
    LARGEST_PLAIN_EXPONENT,
    LEAST_LOG_FACTOR,
)
from wassloss.transport.problem import Problem

# Elements of a temporary block of terms: bounds the memory of the log domain.
LARGEST_TEMPORARY = 2**24


class KernelSums(Protocol):
    """Both sums for a batch; `scratch` and `out` are tensors to be overwritten, where given."""

    def over_support(
        self, log_v: Tensor, scratch: Tensor | None = None, out: Tensor | None = None
    ) -> Tensor:
        """`(batch, support)` to `(batch, labels)`; `scratch` is like `log_v`."""
        ...

    def over_labels(
        self, log_u: Tensor, scratch: Tensor | None = None, out: Tensor | None = None
    ) -> Tensor:
        """`(batch, labels)` to `(batch, support)`; `scratch` is like `log_u`."""
        ...

    def __getitem__(self, rows: Tensor) -> KernelSums: ...


@dataclass(frozen=True)
class BlockLogSums:
    """Term by term over a block of costs per example, or one for all; at any `M/ε`."""

    costs: Costs
    epsilon: float

    def over_support(
        self, log_v: Tensor, scratch: Tensor | None = None, out: Tensor | None = None
    ) -> Tensor:
        return _into(out, self._sums(log_v.unsqueeze(2), dim=1))

    def over_labels(
        self, log_u: Tensor, scratch: Tensor | None = None, out: Tensor | None = None
    ) -> Tensor:
        return _into(out, self._sums(log_u.unsqueeze(1), dim=2))

    def _sums(self, exponent: Tensor, dim: int) -> Tensor:
        block = self.costs.block()
        at_once = max(1, LARGEST_TEMPORARY // max(1, block.shape[1] * block.shape[2]))
        given = exponent.split(at_once)
        blocks = (block,) * len(given) if self.costs.shared else block.split(at_once)
        parts = [
            log_sum_exp(torch.sub(x, cost, alpha=1 / self.epsilon), dim)
            for x, cost in zip(given, blocks, strict=True)
        ]
        return parts[0] if len(parts) == 1 else torch.cat(parts)

    def __getitem__(self, rows: Tensor) -> BlockLogSums:
        return replace(self, costs=self.costs[rows])


class KernelProducts(ABC):
    """Sums that are products with the kernel, of factors as they are or beside their largest.

    Attributes:
        plain: whether exponentials may be taken without looking for the largest.
    """

    plain: bool

    def over_support(
        self, log_v: Tensor, scratch: Tensor | None = None, out: Tensor | None = None
    ) -> Tensor:
        v, largest = _exponentials(log_v, self.plain, self.dtype, scratch)
        return _log(self.product_over_support(v, out), largest, log_v.dtype)

    def over_labels(
        self, log_u: Tensor, scratch: Tensor | None = None, out: Tensor | None = None
    ) -> Tensor:
        u, largest = _exponentials(log_u, self.plain, self.dtype, scratch)
        return _log(self.product_over_labels(u, out), largest, log_u.dtype)

    @property
    @abstractmethod
    def dtype(self) -> torch.dtype:
        """The precision of the products."""

    @abstractmethod
    def product_over_support(self, v: Tensor, out: Tensor | None = None) -> Tensor:
        """`K v`, from `(batch, support)` to `(batch, labels)`."""

    @abstractmethod
    def product_over_labels(self, u: Tensor, out: Tensor | None = None) -> Tensor:
        """`Kᵀu`, from `(batch, labels)` to `(batch, support)`."""

    @abstractmethod
    def __getitem__(self, rows: Tensor) -> KernelProducts: ...


@dataclass(frozen=True)
class Products(KernelProducts):
    """Products with one `kernel (support, labels)`, or `(labels, labels)` where `support` is given.

    Attributes:
        kernel: `exp(−M/ε)`, in the precision of the products.
        plain: whether exponentials may be taken without looking for the largest.
        support: the labels of each target, `(batch, support)`, where they differ.
    """

    kernel: Tensor
    plain: bool
    support: Tensor | None = None

    @property
    def dtype(self) -> torch.dtype:
        return self.kernel.dtype

    def product_over_support(self, v: Tensor, out: Tensor | None = None) -> Tensor:
        if self.support is not None:
            v = _placed(v, self.support, self.kernel.shape[0])
        return torch.mm(v, self.kernel, out=out)

    def product_over_labels(self, u: Tensor, out: Tensor | None = None) -> Tensor:
        if self.support is None:
            return torch.mm(u, self.kernel.T, out=out)
        return torch.gather(u @ self.kernel.T, 1, self.support, out=out)

    def __getitem__(self, rows: Tensor) -> Products:
        return self if self.support is None else replace(self, support=self.support[rows])


@dataclass(frozen=True)
class AxisProducts(KernelProducts):
    """Products with `kernels (cells, cells)`, one an axis of a grid of labels.

    Attributes:
        kernels: `exp(−M_a/ε)` of each axis, where the cost is `Σ_a M_a`.
        plain: whether exponentials may be taken without looking for the largest.
        support: the labels of each target, `(batch, support)`; None where they are all, in order.
    """

    kernels: tuple[Tensor, ...]
    plain: bool
    support: Tensor | None = None

    @property
    def dtype(self) -> torch.dtype:
        return self.kernels[0].dtype

    def product_over_support(self, v: Tensor, out: Tensor | None = None) -> Tensor:
        if self.support is not None:
            v = _placed(v, self.support, self.size)
        return self._product(v, out)

    def product_over_labels(self, u: Tensor, out: Tensor | None = None) -> Tensor:
        if self.support is None:
            return self._product(u, out)
        return torch.gather(self._product(u), 1, self.support, out=out)

    @property
    def size(self) -> int:
        return math.prod(len(kernel) for kernel in self.kernels)

    def _product(self, x: Tensor, out: Tensor | None = None) -> Tensor:
        shape, before = x.shape, len(x)
        for kernel in self.kernels[:-1]:
            x = kernel @ x.reshape(before, len(kernel), -1)  # a kernel is symmetric
            before *= len(kernel)
        last = self.kernels[-1]
        out = None if out is None else out.view(-1, len(last))
        return torch.mm(x.reshape(-1, len(last)), last, out=out).view(shape)

    def __getitem__(self, rows: Tensor) -> AxisProducts:
        return self if self.support is None else replace(self, support=self.support[rows])


@dataclass(frozen=True)
class AxisLogSums:
    """Term by term along one axis of a grid after the other; at any `M/ε`.

    Attributes:
        exponents: `−M_a/ε (cells, cells)` of each axis, where the cost is `Σ_a M_a`.
        support: the labels of each target, `(batch, support)`; None where they are all, in order.
    """

    exponents: tuple[Tensor, ...]
    support: Tensor | None = None

    def over_support(
        self, log_v: Tensor, scratch: Tensor | None = None, out: Tensor | None = None
    ) -> Tensor:
        if self.support is not None:
            log_v = _log_placed(log_v, self.support, self.size)
        return _into(out, self._log_sum(log_v))

    def over_labels(
        self, log_u: Tensor, scratch: Tensor | None = None, out: Tensor | None = None
    ) -> Tensor:
        sums = self._log_sum(log_u)
        return _into(out, sums if self.support is None else sums.gather(1, self.support))

    @property
    def size(self) -> int:
        return math.prod(len(exponent) for exponent in self.exponents)

    def _log_sum(self, x: Tensor) -> Tensor:
        shape, before = x.shape, len(x)
        for exponent in self.exponents:
            cells = len(exponent)
            rows = x.reshape(before, cells, -1)  # (…, cells, cells of the axes after)
            at_once = max(1, LARGEST_TEMPORARY // (cells * cells * rows.shape[2]))
            parts = [
                _finite_log_sum_exp(part.unsqueeze(1) + exponent.unsqueeze(2), dim=2)
                for part in rows.split(at_once)
            ]
            x, before = torch.cat(parts), before * cells
        return x.reshape(shape)

    def __getitem__(self, rows: Tensor) -> AxisLogSums:
        return self if self.support is None else replace(self, support=self.support[rows])


def kernel_sums_of(
    problem: Problem, dtype: torch.dtype = torch.float64, *, cut: bool = False
) -> KernelSums:
    """The cheapest way to take a problem's sums, products being taken in `dtype`.

    With `cut`, kernels that are beyond the range of products are cut off at its end: whoever asks
    for that has to look at `neglected` in the end.
    """
    epsilon, costs = problem.objective.epsilon, problem.costs
    # The range is unknown in a trace; and there is no double precision on mps.
    if not _checks.can_read_values() or (
        problem.log_h.device.type == "mps" and dtype == torch.float64
    ):
        return BlockLogSums(costs.gathered(), epsilon)
    if costs.axes is None and not shares_kernel(problem):
        return BlockLogSums(costs.gathered(), epsilon)
    if costs.axes is None and costs.shared:
        costs = costs.gathered()
    exponent = costs.largest / epsilon
    within = cut or exponent <= LARGEST_EXPONENT[dtype]
    if costs.axes is not None:
        support = None if _is_everything(problem) else problem.support.expand_as(problem.log_y)
        if not within:
            exponents = tuple(axis.to(problem.dtype) / -epsilon for axis in costs.axes)
            return AxisLogSums(exponents, support)
        kernels = tuple(_kernel(axis, epsilon, dtype) for axis in costs.axes)
        return AxisProducts(kernels, _plain(problem, exponent, dtype), support)
    if not within:
        return BlockLogSums(costs.gathered(), epsilon)
    of_all = costs.block()[0] if costs.shared else costs.of_labels(_all_labels(problem))
    kernel, plain = _kernel(of_all, epsilon, dtype), _plain(problem, exponent, dtype)
    return Products(kernel, plain, None if costs.shared else problem.support)


def _plain(problem: Problem, exponent: float, dtype: torch.dtype) -> bool:
    """Whether scalings stay in the range of numbers, given the largest `M/ε`."""
    shift = problem.largest_shift() / problem.objective.epsilon
    return exponent + shift <= LARGEST_PLAIN_EXPONENT[dtype]


def neglected(sums: KernelSums, log_u: Tensor, log_v: Tensor) -> Tensor:
    """A bound on the relative error of every sum by what a cut kernel leaves out, `(batch,)`.

    A term beyond the cut is at most the largest factor times the kernel there.
    """
    worst = []
    for factors, results in (
        (log_v, sums.over_support(log_v)),
        (log_u, sums.over_labels(log_u).where(log_v > -torch.inf, torch.inf)),
    ):
        largest = factors.amax(1) - LARGEST_EXPONENT[torch.float64] + math.log(factors.shape[1])
        worst.append((largest - results.amin(1)).exp())
    return worst[0] + worst[1]


def shares_kernel(problem: Problem) -> bool:
    """Whether one kernel serves the whole batch, and takes no more memory than blocks would."""
    costs = problem.costs
    if costs.shared or costs.table is None:
        return costs.shared
    within = costs.largest / problem.objective.epsilon <= LARGEST_EXPONENT[torch.float64]
    return within and len(costs.table) <= problem.log_y.numel()


def _kernel(cost: Tensor, epsilon: float, dtype: torch.dtype) -> Tensor:
    exponent = cost.double() / -epsilon
    kernel = exponent.exp().masked_fill_(exponent < -LARGEST_EXPONENT[torch.float64], 0)
    return kernel.to(dtype)


def _is_everything(problem: Problem) -> bool:
    return problem.costs.shared and torch.equal(problem.support[0], _all_labels(problem))


def _all_labels(problem: Problem) -> Tensor:
    return torch.arange(problem.metric.size, device=problem.support.device)


def _exponentials(
    x: Tensor, plain: bool, dtype: torch.dtype, out: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """`exp(x)` where that is safe, else `exp(x − largest)` and what was taken from each row."""
    if plain and x.dtype == dtype:
        return torch.exp(x, out=out), None
    largest = x.amax(1, keepdim=True)
    shifted = torch.sub(x, largest, out=out if x.dtype == dtype else None).to(dtype)
    return shifted.clamp_(min=LEAST_LOG_FACTOR[dtype]).exp_(), largest


def _log(sums: Tensor, largest: Tensor | None, dtype: torch.dtype) -> Tensor:
    logs = sums.log_()
    if largest is not None:
        logs = logs.add_(largest)
    return logs.to(dtype)


def _placed(v: Tensor, support: Tensor, labels: int) -> Tensor:
    # Padding may name a label twice, with nothing to add to it.
    return v.new_zeros(len(v), labels).scatter_add_(1, support, v)


def _log_placed(log_v: Tensor, support: Tensor, labels: int) -> Tensor:
    """The logarithm of `_placed(exp(log_v))`; `−inf` where nothing is placed."""
    nowhere = log_v.new_full((len(log_v), labels), -math.inf)
    largest = nowhere.scatter_reduce(1, support, log_v, "amax")
    shift = largest.clamp(min=torch.finfo(log_v.dtype).min)
    return _placed((log_v - shift.gather(1, support)).exp(), support, labels).log_() + shift


def _finite_log_sum_exp(x: Tensor, dim: int) -> Tensor:
    """`log Σ exp(x)`, `−inf` where there is nothing to sum."""
    largest = x.amax(dim, keepdim=True)
    shift = largest.clamp(min=torch.finfo(x.dtype).min)
    return (x - shift).exp_().sum(dim).log_() + shift.squeeze(dim)


def _into(out: Tensor | None, result: Tensor) -> Tensor:
    return result if out is None else out.copy_(result)
