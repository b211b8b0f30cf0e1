"""Reduce the losses of a batch to their mean or sum, or return each of them."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from wassloss.kernels.status import IGNORED
from wassloss.losses.autograd import reduced_with_fused_gradient, with_fused_gradient
from wassloss.losses.evaluators.base import Summary
from wassloss.targets import ReadSets, ReadTarget

REDUCTIONS = ("mean", "sum", "none")


class PerExample(NamedTuple):
    """Losses before they are reduced."""

    values: Tensor  # (batch,); 0 where an example does not count
    shape: torch.Size  # of the returned losses: that of the logits without labels
    counts: Tensor | None = None  # (batch,), which examples count; None if all do
    # If autograd does not know the gradient yet: `x`, and the gradient of each value in its row.
    slope: tuple[Tensor, Tensor] | None = None
    summary: Summary | None = None  # if a kernel has already reduced them

    def differentiable(self) -> Tensor:
        """`values` with their gradient, in the returned shape."""
        values = (
            self.values if self.slope is None else with_fused_gradient(self.values, *self.slope)
        )
        # Even a view of the same shape costs a step in the backward pass.
        return values if values.shape == self.shape else values.reshape(self.shape)

    def reduced(self, reduction: str, share: Tensor | None = None) -> Tensor:
        """Reduce to differentiable values, multiplied by `share`, or to their mean or sum.

        The mean is weighted, as in `CrossEntropyLoss`. Values that do not count are 0.
        """
        if reduction == "none":
            values = self.differentiable()
            return values if share is None else share * values
        mean = reduction == "mean"
        if share is None and (not mean or self.counts is None or self.summary is not None):
            return self._mean_or_sum(mean)
        total = (share * self.differentiable()).sum() if share is not None else self._mean_or_sum()
        return quotient(total, self.total_share(share)) if mean else total

    def total_share(self, share: Tensor | None) -> Tensor:
        """The sum of the shares of the examples that count."""
        counts = None if self.counts is None else self.counts.reshape(self.shape)
        if share is None:
            every = self.values.new_full((), len(self.values))
            return every if counts is None else counts.sum()
        return share.sum() if counts is None else (share * counts).sum()

    def _mean_or_sum(self, mean: bool = False) -> Tensor:
        share: Tensor | float | None
        if not mean:
            reduced, share = self.values.sum(), None
        elif self.summary is not None:
            reduced, share = self.summary.mean, self.summary.share
        else:
            reduced, share = self.values.mean(), 1 / max(1, len(self.values))
        if self.slope is None:
            return reduced
        return reduced_with_fused_gradient(reduced, *self.slope, share)


def counting(status: Tensor | None) -> Tensor | None:
    """Which examples count, `(batch,)`, by their statuses; None if all do."""
    return None if status is None else status != IGNORED


def quotient(total: Tensor, share: Tensor) -> Tensor:
    """`total / share`; NaN if nothing counts, as in `CrossEntropyLoss`, but with a gradient of 0.

    Otherwise, one batch of ignored labels would turn every weight of a model into NaN.
    """
    some = share != 0
    return torch.where(some, total / torch.where(some, share, 1), math.nan)


def weight_of_classes(weight: Tensor, target: ReadTarget | ReadSets) -> Tensor:
    """The weight of each example, from the weights of its classes, `(batch,)`."""
    if isinstance(target, ReadSets):
        return target.mean_of(weight)
    indices, mass = target
    # Padding and class ids out of range do not count.
    weights = weight[indices.clamp(0, len(weight) - 1)]
    if mass is None:
        return weights
    mass = mass.detach().to(weight.dtype)
    # An average, so that class weights of 1 change nothing, whatever the mass of the target.
    return (weights * mass).sum(-1) / mass.sum(-1)
