"""Sums over the kernel term by term in the log domain, at any `M/ε`."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import torch
from torch import Tensor

from wassloss.transport.conditions import log_sum_exp
from wassloss.transport.costs import Costs
from wassloss.transport.kernel_sums.base import KernelSums, placed

# Elements of a temporary block of terms: bounds the memory of the log domain.
LARGEST_TEMPORARY = 2**24


@dataclass(frozen=True)
class BlockLogSums(KernelSums):
    """Over a block of costs per example, or one for all."""

    costs: Costs
    epsilon: float

    def _sums(
        self, x: Tensor, scratch: Tensor | None, out: Tensor | None, *, over_labels: bool
    ) -> Tensor:
        block, dim = self.costs.block(), 2 if over_labels else 1
        at_once = max(1, LARGEST_TEMPORARY // max(1, block.shape[1] * block.shape[2]))
        exponents = x.unsqueeze(3 - dim).split(at_once)
        blocks = (block,) * len(exponents) if self.costs.shared else block.split(at_once)
        parts = [
            log_sum_exp(torch.sub(exponent, cost, alpha=1 / self.epsilon), dim)
            for exponent, cost in zip(exponents, blocks, strict=True)
        ]
        return _into(out, parts[0] if len(parts) == 1 else torch.cat(parts))

    def __getitem__(self, rows: Tensor) -> BlockLogSums:
        return replace(self, costs=self.costs[rows])


@dataclass(frozen=True)
class AxisLogSums(KernelSums):
    """Along one axis of a grid after the other.

    Attributes:
        exponents: `−M_a/ε (cells, cells)` of each axis, where the cost is `Σ_a M_a`.
        support: the labels of each target, `(batch, support)`; None where they are all, in order.
    """

    exponents: tuple[Tensor, ...]
    support: Tensor | None = None

    def _sums(
        self, x: Tensor, scratch: Tensor | None, out: Tensor | None, *, over_labels: bool
    ) -> Tensor:
        if self.support is None:
            return _into(out, self._log_sum(x))
        if over_labels:
            return _into(out, self._log_sum(x).gather(1, self.support))
        labels = math.prod(len(exponent) for exponent in self.exponents)
        return _into(out, self._log_sum(_log_placed(x, self.support, labels)))

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


def _log_placed(log_v: Tensor, support: Tensor, labels: int) -> Tensor:
    """The logarithm of `placed(exp(log_v))`; `−inf` where nothing is placed."""
    nowhere = log_v.new_full((len(log_v), labels), -math.inf)
    largest = nowhere.scatter_reduce(1, support, log_v, "amax")
    shift = largest.clamp(min=torch.finfo(log_v.dtype).min)
    return placed((log_v - shift.gather(1, support)).exp(), support, labels).log_() + shift


def _finite_log_sum_exp(x: Tensor, dim: int) -> Tensor:
    """`log Σ exp(x)`, `−inf` where there is nothing to sum."""
    largest = x.amax(dim, keepdim=True)
    shift = largest.clamp(min=torch.finfo(x.dtype).min)
    return (x - shift).exp_().sum(dim).log_() + shift.squeeze(dim)


def _into(out: Tensor | None, result: Tensor) -> Tensor:
    return result if out is None else out.copy_(result)
