"""Labels softened by the metric, as targets of the KL term."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from wassloss.ground import GroundMetric
from wassloss.targets import SparseTarget

LEAST_SOFTENING = 1e-37  # single precision cannot divide by much less


def softened(target: SparseTarget, metric: GroundMetric, strength: float, nearest: bool) -> Tensor:
    """Shares of all labels, `(batch, labels)`, for targets whose weights sum to 1.

    Each label κ becomes `softmax(−M_·κ / strength)`, and a target the mixture of its labels. If
    `nearest`, a target becomes `softmax(−min_κ M_·κ / strength)`, where a label near several true
    labels counts no more than a label near one.
    """
    weights = target.weights
    columns = metric.unchecked_cost_columns(target.indices).to(weights.dtype)
    if nearest:
        return softmin(nearest_costs(weights, columns), strength)
    return mixed(weights, softmin(columns, strength))


def nearest_costs(weights: Tensor, columns: Tensor) -> Tensor:
    """The cost from every label to the nearest true label; shapes as in :func:`mixed`."""
    return columns.masked_fill((weights == 0).unsqueeze(2), math.inf).amin(1)


def mixed(weights: Tensor, columns: Tensor) -> Tensor:
    """The weighted sum of the columns of the target's labels `(batch or 1, support, labels)`."""
    if len(columns) != len(weights):  # every label, for all examples
        return weights @ columns[0]
    return torch.bmm(weights.unsqueeze(1), columns).squeeze(1)


def softmin(costs: Tensor, strength: float) -> Tensor:
    """Shares `softmax(−costs / strength)` along the last dimension."""
    # Subtracting the smallest cost changes no share, and keeps the quotients finite.
    return ((costs.amin(-1, keepdim=True) - costs) / max(strength, LEAST_SOFTENING)).softmax(-1)
