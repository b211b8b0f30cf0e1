"""Regression of costs, to subtract from a model's scores."""

from __future__ import annotations

import torch
from torch import Tensor

from wassloss import SparseTarget
from wassloss.ground import GroundMetric


class NearestCostRegression:
    r"""Ridge regression of every label's cost to its nearest true label, in closed form.

    That cost is what proposing the label adds to the top-k cost, so :meth:`costs` ranks labels by a
    linear prediction of it. Subtracted from the log-probabilities of any trained model,
    :math:`\log h - \beta\, \hat c(x)` trades ranking for cost; :math:`\beta` is chosen on
    validation data.

    Args:
        metric: the ground metric.
        ridge: factor of the squared weights, added to the mean squared error; features are centred.
    """

    def __init__(self, metric: GroundMetric, ridge: float) -> None:
        self.metric, self.ridge = metric, ridge

    def fit(self, features: Tensor, target: SparseTarget) -> NearestCostRegression:
        """Fit to features `(n, d)` and their targets."""
        x = features.double()
        # In pieces, which bounds the block of costs in memory, (256, support, labels).
        pieces = zip(target.indices.split(256), target.weights.split(256), strict=True)
        nearest = [
            self.metric.cost_columns(own)
            .masked_fill((weights == 0).unsqueeze(2), torch.inf)
            .amin(1)
            for own, weights in pieces
        ]
        y = torch.cat(nearest).double()
        self.mean, self.offset = x.mean(0), y.mean(0)
        x = x - self.mean
        gram = x.T @ x / len(x) + self.ridge * torch.eye(x.shape[1], dtype=x.dtype, device=x.device)
        self.weights: Tensor = torch.linalg.solve(gram, x.T @ (y - self.offset) / len(x))
        return self

    def costs(self, features: Tensor) -> Tensor:
        """Predicted costs `(n, labels)`, in the dtype of the features."""
        predicted: Tensor = (features.double() - self.mean) @ self.weights + self.offset
        return predicted.to(features.dtype)
