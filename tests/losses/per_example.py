"""The losses of each example in the metric's own units, with costs on demand, as functions."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from wassloss.losses.functional import loss_of_logits, relaxed_loss
from wassloss.losses.spec import LossSpec
from wassloss.targets import Target


def wasserstein_loss(logits: Tensor, target: Target, metric: Any, **keywords: Any) -> Tensor:
    return loss_of_logits(logits, target, LossSpec.checked(metric, **keywords)).differentiable()


def relaxed_wasserstein_loss(log_h: Tensor, target: Target, metric: Any, **keywords: Any) -> Tensor:
    return relaxed_loss(log_h, target, LossSpec.checked(metric, **keywords)).differentiable()
