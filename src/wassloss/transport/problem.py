"""A batch of transport problems that share one ground metric."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property

import torch
from torch import Tensor

from wassloss import _checks
from wassloss.ground import GroundMetric
from wassloss.ground._cost import overflow
from wassloss.transport.objective import Objective
from wassloss.transport.precision import smallest_mass


class Costs:
    """Costs between the labels of each target and all labels, computed once and cached.

    They have one of three forms: a table of all pairs of labels, if the metric has one (`table`),
    one block for the whole batch (`shared`), or a block per example.

    Args:
        metric: the ground metric of the labels.
        support: the labels of each target, `(batch, support)`, or `(1, support)` when shared.
        dtype: the dtype of the costs.
        given: a block `(batch or 1, support, labels)` to use instead of the metric's costs.
    """

    def __init__(
        self,
        metric: GroundMetric,
        support: Tensor,
        dtype: torch.dtype,
        given: Tensor | None = None,
    ) -> None:
        self.metric, self.support, self.dtype, self.given = metric, support, dtype, given

    def uncached(self) -> Costs:
        """The same costs with an empty cache."""
        return Costs(self.metric, self.support, self.dtype, self.given)

    @property
    def shared(self) -> bool:
        """Whether one block serves all examples."""
        return (self.support if self.given is None else self.given).shape[0] == 1

    @property
    def table(self) -> Tensor | None:
        """The metric's table of costs `(labels, labels)`, indexed by target; None without one."""
        return self.metric.known_costs if self.given is None else None

    def block(self) -> Tensor:
        """Costs `(batch or 1, support, labels)`."""
        if self.given is not None:
            return self.given
        return self.of_labels(self.support) if _checks.is_traced() else self._block

    @cached_property
    def _block(self) -> Tensor:
        return self.of_labels(self.support)

    def rows(self) -> tuple[Tensor, Tensor]:
        """Costs `(n, labels)`, and the row of each target, `(batch or 1, support)`."""
        table = self.metric.known_costs_in(self.dtype) if self.given is None else None
        if table is not None:
            return table, self.support
        block = self.block()
        count, support, _ = block.shape
        return block.flatten(0, 1), torch.arange(count * support).view(count, support)

    def of_labels(self, labels: Tensor) -> Tensor:
        """Costs `(*labels.shape, all labels)` between `labels` and all labels."""
        costs = self.metric.cost_columns(labels).detach().to(self.dtype)
        # The largest cost of a table is computed once; other costs are checked each time.
        known = self.metric.largest_known_cost if _checks.can_read_values() else None
        finite = known is not None and known <= torch.finfo(costs.dtype).max
        return costs if finite else self.checked(costs)

    def checked(self, costs: Tensor) -> Tensor:
        """Return the costs; raise a ValueError if they overflow."""
        if _checks.can_read_values() and costs.numel() and not costs.amax() < math.inf:
            raise overflow(costs.dtype, self.metric.power, self.metric.scale)
        return costs

    @cached_property
    def axes(self) -> tuple[Tensor, ...] | None:
        """Costs along each axis of a grid in double precision; None if sums by axis do not pay."""
        axes = self.metric.axis_costs() if self.given is None else None
        if axes is None or self.support.shape[1] <= sum(len(axis) for axis in axes):
            return None  # the target's own columns are less work
        return tuple(self.checked(axis.detach().double()) for axis in axes)

    @cached_property
    def largest(self) -> float:
        """The largest cost; synchronises unless the metric knows it."""
        known = self.metric.largest_known_cost if self.given is None else None
        if known is not None and known <= torch.finfo(self.dtype).max:
            return known
        if self.axes is not None:
            return sum(float(axis.max()) for axis in self.axes)
        return float(self.block().max())  # `block` refuses costs that overflow

    def to(self, dtype: torch.dtype) -> Costs:
        """The same costs in another dtype; those of the metric are computed again."""
        given = None if self.given is None else self.given.to(dtype)
        return Costs(self.metric, self.support, dtype, given)

    def __getitem__(self, rows: slice) -> Costs:
        """The costs of some examples; a shared block stays shared."""
        given = None if self.given is None else some_rows(self.given, rows)
        return Costs(self.metric, some_rows(self.support, rows), self.dtype, given)


def some_rows(x: Tensor, rows: slice | Tensor) -> Tensor:
    """The rows of some examples; a single row belongs to all examples."""
    return x if len(x) == 1 else x[rows]


@dataclass(frozen=True)
class Problem:
    """Transport of each prediction to its target, restricted to the target's support.

    Only the columns of the cost that carry target mass matter, so a problem is `labels × support`
    rather than `labels × labels`.

    Attributes:
        log_h: log of the prediction, `(batch, labels)`, finite.
        log_y: log of the target's weights, `(batch, support)`, `−inf` on padding.
        costs: the costs between the target's labels and all labels.
        objective: regulariser and marginal penalties.
    """

    log_h: Tensor
    log_y: Tensor
    costs: Costs
    objective: Objective

    @classmethod
    def from_log(
        cls,
        log_h: Tensor,
        y: Tensor,
        support: Tensor,
        metric: GroundMetric,
        objective: Objective,
        block: Tensor | None = None,
    ) -> Problem:
        """Build from a log-prediction and target weights; zero masses are allowed.

        Args:
            log_h: log of the prediction, `(batch, labels)`.
            y: the target's weights, `(batch, support)`.
            support: the label of each weight, `(batch, support)`, or `(1, support)` when shared.
            metric: the ground metric of the labels.
            objective: regulariser and marginal penalties.
            block: costs `(batch or 1, support, labels)` to use instead of the metric's.
        """
        _checks.check_fits("epsilon", objective.epsilon, log_h.dtype, divides=True)
        for strength in objective.gamma:
            _checks.check_fits("gamma", strength, log_h.dtype, divides=True)
        smallest = smallest_mass(log_h.dtype)
        low_h, low_y = (objective.log_of_no_mass(smallest, side) for side in (0, 1))
        # Contiguous: buffers and kernels assume the layout of their inputs.
        log_h, log_y = log_h.clamp(min=low_h).contiguous(), y.log().contiguous()
        log_y = log_y.masked_fill_((y > 0) & (y <= smallest), low_y)
        costs = Costs(metric, support, log_h.dtype)
        if block is not None:
            costs.given = costs.checked(block)
        return cls(log_h, log_y, costs, objective)._with_equal_masses()

    def _with_equal_masses(self) -> Problem:
        """Make balanced masses equal to the last digit of the dtype."""
        if not self.objective.balanced:
            return self
        missing = self.log_h.logsumexp(1) - self.log_y.logsumexp(1)
        return replace(self, log_y=self.log_y + missing.unsqueeze(1))

    @property
    def metric(self) -> GroundMetric:
        """The ground metric of the labels."""
        return self.costs.metric

    @property
    def support(self) -> Tensor:
        """The label of each target, `(batch, support)`, or `(1, support)` when shared."""
        return self.costs.support

    @property
    def batch(self) -> int:
        return self.log_h.shape[0]

    @property
    def dtype(self) -> torch.dtype:
        return self.log_h.dtype

    def cost(self) -> Tensor:
        """Costs `(batch, support, labels)` between the support and every label."""
        return self.costs.block().expand(self.batch, -1, -1)

    def masses(self) -> tuple[Tensor, Tensor]:
        """Total mass of prediction and target, each `(batch, 1)`."""
        return self.log_h.exp().sum(1, keepdim=True), self.log_y.exp().sum(1, keepdim=True)

    def shift(self) -> Tensor:
        """How far unequal masses shift the potentials, in addition to costs, `(batch,)`."""
        price = self.objective.price_of_unequal_masses
        if not price:
            return torch.zeros_like(self.log_h[:, 0])
        return price * (self.log_h.logsumexp(1) - self.log_y.logsumexp(1)).abs()

    def largest_shift(self) -> float:
        """The largest `shift` of the batch (synchronises); 0 if values cannot be read."""
        if not self.objective.price_of_unequal_masses or not _checks.can_read_values():
            return 0.0
        return float(self.shift().max())

    def reach(self) -> float:
        """The size of the potentials: the largest cost, plus what unequal masses add."""
        return self.costs.largest + self.largest_shift()

    def dense_target(self) -> Tensor:
        """The target's weights over all labels, `(batch, labels)`."""
        index = self.support.expand_as(self.log_y)
        return torch.zeros_like(self.log_h).scatter_add_(1, index, self.log_y.exp())

    def on_support(self, values: Tensor) -> Tensor:
        """Pick the target's labels from values over all labels, `(batch, support)`."""
        return values.gather(1, self.support.expand_as(self.log_y))

    def __getitem__(self, rows: slice) -> Problem:
        """The problems of some examples."""
        return replace(self, log_h=self.log_h[rows], log_y=self.log_y[rows], costs=self.costs[rows])

    def to(self, dtype: torch.dtype) -> Problem:
        """The same problem in another dtype."""
        log_h, log_y, costs = self.log_h.to(dtype), self.log_y.to(dtype), self.costs.to(dtype)
        return Problem(log_h, log_y, costs, self.objective)._with_equal_masses()
