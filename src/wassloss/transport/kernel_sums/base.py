"""What all ways of summing over the kernel have in common."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TypeVar

from torch import Tensor

Sums = TypeVar("Sums", bound="KernelSums")


class KernelSums(ABC):
    """Both sums for a batch; `scratch` and `out` are tensors to be overwritten, where given."""

    def over_support(
        self, log_v: Tensor, scratch: Tensor | None = None, out: Tensor | None = None
    ) -> Tensor:
        """`(batch, support)` to `(batch, labels)`; `scratch` is like `log_v`."""
        return self._sums(log_v, scratch, out, over_labels=False)

    def over_labels(
        self, log_u: Tensor, scratch: Tensor | None = None, out: Tensor | None = None
    ) -> Tensor:
        """`(batch, labels)` to `(batch, support)`; `scratch` is like `log_u`."""
        return self._sums(log_u, scratch, out, over_labels=True)

    @abstractmethod
    def _sums(
        self, x: Tensor, scratch: Tensor | None, out: Tensor | None, *, over_labels: bool
    ) -> Tensor: ...

    @abstractmethod
    def __getitem__(self: Sums, rows: Tensor) -> Sums:
        """The sums of some examples."""


def placed(v: Tensor, support: Tensor, labels: int) -> Tensor:
    """Values of each target at its label, `(batch, labels)`; 0 elsewhere."""
    # Padding may name a label twice, with nothing to add to it.
    return v.new_zeros(len(v), labels).scatter_add_(1, support, v)
