"""Labels softened by the metric, with which KL compares the prediction."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from wassloss.ground import GroundMetric
from wassloss.targets import SparseTarget

# Smaller values have no further effect, and single precision cannot divide by much less.
LEAST_SOFTENING = 1e-30


def softened(target: SparseTarget, metric: GroundMetric, strength: float, nearest: bool) -> Tensor:
    """Shares of all labels, `(batch, labels)`, for targets whose weights sum to 1.

    Each label κ becomes `softmax(−M_·κ / strength)` and a target the mixture of its labels. With
    `nearest`, a target becomes `softmax(−min_κ M_·κ / strength)`, in which a label near many true
    ones counts for no more than one that is near a single one.
    """
    weights = target.weights
    columns = metric.unchecked_cost_columns(target.indices).to(weights.dtype)
    if nearest:
        return softmin(nearest_costs(weights, columns), strength)
    return mixed(weights, softmin(columns, strength))


def nearest_costs(weights: Tensor, columns: Tensor) -> Tensor:
    """The cost of every label to the target's nearest; shapes as in :func:`mixed`."""
    return columns.masked_fill((weights == 0).unsqueeze(2), math.inf).amin(1)


def mixed(weights: Tensor, columns: Tensor) -> Tensor:
    """Columns of the target's labels `(batch or 1, support, labels)`, weighed and added."""
    if len(columns) != len(weights):  # every label, for all examples
        return weights @ columns[0]
    return torch.bmm(weights.unsqueeze(1), columns).squeeze(1)


def softmin(costs: Tensor, strength: float) -> Tensor:
    """Shares `softmax(−costs / strength)` along the last dimension."""
    # Subtracting the least changes no share, and keeps the quotients finite.
    return ((costs.amin(-1, keepdim=True) - costs) / max(strength, LEAST_SOFTENING)).softmax(-1)
