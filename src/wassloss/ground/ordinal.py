"""Labels on a line: grades, ages, ratings."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from wassloss._checks import check_count, default_dtype
from wassloss.ground._cost import CostsByTile, MetricKeywords
from wassloss.ground._inputs import Numbers, float_tensor, holds_integers
from wassloss.ground.base import GroundMetric

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack


class Ordinal(GroundMetric):
    r"""Labels at positions on a line.

    .. math:: d(i, j) = |p_i - p_j|

    The digit metric of Frogner et al. (2015) is ``Ordinal(10, power=p, scale=10)``, the differences
    of digits scaled into [0, 1) and raised to ``p``; with ``p=0`` it is the 0-1 metric.

    Args:
        positions: the number of labels K, for positions 0..K-1, or the positions, shape (K,), in
            any order. Equal positions are allowed; a tensor may require grad. Integers and lists
            take torch's default dtype, float32 at least; arrays and tensors keep theirs. May be
            left out where ``labels`` are given, in their order.
        power, scale, labels: see :class:`GroundMetric`.

    >>> Ordinal(10, power=2, scale=10).cost_columns(0)[[1, 9]]
    tensor([0.0100, 0.8100])
    >>> Ordinal(labels=["poor", "fair", "good"]).nearest("poor", 2)
    [('fair', 1.0), ('good', 2.0)]
    >>> Ordinal([18, 25, 65], labels=["young", "adult", "old"]).distance_columns(1)
    tensor([ 7.,  0., 40.])
    """

    _FIELDS = ("positions",)
    _LEARNED = "positions"
    positions: Tensor
    """The labels' positions on the line, shape (K,)."""

    def __init__(
        self, positions: int | Numbers | None = None, **keywords: Unpack[MetricKeywords]
    ) -> None:
        if positions is None:
            names = keywords.get("labels")
            if names is None:
                raise TypeError("positions or labels must be given, got neither")
            positions = len(names)
        if isinstance(positions, int | np.integer):
            size = check_count("positions, as a number of labels,", positions)
            kept = torch.arange(size, dtype=default_dtype())
        else:
            kept = float_tensor("positions", positions, shape="(labels)", differentiable=True)
            if holds_integers(positions):
                _check_apart(positions, kept)
        self.positions = kept
        super().__init__(len(kept), like=kept, **keywords)

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> Self:
        """The same metric on another device or in another floating dtype; itself if neither."""
        other = super().to(device, dtype)
        if other.dtype != self.dtype:
            _check_apart(self.positions, other.positions)
        return other

    def costs_by_tile(self) -> CostsByTile:
        known = self.positions.float().contiguous()
        return "line", known.__getitem__, known

    def _distance_columns(self, indices: Tensor) -> Tensor:
        return (self.positions[indices][:, None] - self.positions).abs_()  # (n, K)

    def _distances_between(self, first: Tensor, second: Tensor) -> Tensor:
        return (self.positions[first] - self.positions[second]).abs()

    def _max_distance(self) -> Tensor:
        low, high = self.positions.detach().aminmax()
        return high - low

    def _summary(self) -> str:
        places = self.positions.detach().cpu()
        if torch.equal(places, torch.arange(self.size, dtype=self.dtype)):
            return str(self.size)
        shown = [f"{p:g}" for p in places.tolist()]
        return f"[{', '.join(shown if self.size <= 6 else [*shown[:2], '...', shown[-1]])}]"


def _check_apart(given: Numbers, kept: Tensor) -> None:
    """Refuse different positions that are equal after rounding to the metric's dtype."""
    apart = given.unique() if isinstance(given, Tensor) else np.unique(np.asarray(given))
    if len(apart) > len(kept.unique()):
        raise ValueError(
            f"positions must stay apart in {kept.dtype}, but some of {apart[0]} to {apart[-1]} "
            "coincide there: subtract the smallest, or pass float64"
        )
