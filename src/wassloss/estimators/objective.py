"""The objective of the estimators: the mean loss over examples in memory."""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from wassloss.losses.modules import TransportLoss
from wassloss.targets import SparseTarget, TargetOrSets

_ADVICE = "look for extreme values in the data, or lower the learning rate of small steps"


class DivergedError(ArithmeticError):
    """The loss or the model's output is not finite; the message says what to change."""


@dataclass(frozen=True)
class Examples:
    """Features, targets and weights of examples; weights are None if all are equal."""

    features: Any  # a tensor `(n, features)`, or SparseRows
    target: TargetOrSets
    weight: Tensor | None = None

    def __len__(self) -> int:
        return len(self.features)

    def __getitem__(self, rows: Tensor) -> Examples:
        weight = None if self.weight is None else self.weight[rows]
        return Examples(self.features[rows], _narrowed(self.target[rows]), weight)

    def to(self, device: torch.device) -> Examples:
        """Move the examples to a device."""
        weight = None if self.weight is None else self.weight.to(device)
        return Examples(self.features.to(device), self.target.to(device), weight)


def _narrowed(target: TargetOrSets) -> TargetOrSets:
    """Drop unused columns of a sparse target. CPU only: on a GPU this would synchronise."""
    if not isinstance(target, SparseTarget) or not target.weights.is_cpu:
        return target
    if target.weights[:, -1].any():
        return target
    used = target.weights.any(0).nonzero()
    return target[:, : int(used[-1]) + 1 if len(used) else 1]


class MeanLoss:
    """The weighted mean of a loss, divided by `size`.

    The division makes `alpha` equally strong for all losses. Weights are divided by the number of
    examples, not by their sum, so that batches of large weight take larger steps.

    Args:
        loss: a loss with `reduction="none"`.
        size: the divisor, the sum of the weights of the loss's terms.
    """

    def __init__(self, loss: TransportLoss, size: float) -> None:
        self.loss, self.size = loss, size

    def __call__(self, outputs: Tensor, examples: Examples) -> Tensor:
        """The mean, differentiable in the model's outputs.

        Raises:
            DivergedError: if the outputs are not finite.
        """
        with _diverging(outputs):
            values: Tensor = self.loss(outputs, examples.target)
        weight = examples.weight
        return (values if weight is None else weight * values).mean() / self.size

    def sum_with_gradient(self, outputs: Tensor, examples: Examples) -> tuple[Tensor, Tensor]:
        """The sum over examples, not divided by anything, and its gradient in the outputs.

        Raises:
            DivergedError: if the outputs are not finite.
        """
        with _diverging(outputs):
            values, gradient = self.loss.value_and_gradient(outputs, examples.target)
        if examples.weight is not None:
            values, gradient = examples.weight * values, examples.weight.unsqueeze(1) * gradient
        return values.sum(), gradient


@contextmanager
def _diverging(outputs: Tensor) -> Iterator[None]:
    """Turn a loss's ValueError for outputs that are not finite into a DivergedError."""
    try:
        yield
    except ValueError as error:
        if not outputs.isfinite().all():
            raise DivergedError(f"the model's output is not finite; {_ADVICE}") from error
        raise


def check_finite(loss: float, where: str) -> float:
    """Return the loss; raise a DivergedError if it is not finite."""
    if not math.isfinite(loss):
        raise DivergedError(f"the loss is {loss} {where}; {_ADVICE}")
    return loss


def is_penalized(parameter: Tensor) -> bool:
    """Whether the penalty applies to a parameter: to matrices, not to biases."""
    return parameter.dim() >= 2
