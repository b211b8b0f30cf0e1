"""From probabilities to the labels to answer with."""

from __future__ import annotations

import torch
from torch import Tensor

from wassloss.ground import GroundMetric
from wassloss.scores import least_cost_label, least_cost_labels, top_labels

DECISIONS = ("probable", "least_cost")


def check_decision(decision: str) -> None:
    """Refuse unknown rules."""
    if decision not in DECISIONS:
        raise ValueError(f"decision must be one of {', '.join(DECISIONS)}, got {decision!r}")


def decide(p: Tensor, metric: GroundMetric, k: int, decision: str) -> Tensor:
    """Indices of `k` labels per example, best first, `(n, k)`, given their probabilities.

    The most ``"probable"`` ones, or those of ``"least_cost"``: the label, or for several the set,
    whose expected cost to the nearest of them is small.
    """
    check_decision(decision)
    if decision == "probable":
        return torch.as_tensor(top_labels(p, k))
    if k == 1:
        return torch.as_tensor(least_cost_label(p, metric)).unsqueeze(1)
    return torch.as_tensor(least_cost_labels(p, metric, k))
