"""Functional losses per example, in the metric's own units, with costs on demand."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from wassloss.losses.evaluate import Evaluate
from wassloss.losses.spec import LossSpec
from wassloss.targets import Target


def wasserstein_loss(logits: Tensor, target: Target, metric: Any, **keywords: Any) -> Tensor:
    spec = LossSpec.checked(metric, **keywords)
    return Evaluate(spec)(logits, target)[0].differentiable()


def relaxed_wasserstein_loss(log_h: Tensor, target: Target, metric: Any, **keywords: Any) -> Tensor:
    return wasserstein_loss(log_h, target, metric, unnormalized=True, **keywords)
