"""A regression of costs, to subtract from a model's scores."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from wassloss._checks import check_number
from wassloss.ground.matrix import AnyMetric
from wassloss.losses.baselines.per_example import cost_table
from wassloss.losses.softened import nearest_costs
from wassloss.targets import Target, read_target


class NearestCostRegression:
    r"""Ridge regression of every label's cost to its nearest true label, in closed form.

    That cost is what proposing the label adds to the top-k cost, so :meth:`costs` ranks labels by
    what a linear model knows of it. Subtracted from the log-probabilities of a model that was
    trained as usual, :math:`\log h - \beta\, \hat c(x)` trades ranking for cost; :math:`\beta` is
    chosen on validation data.

    Args:
        metric: the ground metric, or a matrix of distances; for other costs,
            :class:`~wassloss.ground.Cost`.
        ridge: weight of the squared weights beside the mean squared error, positive; features are
            centred.

    >>> import wassloss as wl
    >>> regression = NearestCostRegression(wl.ground.Ordinal(3)).fit(
    ...     torch.tensor([[-1.0], [1.0]]), torch.tensor([0, 2])
    ... )
    >>> regression.costs(torch.tensor([[-1.0]])).argmin(1)
    tensor([0])
    """

    def __init__(self, metric: AnyMetric, *, ridge: float = 0.1) -> None:
        self.cost = cost_table(metric)
        self.ridge = check_number("ridge", ridge)
        if not 0 < self.ridge < math.inf:
            raise ValueError(f"ridge must be positive and finite, got {ridge}")
        self.weights: Tensor | None = None

    def fit(self, features: Tensor, target: Target) -> NearestCostRegression:
        """Learn from features `(n, d)` and targets in any form."""
        x = features.double()
        if x.dim() != 2 or not len(x):
            raise ValueError(f"features must have shape (n, d), n at least 1, got {tuple(x.shape)}")
        if not bool(x.isfinite().all()):
            raise ValueError("features must be finite, got NaN or infinity")
        read, _ = read_target(target, len(self.cost), x.shape[:1], x)
        indices = read.indices.expand(len(x), -1)  # one row for all, where targets are dense
        # In pieces, which bounds the block of costs that is looked at, (256, support, labels).
        pieces = zip(indices.split(256), read.weights.split(256), strict=True)
        cost = self.cost.to(x.device)
        y = torch.cat([nearest_costs(weights, cost[own]) for own, weights in pieces]).double()
        self.mean, self.offset = x.mean(0), y.mean(0)
        x = x - self.mean
        gram = x.T @ x / len(x) + self.ridge * torch.eye(x.shape[1], dtype=x.dtype, device=x.device)
        self.weights = torch.linalg.solve(gram, x.T @ (y - self.offset) / len(x))
        return self

    def costs(self, features: Tensor) -> Tensor:
        """Predicted costs `(n, labels)`, in the dtype of the features."""
        if self.weights is None:
            raise ValueError("costs needs a regression that was fitted: call fit first")
        predicted: Tensor = (features.double() - self.mean) @ self.weights + self.offset
        return predicted.to(features.dtype)
