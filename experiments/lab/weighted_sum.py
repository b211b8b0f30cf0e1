"""A weighted sum of losses."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from wassloss import SparseTarget
from wassloss.losses.baselines import PerExampleLoss


class WeightedSum(PerExampleLoss):
    """A weighted sum of losses, which must have a `reduction`."""

    def __init__(self, losses: Sequence[nn.Module], weights: Sequence[float]) -> None:
        super().__init__()
        for loss in losses:
            loss.reduction = "none"  # type: ignore[assignment]
        self.losses, self.weights = nn.ModuleList(losses), weights

    def per_example(self, logits: Tensor, target: Tensor | SparseTarget) -> Tensor:
        parts = zip(self.losses, self.weights, strict=True)
        return torch.stack([weight * loss(logits, target) for loss, weight in parts]).sum(0)
