"""Small models for the losses, which work with any other `nn.Module` as well.

`config` returns a JSON-serialisable description of a model, from which `build` rebuilds it:

>>> from wassloss import models
>>> model = models.Linear(features=4, labels=3)
>>> model.config()
{'kind': 'Linear', 'features': 4, 'labels': 3, 'bias': True}
>>> models.build(model.config(), model.state_dict())
Linear(
  (linear): Linear(in_features=4, out_features=3, bias=True)
)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import Any

import torch
from torch import Tensor, nn
from torch.nn.functional import softplus

from wassloss._checks import check_count

__all__ = ["MLP", "Linear", "LogMass", "MeasureModel"]


def __dir__() -> list[str]:
    return __all__


_TINY = -15.0  # below it, the series log(softplus(z)) = z - e^z/2 + ... is exact in float32


class _Described(nn.Module):
    """A model that keeps the arguments of its constructor."""

    arguments: dict[str, Any]

    def config(self) -> dict[str, Any]:
        """A description from which `build` rebuilds the model."""
        return {"kind": type(self).__name__, **self.arguments}


class Linear(_Described):
    r"""Logits `Θx + b`, whose softmax is the paper's `h_θ(x)`.

    From `(batch, features)` to `(batch, labels)`; the losses apply the softmax.

    Args:
        features: number of input features.
        labels: number of labels.
        bias: whether to add a bias; the paper's model has none.
    """

    def __init__(self, features: int, labels: int, bias: bool = True) -> None:
        super().__init__()
        sizes = check_count("features", features), check_count("labels", labels)
        self.linear = nn.Linear(*sizes, bias=bias)
        self.arguments = {"features": sizes[0], "labels": sizes[1], "bias": bool(bias)}

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.linear(x)
        return logits


class MLP(_Described):
    """Linear layers with ReLU between them, from `(batch, features)` to logits `(batch, labels)`.

    Args:
        features: number of input features.
        hidden_layer_sizes: width of each hidden layer, in order; empty for a linear model.
        labels: number of labels.
    """

    def __init__(self, features: int, hidden_layer_sizes: Sequence[int], labels: int) -> None:
        super().__init__()
        if isinstance(hidden_layer_sizes, str) or not hasattr(hidden_layer_sizes, "__len__"):
            raise TypeError(
                "hidden_layer_sizes must be a sequence of widths, such as [128], got "
                f"{hidden_layer_sizes!r}"
            )
        hidden = [check_count("hidden_layer_sizes", width) for width in hidden_layer_sizes]
        widths = (check_count("features", features), *hidden, check_count("labels", labels))
        layers: list[nn.Module] = []
        for inside, outside in pairwise(widths[:-1]):
            layers += [nn.Linear(inside, outside), nn.ReLU()]
        self.layers = nn.Sequential(*layers, nn.Linear(widths[-2], widths[-1]))
        self.arguments = {
            "features": widths[0],
            "hidden_layer_sizes": hidden,
            "labels": widths[-1],
        }

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.layers(x)
        return logits


class LogMass(nn.Module):
    """`log(softplus(scores))`, an output layer for :class:`~wassloss.RelaxedWassersteinLoss`.

    Masses grow only linearly with their scores, so that one large feature does not cause an
    enormous mass, and decay exponentially to zero, so that their logs are finite.

    >>> LogMass()(torch.tensor([-100.0, 0.0, 100.0])).exp()
    tensor([3.7835e-44, 6.9315e-01, 1.0000e+02])
    """

    def forward(self, scores: Tensor) -> Tensor:
        # Clamp both inputs: where multiplies the unused gradient by 0, and 0 · ∞ is NaN.
        small = scores.clamp(max=_TINY)
        log_mass: Tensor = softplus(scores.clamp(min=_TINY)).log()
        return torch.where(scores < _TINY, small - small.exp() / 2, log_mass)


class MeasureModel(_Described):
    """A linear model or perceptron that predicts a mass for every label, of any total.

    From `(batch, features)` to the logs of masses, `(batch, labels)`.

    Args:
        features: number of input features.
        labels: number of labels.
        hidden_layer_sizes: width of each hidden layer; empty for a linear model.

    >>> import wassloss as wl
    >>> model = MeasureModel(features=4, labels=5)
    >>> loss_fn = wl.RelaxedWassersteinLoss(wl.ground.Ordinal(5))
    >>> loss_fn(model(torch.ones(2, 4)), torch.rand(2, 5)).backward()
    """

    def __init__(self, features: int, labels: int, hidden_layer_sizes: Sequence[int] = ()) -> None:
        super().__init__()
        self.scores = MLP(features, hidden_layer_sizes, labels)
        self.head = LogMass()
        self.arguments = self.scores.arguments

    def forward(self, x: Tensor) -> Tensor:
        log_masses: Tensor = self.head(self.scores(x))
        return log_masses


_KINDS = {kind.__name__: kind for kind in (Linear, MLP, MeasureModel)}


def build(config: Mapping[str, Any], weights: Mapping[str, Tensor]) -> nn.Module:
    """Rebuild a model from its `config()` and its weights, in evaluation mode.

    The weights are assigned, not copied: the model shares their memory, dtype and device.

    Raises:
        ValueError, TypeError: if the kind is unknown, or the arguments are invalid.
        RuntimeError: if the weights belong to another model.
    """
    arguments = dict(config)
    kind = arguments.pop("kind", None)
    if kind not in _KINDS:
        raise ValueError(f"config must have a kind among {', '.join(_KINDS)}, got {kind!r}")
    with torch.device("meta"):  # allocate no weights
        model = _KINDS[kind](**arguments)
    model.load_state_dict(weights, assign=True)
    return model.eval()
