"""The base class of losses that are a sum over examples, and their targets."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from wassloss._checks import at_least_single, check_choice, check_count
from wassloss.ground.matrix import AnyMetric, as_ground_metric
from wassloss.losses.reduce import REDUCTIONS, PerExample
from wassloss.targets import SparseTarget, Target, read_target


class PerExampleLoss(nn.Module):
    """A loss whose value for an example does not depend on the others.

    Args:
        labels: number of labels, for losses without a metric.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    def __init__(self, labels: int = 0, *, reduction: str = "mean") -> None:
        super().__init__()
        check_choice("reduction", reduction, REDUCTIONS)
        self.labels = check_count("labels", labels) if labels != 0 else 0
        self.reduction = reduction

    def forward(self, logits: Tensor, target: Target) -> Tensor:
        with torch.autocast(logits.device.type, enabled=False):
            values = self.per_example(at_least_single(logits), target)
        return PerExample(values, values.shape).reduced(self.reduction)

    def per_example(self, logits: Tensor, target: Target) -> Tensor:
        """Losses `(batch,)`."""
        raise NotImplementedError


def masses(target: Target, labels: int, logits: Tensor) -> SparseTarget:
    """The target's labels and the mass of each."""
    if logits.dim() != 2 or logits.shape[1] != labels:
        raise ValueError(f"logits must have shape (batch, {labels}), got {tuple(logits.shape)}")
    return read_target(target, labels, logits.shape[:1], logits)[0]


def dense_shares(target: Target, labels: int, logits: Tensor) -> Tensor:
    """The share of each label in the target's mass, `(batch, labels)`."""
    return masses(target, labels, logits).normalized().dense(labels)


def cost_table(metric: AnyMetric, relative: bool = False) -> Tensor:
    """All costs, divided by the largest if `relative`; row j holds those from labels to label j."""
    metric = as_ground_metric(metric)
    cost = metric.cost_columns(torch.arange(metric.size, device=metric.device)).detach()
    return cost / cost.max().clamp(min=torch.finfo(cost.dtype).tiny) if relative else cost
