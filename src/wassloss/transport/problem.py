"""What is asked: a batch of transport problems that share one ground metric."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import cast

import torch
from torch import Tensor

from wassloss import _checks
from wassloss.ground import GroundMetric
from wassloss.ground._cost import overflow
from wassloss.transport.objective import Objective


def smallest_mass(dtype: torch.dtype) -> float:
    """What a mass of zero is raised to where its label has to stay in the problem.

    Around the smallest normal number a mass is zero to every sum it enters, while the logarithm of
    a true zero would only bring infinities.
    """
    return math.e * torch.finfo(dtype).tiny


@dataclass(frozen=True)
class Problem:
    """Transport of each prediction to its target, restricted to the target's support.

    Only the columns of the cost that carry target mass matter, so a problem is `labels × support`
    rather than `labels × labels`.

    Attributes:
        log_h: log of the prediction, `(batch, labels)`, finite.
        log_y: log of the target's weights, `(batch, support)`, `−inf` on padding.
        support: the label of each weight, `(batch, support)`, or `(1, support)` when shared.
        metric: the ground metric of the labels.
        objective: regulariser and marginal penalties.
        columns: the costs, where they have been computed already.
    """

    log_h: Tensor
    log_y: Tensor
    support: Tensor
    metric: GroundMetric
    objective: Objective
    columns: Tensor | None = None

    @classmethod
    def from_log(
        cls, log_h: Tensor, y: Tensor, support: Tensor, metric: GroundMetric, objective: Objective
    ) -> Problem:
        """Build from a log-prediction and target weights; entries of zero mass are welcome."""
        smallest = smallest_mass(log_h.dtype)
        low_h, low_y = (objective.log_of_no_mass(smallest, side) for side in (0, 1))
        log_h, log_y = log_h.clamp(min=low_h), y.log()
        log_y = log_y.masked_fill_((y > 0) & (y <= smallest), low_y)
        return cls(log_h, log_y, support, metric, objective)._with_equal_masses()

    def _with_equal_masses(self) -> Problem:
        """Balanced masses made equal to the last digit of the dtype, and not only the user's."""
        if not self.objective.balanced:
            return self
        missing = self.log_h.logsumexp(1) - self.log_y.logsumexp(1)
        return replace(self, log_y=self.log_y + missing.unsqueeze(1))

    @property
    def batch(self) -> int:
        return self.log_h.shape[0]

    @property
    def block_size(self) -> int:
        """Elements of one example's `(support, labels)` block."""
        return self.log_y.shape[1] * self.log_h.shape[1]

    def cost(self) -> Tensor:
        """Costs `(batch, support, labels)` between the support and every label."""
        if self.columns is not None:
            return self.columns
        return self.costs_of(self.support).expand(self.batch, -1, -1)

    def shared_cost(self) -> Tensor:
        """Costs `(support, labels)` where all examples have one support."""
        return self.costs_of(self.support[0]) if self.columns is None else self.columns[0]

    @cached_property
    def largest_shared_cost(self) -> float:
        """The largest of the costs that serve all examples; each look makes the host wait."""
        if self.columns is None and self.support.shape[0] > 1:  # all labels, from a table
            return cast(float, self.metric.largest_known_cost)
        return float(self.shared_cost().max())

    def costs_of(self, labels: Tensor) -> Tensor:
        """Costs `(*labels.shape, all labels)` between some labels and every one."""
        costs = self.metric.cost_columns(labels).detach().to(self.log_h.dtype)
        if not _checks.can_read_values():
            return costs
        largest = self.metric.largest_known_cost  # looked for once in a table
        known = largest is not None and largest <= torch.finfo(costs.dtype).max
        return costs if known else self.checked(costs)

    def checked(self, costs: Tensor) -> Tensor:
        """The costs as they are, if they are finite."""
        if _checks.can_read_values() and costs.numel() and not costs.amax() < math.inf:
            raise overflow(costs.dtype, self.metric.power, self.metric.scale)
        return costs

    def masses(self) -> tuple[Tensor, Tensor]:
        """Total mass of prediction and target, each `(batch, 1)`."""
        return self.log_h.exp().sum(1, keepdim=True), self.log_y.exp().sum(1, keepdim=True)

    def shift(self) -> Tensor:
        """How far unequal masses move potentials beyond what costs do, `(batch,)`."""
        price = self.objective.price_of_unequal_masses
        if not price:
            return torch.zeros_like(self.log_h[:, 0])
        return price * (self.log_h.logsumexp(1) - self.log_y.logsumexp(1)).abs()

    def largest_shift(self) -> float:
        """The largest `shift` of the batch, for which the host waits; 0 where it cannot look."""
        if not self.objective.price_of_unequal_masses or not _checks.can_read_values():
            return 0.0
        return float(self.shift().max())

    def dense_target(self) -> Tensor:
        """The target's weights over all labels, `(batch, labels)`."""
        index = self.support.expand_as(self.log_y)
        return torch.zeros_like(self.log_h).scatter_add_(1, index, self.log_y.exp())

    def on_support(self, values: Tensor) -> Tensor:
        """Pick the target's labels from values over all labels, `(batch, support)`."""
        return values.gather(1, self.support.expand_as(self.log_y))

    def with_columns(self) -> Problem:
        """The same problem with its costs computed once and for all."""
        return replace(self, columns=self.cost())

    def __getitem__(self, rows: slice) -> Problem:
        return replace(
            self,
            log_h=self.log_h[rows],
            log_y=self.log_y[rows],
            support=self.support if self.support.shape[0] == 1 else self.support[rows],
            columns=None if self.columns is None else self.columns[rows],
        )

    def to(self, dtype: torch.dtype) -> Problem:
        columns = self.columns
        if columns is not None and columns.stride(0) == 0:  # one for all: converted, it stays so
            columns = columns[:1].to(dtype).expand_as(columns)
        elif columns is not None:
            columns = columns.to(dtype)
        log_h, log_y = self.log_h.to(dtype), self.log_y.to(dtype)
        same = replace(self, log_h=log_h, log_y=log_y, columns=columns)
        return same._with_equal_masses()
