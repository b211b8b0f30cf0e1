"""Labels that are all equally far apart."""

from __future__ import annotations

from typing import TYPE_CHECKING, SupportsIndex

import torch
from torch import Tensor

from wassloss._checks import check_count, default_dtype
from wassloss.ground._cost import MetricKeywords, cost_of
from wassloss.ground.base import GroundMetric

if TYPE_CHECKING:
    from typing_extensions import Unpack


class Discrete(GroundMetric):
    r"""The 0-1 metric: all mistakes are equally bad.

    .. math:: d(i, j) = [i \ne j]

    Transport under it is half the l1 distance. Use it as a baseline: the gain of another metric
    over it is what the geometry of the labels is worth.

    Args:
        size: the number of labels, K.
        power, scale, labels: see :class:`GroundMetric`.

    >>> Discrete(3).cost()
    tensor([[0., 1., 1.],
            [1., 0., 1.],
            [1., 1., 0.]])
    """

    _FIELDS = ("size",)

    def __init__(self, size: SupportsIndex, **keywords: Unpack[MetricKeywords]) -> None:
        super().__init__(
            check_count("size", size), like=torch.empty((), dtype=default_dtype()), **keywords
        )

    def _distance_columns(self, indices: Tensor) -> Tensor:
        every = torch.arange(self.size, device=self.device)
        return (indices[:, None] != every).to(self.dtype)  # (n, K)

    def _distances_between(self, first: Tensor, second: Tensor) -> Tensor:
        return (first != second).to(self.dtype)

    def costs_to_sets(self, allowed: Tensor) -> Tensor:
        return cost_of((~allowed).to(self.dtype), self.power, self.scale)

    def nearest_ends(self, first: Tensor, last: Tensor) -> tuple[Tensor, Tensor] | None:
        return first, first  # any label of a range

    def _max_distance(self) -> Tensor:
        return self._anchor.new_full((), float(self.size > 1))
