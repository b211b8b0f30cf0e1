"""Losses and their gradients, compiled and composed, against the right answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from tests.fuzz.long.answers import Answer
from tests.fuzz.long.compare import (
    Precision,
    as_array,
    determined,
    judge,
    metric_rounding,
    slack_of,
    tangent,
    wrong_slopes,
    wrong_values,
)
from tests.fuzz.long.draws import Drawn
from tests.fuzz.long.modes import check_without_gradient
from tests.fuzz.long.tally import Tally
from tests.fuzz.long.ways import Outcome
from tests.oracles import INF, Array


def working(dtype: torch.dtype) -> torch.dtype:
    """The dtype of the computation: half precision has too few digits."""
    return torch.float64 if dtype == torch.float64 else torch.float32


def softened(y: Array, cost: Array, strength: float, *, nearest: bool) -> Array:
    """Targets `(batch, labels)` softened by costs; unchanged at a strength of 0."""
    if not strength:
        return y
    if nearest:
        reach = np.where((y > 0)[:, None, :], cost, INF).min(2)  # (batch, labels)
        powers = np.exp((reach.min(1, keepdims=True) - reach) / strength)
        shares: Array = powers / powers.sum(1, keepdims=True)
        return shares
    powers = np.exp((cost.min(0) - cost) / strength)  # (labels, targets)
    mixed: Array = y @ (powers / powers.sum(0)).T
    return mixed


def loss_and_gradient(
    loss: Callable[[Tensor], Tensor], x: Tensor, cotangent: Tensor
) -> tuple[Tensor, Tensor | None]:
    """Losses of each example, and the gradient of their sum with these weights."""
    leaf = x.detach().requires_grad_()
    values = loss(leaf)
    check_without_gradient(loss, x, values.detach())
    values.backward(cotangent.to(values.dtype))
    return values.detach(), leaf.grad


@dataclass(frozen=True)
class KLTerm:
    """`kl_weight · KL(y ‖ h)` of each example; for measures, plus `Σh − Σy`."""

    weight: float
    value: Array  # (batch,), infinite if a label of the target is impossible
    size: Array  # (batch,)
    slope: Array  # (batch, labels), with respect to logits or log h

    @classmethod
    def of(cls, weight: float, log_h: Array, y: Array, *, measures: bool = False) -> KLTerm:
        h, positive = np.exp(log_h), y > 0
        log_y = np.log(np.where(positive, y, 1.0))
        terms = np.where(positive, y * (log_y - np.where(positive, log_h, 0.0)), 0.0)
        finite = np.where(np.isinf(terms), 0.0, terms)
        excess = (h.sum(1) - y.sum(1)) if measures else np.zeros(len(y))
        size = 1 + abs(finite).sum(1) + abs(y * log_y).sum(1) + h.sum(1) + y.sum(1)
        slope = h - y if measures else h * y.sum(1, keepdims=True) - y
        if not weight:
            zero = np.zeros(len(y))
            return cls(weight, zero, zero, np.zeros_like(y))
        return cls(weight, weight * (terms.sum(1) + excess), weight * size, weight * slope)


def check_loss(
    found: Mapping[str, Outcome],
    cotangent: Tensor,
    a: Answer,
    kl: KLTerm,
    precision: Precision,
    drawn: Drawn,
    *,
    balanced: bool,
) -> Tally:
    """Check values by bounds and gradients as far as they are determined; count doubtful ones."""
    endless = np.isinf(kl.value)
    above = np.where(endless, 0.0, kl.value)
    size = a.size + kl.size
    slack = slack_of(size, precision, drawn.unit) + metric_rounding(a, drawn.metric, precision)
    firm = determined(a, precision)[:, None]

    def overflows(gradient: Array, expected: Array, most: Array) -> Array:
        """Where a gradient is infinite because it overflows its dtype, as in cross-entropy."""
        reach = np.where(firm, np.sign(gradient) * expected, most)
        return np.isinf(gradient) & (reach > 0.9 * precision.out_most)

    for way, outcome in found.items():
        values, gradient = map(as_array, outcome.answer)
        wrong = wrong_values(values - above, a.low, a.high, slack)
        wrong = np.where(endless, values != INF, wrong)
        wrong &= ~(abs(a.high) + above > 0.1 * precision.most)  # overflows the dtype
        bounds = {"low": a.low + above, "high": a.high + above, "slack": slack}
        judge(f"{way} value", wrong, outcome, {"value": values, **bounds})

        weight = cotangent.double().numpy()[:, None]
        expected = tangent(a.slope, a.problem.h) if balanced else a.slope
        lost = overflows(gradient, weight * (expected + kl.slope), weight * size[:, None])
        slope = np.where(lost, expected, gradient / weight - kl.slope)
        rounding = 2 * precision.out_eps * abs(slope + kl.slope) + 2 * precision.out_tiny
        rounding = rounding + 200 * precision.eps * kl.size[:, None]
        rounding = rounding + metric_rounding(a, drawn.metric, precision)[:, None]
        wrong = wrong_slopes(slope, a, precision, rounding=rounding, tangential=balanced)
        wrong |= ~(np.isfinite(gradient) | lost).all(1)
        parts = {"found": slope, "slope": a.slope, "h": a.problem.h, "y": a.problem.y}
        wrong &= ~(endless | (size > 0.1 * precision.most))
        judge(f"{way} gradient", wrong, outcome, parts)
    doubtful = max(outcome.doubtful for outcome in found.values())
    return Tally(len(a.low), doubtful=doubtful, loose=int((~a.tight).sum()))
