"""Unnormalised measures: a head that turns scores into log-masses, and a model with it on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from wassloss.models.mlp import MLP

_TINY = -15.0  # below it, log(softplus(z)) = z - e^z/2 + ... is z to the last digit of float32


class LogMass(nn.Module):
    """`log(softplus(scores))`: the head that :class:`~wassloss.RelaxedWassersteinLoss` takes.

    A mass grows like its score, not exponentially, so that one large feature does not make an
    enormous mass; and falls to zero exponentially, so that its log is never infinite.

    >>> LogMass()(torch.tensor([-100.0, 0.0, 100.0])).exp()
    tensor([3.7835e-44, 6.9315e-01, 1.0000e+02])
    """

    def forward(self, scores: Tensor) -> Tensor:
        # Each branch sees only what it can bear, or its infinite gradient would reach the other's.
        small = scores.clamp(max=_TINY)
        log_mass: Tensor = softplus(scores.clamp(min=_TINY)).log()
        return torch.where(scores < _TINY, small - small.exp() / 2, log_mass)


class MeasureModel(nn.Module):
    """A linear model or perceptron that predicts a mass for every label, of any total.

    Args:
        features: length of an input.
        labels: number of labels.
        hidden_layer_sizes: width of each hidden layer; none for a linear model.

    Shapes:
        - x: `(batch, features)`
        - output: log-masses, `(batch, labels)`

    >>> import wassloss as wl
    >>> model = MeasureModel(features=4, labels=5)
    >>> loss_fn = wl.RelaxedWassersteinLoss(wl.ground.Ordinal(5))
    >>> loss_fn(model(torch.ones(2, 4)), torch.rand(2, 5)).backward()
    """

    def __init__(self, features: int, labels: int, hidden_layer_sizes: Sequence[int] = ()) -> None:
        super().__init__()
        self.scores = MLP(features, hidden_layer_sizes, labels)
        self.head = LogMass()

    def forward(self, x: Tensor) -> Tensor:
        log_masses: Tensor = self.head(self.scores(x))
        return log_masses

    def config(self) -> dict[str, Any]:
        """What `models.config.build` makes the same model from."""
        features, *hidden, labels = self.scores.widths
        return {
            "kind": "MeasureModel",
            "features": features,
            "labels": labels,
            "hidden_layer_sizes": hidden,
        }
