"""Labels on a line: grades, ages, ratings."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np
import torch
from torch import Tensor

from wassloss._checks import check_count, default_dtype
from wassloss.ground._cost import CostsByTile, MetricKeywords, cost_of
from wassloss.ground._inputs import Numbers, float_tensor, holds_integers
from wassloss.ground.base import GroundMetric
from wassloss.ground.words import read_interval

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack


class Ordinal(GroundMetric):
    r"""Labels at positions on a line.

    .. math:: d(i, j) = |p_i - p_j|

    The digit metric of Frogner et al. (2015) is ``Ordinal(10, power=p, scale=10)``: differences of
    digits, scaled to [0, 1) and raised to ``p``. With ``p=0`` it is the 0-1 metric.

    Args:
        positions: the number of labels K, for positions 0..K-1, or the positions, shape (K,), in
            any order. Equal positions are allowed; a tensor may require grad. Integers and lists
            get torch's default dtype, at least float32; floating arrays and tensors keep theirs.
            Optional if ``labels`` are given, which are then at 0..K-1 in their order.
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
        self.label_order = _order_along_line(kept)
        super().__init__(len(kept), like=kept, **keywords)

    def to(
        self, device: torch.device | str | None = None, dtype: torch.dtype | None = None
    ) -> Self:
        """Move or convert the metric; returns self if device and dtype do not change."""
        other = super().to(device, dtype)
        if other.dtype != self.dtype:
            _check_apart(self.positions, other.positions)
        return other

    def costs_to_sets(self, allowed: Tensor) -> Tensor:
        # Training may change the order of the positions.
        order = self.positions.detach().argsort() if self.requires_grad else self.label_order
        place = self.positions if order is None else self.positions[order]
        within = allowed if order is None else allowed[:, order]
        every, none = torch.arange(self.size, device=self.device), self.size
        left = torch.where(within, every, -1).cummax(1).values
        right = torch.where(within, every, none).flip(1).cummin(1).values.flip(1)
        down = (place - place[left.clamp(min=0)]).masked_fill(left < 0, math.inf)
        up = (place[right.clamp(max=none - 1)] - place).masked_fill(right == none, math.inf)
        found = cost_of(torch.minimum(down, up).clamp(min=0), self.power, self.scale)
        if order is None:
            return found
        return found[:, torch.empty_like(order).scatter_(0, order, every)]

    def costs_to_ranges(self, first: Tensor, last: Tensor) -> Tensor | None:
        ends = self.nearest_ends(first, last)
        if ends is None or self.known_costs is not None:
            return super().costs_to_ranges(first, last)
        low, high = (self.positions[end].unsqueeze(1) for end in ends)
        below, above = low - self.positions, self.positions - high
        gap = torch.maximum(below, above, out=below).clamp_(min=0)
        return cost_of(gap, self.power, self.scale)

    def _ranges_of_word(self, word: str) -> list[tuple[int, int]]:
        found = read_interval(word, self._value)
        if found is None:
            return super()._ranges_of_word(word)
        (low, with_low), (high, with_high) = found
        place = self._values.detach().cpu().double().sort().values
        first = int(torch.searchsorted(place, low, right=not with_low))
        last = int(torch.searchsorted(place, high, right=with_high)) - 1
        if first > last:
            raise ValueError(f"{word!r} must contain a label of {self!r}, got none")
        return [(first, last)]

    def _value(self, word: str) -> float | None:
        """The value of a label's name or of a number, as in `_values`; None for other words."""
        if self.labels is not None and word in self.labels:
            return float(self._values[self.labels.index(word)])
        if self.labels is not None and self._values is self.positions:
            return None  # ambiguous: with named labels, a number could be an index or a position
        try:
            # Rounded like the positions.
            return float(torch.tensor(float(word), dtype=self._values.dtype))
        except ValueError:
            return None

    @property
    def _values(self) -> Tensor:
        """The values with which numbers in words are compared.

        These are the labels' names if they are numbers in the order of the positions, otherwise the
        positions.
        """
        try:
            numbers = torch.tensor([float(name) for name in self.labels or ()], dtype=torch.float64)
        except ValueError:
            return self.positions
        order = self.positions.detach().cpu().argsort(stable=True)
        increase = len(numbers) and bool((numbers[order].diff() > 0).all())
        return numbers if increase else self.positions

    def nearest_ends(self, first: Tensor, last: Tensor) -> tuple[Tensor, Tensor] | None:
        if self.requires_grad:  # training may have changed the order
            return None
        order = self.label_order
        return (first, last) if order is None else (order[first], order[last])

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


def _order_along_line(positions: Tensor) -> Tensor | None:
    """The labels from left to right; None if that is their numerical order."""
    ordered, order = positions.detach().sort(stable=True)
    return None if torch.equal(ordered, positions.detach()) else order


def _check_apart(given: Numbers, kept: Tensor) -> None:
    """Refuse distinct positions that coincide after rounding to the metric's dtype."""
    apart = given.unique() if isinstance(given, Tensor) else np.unique(np.asarray(given))
    if len(apart) > len(kept.unique()):
        raise ValueError(
            f"positions must stay distinct in {kept.dtype}, but some of {apart[0]} to {apart[-1]} "
            "coincide: subtract the smallest, or pass float64"
        )
