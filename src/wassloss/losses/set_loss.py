r"""The loss for a set of labels, one of which is the true one, in closed form.

.. math:: \omega \Bigl( \sum_i h_i m_i + \varepsilon \sum_i h_i \log h_i \Bigr)
          - \alpha \log \sum_{j \in S} h_j, \qquad m_i = \min_{j \in S} M_{ij}

with the weights :math:`\omega` of transport and :math:`\alpha` of KL, and without the entropy for
the regulariser ``"product"``. Both terms are minima over all targets on S: transport moves all of h
to the nearest label of S. For a single label, each term equals that of the label's loss.

With `softening` σ, KL compares with the shares :math:`s = \text{softmax}(-m / \sigma)` outside of
S, and with the sum of the shares inside it:

.. math:: \text{KL} = \sum_{i \notin S} s_i \log \frac{s_i}{h_i}
          + s(S) \log \frac{s(S)}{h(S)}

This leaves the distribution of mass within S free, equals KL to the softened label if S has one
label, and tends to :math:`-\log h(S)` as σ → 0.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from wassloss.losses.autograd import independent_of, with_gradient
from wassloss.losses.softened import softmin
from wassloss.losses.spec import LossSpec
from wassloss.targets import ReadSets
from wassloss.transport.precision import smallest_mass


def check_takes_sets(spec: LossSpec) -> None:
    """Refuse settings that are undefined for sets of labels."""
    gamma = spec.objective.gamma
    for name, wrong, expected in (
        ("gamma", not spec.objective.balanced, "infinite, as in WassersteinLoss,"),
        ("debiased", spec.debiased, "False"),
        ("scaling_iterations", spec.options.scaling_iterations is not None, "None"),
        ("solver", spec.options.solver is not None, "None"),
    ):
        if wrong:
            got = gamma if name == "gamma" else getattr(spec.options, name, True)
            raise ValueError(
                f"{name} must be {expected} if the target is a SetTarget, got {got}: the loss of a "
                "set is a closed form, the minimum over all targets on the set"
            )


def set_loss(logits: Tensor, target: ReadSets, spec: LossSpec) -> Tensor:
    """The loss per example, `(batch,)`, for checked sets."""
    log_h = logits.log_softmax(1)
    value = independent_of(log_h)
    soft = bool(spec.kl_weight and spec.softening)
    allowed = target.allowed(spec.metric.size)
    nearest: Tensor | None = None
    if spec.transport_weight or soft:
        nearest = costs_to_sets(target, allowed, spec).to(log_h.dtype)
    if spec.transport_weight and nearest is not None:
        value = value + transport(log_h, nearest, spec.transport_weight, spec.entropy_of_one_label)
    if soft and nearest is not None:
        value = value + spec.kl_weight * softened_kl(log_h, allowed, nearest, spec.softening)
    elif spec.kl_weight:
        value = value - spec.kl_weight * log_mass(log_h, allowed)
    return value


def costs_to_sets(target: ReadSets, allowed: Tensor, spec: LossSpec) -> Tensor:
    """The cost from every label to the nearest label of each set, `(batch, labels)`."""
    metric = spec.metric
    if metric.orders_ranges_of(target.members):
        found = metric.costs_to_ranges(target.first, target.last)
        if found is not None:
            return found
    return metric.costs_to_sets(allowed)


def transport(log_h: Tensor, nearest: Tensor, weight: float, epsilon: float) -> Tensor:
    """`Σ h (weight m + ε log h)`, `(batch,)`, with its gradient in `log_h` and in the costs."""
    fixed, costs = log_h.detach(), nearest.detach()
    h = fixed.exp()
    lowest = math.log(smallest_mass(h.dtype))
    slope = weight * costs + epsilon * fixed.clamp(min=lowest)
    pairs = [(log_h, h * (slope + epsilon))]
    if nearest.requires_grad:
        pairs.append((nearest, weight * h))
    if not torch.is_grad_enabled():
        return (h * slope).sum(1)
    return with_gradient((h * slope).sum(1), *[(x, g) for x, g in pairs if x.requires_grad])


def log_mass(log_h: Tensor, allowed: Tensor) -> Tensor:
    """`log Σ_{j ∈ S} h_j`, `(batch,)`."""
    inside = log_h.masked_fill(~allowed, -math.inf)
    possible = (inside != -math.inf).any(1)
    # An empty sum is −inf, whose gradient would be NaN.
    filled = inside.where(possible.unsqueeze(1), 0.0)
    return filled.logsumexp(1).where(possible, inside.sum(1))


def softened_kl(log_h: Tensor, allowed: Tensor, nearest: Tensor, strength: float) -> Tensor:
    """KL to labels softened by the distance to the set, `(batch,)`; see the module's docstring."""
    shares = softmin(nearest, strength)
    outside = shares.masked_fill(allowed, 0.0)
    inside = shares.masked_fill(~allowed, 0.0).sum(1)
    log_outside = torch.where(outside > 0, log_h, 0.0)
    least = smallest_mass(shares.dtype)
    apart = (outside * (outside.clamp(min=least).log() - log_outside)).sum(1)
    return apart + inside * (inside.clamp(min=least).log() - log_mass(log_h, allowed))
