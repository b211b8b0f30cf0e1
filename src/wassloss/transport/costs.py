"""The costs of a batch of problems, however they are stored."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from wassloss import _checks
from wassloss.ground import GroundMetric
from wassloss.ground._cost import overflow


@dataclass(frozen=True)
class Costs:
    """Costs between the labels of each target and all labels.

    They are kept in one of three ways: a table of all pairs of labels, which a metric may have
    (`table`), one block for the whole batch (`shared`), or a block per example. Blocks are computed
    from the metric whenever they are asked for, until `gathered` keeps them.

    Attributes:
        metric: the ground metric.
        support: the labels of each target, `(batch, support)`, or `(1, support)` when shared.
        dtype: what costs are asked for in.
        kept: the block, `(batch, support, labels)` or `(1, support, labels)`, once gathered.
    """

    metric: GroundMetric
    support: Tensor
    dtype: torch.dtype
    kept: Tensor | None = None

    @property
    def shared(self) -> bool:
        """Whether one block serves all examples."""
        return (self.support if self.kept is None else self.kept).shape[0] == 1

    @property
    def table(self) -> Tensor | None:
        """All costs `(labels, labels)` by target as the metric keeps them, if it does."""
        return self.metric.known_costs if self.kept is None else None

    def block(self) -> Tensor:
        """Costs `(batch, support, labels)`, or `(1, support, labels)` when shared."""
        return self.of_labels(self.support) if self.kept is None else self.kept

    def rows(self) -> tuple[Tensor, Tensor]:
        """Costs `(n, labels)`, and which row belongs to each target, `(batch or 1, support)`."""
        table = self.metric.known_costs_in(self.dtype) if self.kept is None else None
        if table is not None:
            return table, self.support
        block = self.block()
        count, support, _ = block.shape
        return block.flatten(0, 1), torch.arange(count * support).view(count, support)

    def of_labels(self, labels: Tensor) -> Tensor:
        """Costs `(*labels.shape, all labels)` between some labels and every one."""
        costs = self.metric.cost_columns(labels).detach().to(self.dtype)
        # A table's largest cost is found once; other costs are checked each time.
        known = self.metric.largest_known_cost if _checks.can_read_values() else None
        finite = known is not None and known <= torch.finfo(costs.dtype).max
        return costs if finite else self.checked(costs)

    def checked(self, costs: Tensor) -> Tensor:
        """The same costs, if they are finite.

        Raises:
            ValueError: they overflow.
        """
        if _checks.can_read_values() and costs.numel() and not costs.amax() < math.inf:
            raise overflow(costs.dtype, self.metric.power, self.metric.scale)
        return costs

    @cached_property
    def axes(self) -> tuple[Tensor, ...] | None:
        """Costs along each axis of a grid in double precision, where summing by axes pays."""
        axes = self.metric.axis_costs() if self.kept is None else None
        if axes is None or self.support.shape[1] <= sum(len(axis) for axis in axes):
            return None  # the target's own columns are less work
        return tuple(self.checked(axis.detach().double()) for axis in axes)

    @cached_property
    def largest(self) -> float:
        """The largest cost, for which the host waits unless the metric knows it."""
        known = self.metric.largest_known_cost if self.kept is None else None
        if known is not None and known <= torch.finfo(self.dtype).max:
            return known
        if self.axes is not None:
            return sum(float(axis.max()) for axis in self.axes)
        return float(self.block().max())  # which refuses costs that overflow

    def gathered(self) -> Costs:
        """The same costs with their block computed once and for all."""
        return self if self.kept is not None else replace(self, kept=self.block())

    def to(self, dtype: torch.dtype) -> Costs:
        """The same costs in another dtype."""
        return replace(self, dtype=dtype, kept=None if self.kept is None else self.kept.to(dtype))

    def __getitem__(self, rows: slice | Tensor) -> Costs:
        """The costs of some examples; a shared block stays shared."""
        support, kept = self.support, self.kept
        if support.shape[0] > 1:
            support = support[rows]
        if kept is not None and kept.shape[0] > 1:
            kept = kept[rows]
        return replace(self, support=support, kept=kept)
