"""The loss and gradient of linear models with one label per example, in closed form.

With a single label κ, all of `h` is moved there: the loss is `Σ h a + α KL` with
`a = M_·κ + ε log h`, and its gradient with respect to the logits is
`h (a − Σ h a) + α (h − e_κ)`. Cross-entropy is the case `M = 0, ε = 0, α = 1`, so models with
either loss take the same step.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor


class OneLabelLoss(NamedTuple):
    """The parameters of a Wasserstein loss for class ids."""

    cost: Tensor | None  # (labels, labels), row κ has the costs to label κ; None stands for 0
    epsilon: float = 0.0  # factor of `Σ h log h`
    kl_weight: float = 0.0


CROSS_ENTROPY = OneLabelLoss(None, kl_weight=1.0)


class LossAndGradient(NamedTuple):
    """Loss and gradient of each model."""

    loss: Tensor  # (models,), the mean over the batch
    gradient: Tensor  # (models, inputs, labels), with respect to the weights


def loss_and_gradient(
    theta: Tensor, x: Tensor, ids: Tensor, cost: Tensor, epsilon: Tensor, kl_weight: Tensor
) -> LossAndGradient:
    """`Σ h (M + ε log h) + α KL` for `h = softmax(xθ)`, averaged over the batch.

    Shapes:
        - theta: `(models, inputs, labels)`
        - x: `(models, batch, inputs)`
        - ids: `(models, batch)`
        - cost: `(models, batch, labels)`, from every label to each example's own
        - epsilon, kl_weight: `(models, 1, 1)`
    """
    log_h = torch.bmm(x, theta).log_softmax(2)
    h, slope = log_h.exp(), cost + epsilon * log_h
    mean = (h * slope).sum(2, keepdim=True)
    place = ids.unsqueeze(2)
    loss = (mean - kl_weight * log_h.gather(2, place)).mean((1, 2))
    gradient = h * (slope - mean + kl_weight)
    gradient.scatter_add_(2, place, -kl_weight.expand_as(place))
    return LossAndGradient(loss, torch.bmm(x.mT, gradient) / x.shape[1])
