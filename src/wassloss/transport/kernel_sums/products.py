"""Sums over the kernel as matrix products."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import TypeVar

import torch
from torch import Tensor

from wassloss.transport.kernel_sums.base import KernelSums, placed
from wassloss.transport.precision import LEAST_LOG_FACTOR

Made = TypeVar("Made", bound="KernelProducts")


@dataclass(frozen=True, kw_only=True)
class KernelProducts(KernelSums):
    """Products with the kernel, of factors as they are or relative to their largest.

    Attributes:
        plain: whether exponentials may be taken without looking for the largest.
        support: the labels of each target, `(batch, support)`, where the kernel is over all labels
            and these are not all of them, in order.
    """

    plain: bool
    support: Tensor | None = None

    @property
    @abstractmethod
    def dtype(self) -> torch.dtype:
        """The precision of the products."""

    @abstractmethod
    def _product(self, x: Tensor, out: Tensor | None, transposed: bool) -> Tensor:
        """`K x`, or `Kᵀx`, over all that the kernel is over."""

    @property
    @abstractmethod
    def _size(self) -> int:
        """The targets that the kernel is over."""

    def product(self, x: Tensor, out: Tensor | None = None, *, over_labels: bool) -> Tensor:
        """`Kᵀu (batch, support)` of `u (batch, labels)`, or the other way round `K v` of `v`."""
        if self.support is None:
            return self._product(x, out, over_labels)
        if over_labels:
            return torch.gather(self._product(x, None, True), 1, self.support, out=out)
        return self._product(placed(x, self.support, self._size), out, False)

    def _sums(
        self, x: Tensor, scratch: Tensor | None, out: Tensor | None, *, over_labels: bool
    ) -> Tensor:
        factors, largest = _exponentials(x, self.plain, self.dtype, scratch)
        logs = self.product(factors, out, over_labels=over_labels).log_()
        if largest is not None:
            logs = logs.add_(largest)
        return logs.to(x.dtype)

    def __getitem__(self: Made, rows: Tensor) -> Made:
        return self if self.support is None else replace(self, support=self.support[rows])


@dataclass(frozen=True, kw_only=True)
class Products(KernelProducts):
    """Products with one `kernel (support, labels)`, or `(labels, labels)` where `support` is given.

    Attributes:
        kernel: `exp(−M/ε)`, in the precision of the products.
    """

    kernel: Tensor

    @property
    def dtype(self) -> torch.dtype:
        return self.kernel.dtype

    @property
    def _size(self) -> int:
        return len(self.kernel)

    def _product(self, x: Tensor, out: Tensor | None, transposed: bool) -> Tensor:
        return torch.mm(x, self.kernel.T if transposed else self.kernel, out=out)


@dataclass(frozen=True, kw_only=True)
class AxisProducts(KernelProducts):
    """Products with one kernel `(cells, cells)` per axis of a grid of labels.

    Attributes:
        kernels: `exp(−M_a/ε)` of each axis, where the cost is `Σ_a M_a`.
    """

    kernels: tuple[Tensor, ...]

    @property
    def dtype(self) -> torch.dtype:
        return self.kernels[0].dtype

    @property
    def _size(self) -> int:
        return math.prod(len(kernel) for kernel in self.kernels)

    def _product(self, x: Tensor, out: Tensor | None, transposed: bool) -> Tensor:
        shape, before = x.shape, len(x)
        for kernel in self.kernels[:-1]:
            x = kernel @ x.reshape(before, len(kernel), -1)  # a kernel is symmetric
            before *= len(kernel)
        last = self.kernels[-1]
        out = None if out is None else out.view(-1, len(last))
        return torch.mm(x.reshape(-1, len(last)), last, out=out).view(shape)


def _exponentials(
    x: Tensor, plain: bool, dtype: torch.dtype, out: Tensor | None
) -> tuple[Tensor, Tensor | None]:
    """`exp(x)` where that is safe, else `exp(x − largest)` and what was taken from each row."""
    if plain and x.dtype == dtype:
        return torch.exp(x, out=out), None
    largest = x.amax(1, keepdim=True)
    shifted = torch.sub(x, largest, out=out if x.dtype == dtype else None).to(dtype)
    return shifted.clamp_(min=LEAST_LOG_FACTOR[dtype]).exp_(), largest
