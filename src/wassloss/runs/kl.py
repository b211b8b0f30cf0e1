"""The baseline: cross-entropy for targets in any form."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from wassloss.targets import Target, read_target


class KLLoss(nn.Module):
    r"""The mean of `KL(target ‖ softmax(logits))`, each target divided by its sum.

    It is cross-entropy less the target's own entropy, so that its gradient is cross-entropy's.

    >>> KLLoss(2)(torch.zeros(1, 2), torch.tensor([[3.0, 3.0]]))
    tensor(0.)
    """

    def __init__(self, labels: int) -> None:
        super().__init__()
        self.labels = labels

    def forward(self, logits: Tensor, target: Target) -> Tensor:
        read, _ = read_target(target, self.labels, logits.shape[:1], logits)
        y = read.weights / read.weights.sum(1, keepdim=True)
        log_h = logits.log_softmax(1).gather(1, read.indices.expand_as(y))
        # Padding weighs nothing, and must not meet an infinite logarithm.
        return (torch.xlogy(y, y) - torch.where(y > 0, y * log_h, 0.0)).sum(1).mean()
