"""The score on validation data, and the best one so far."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from wassloss.training.examples import Examples

Score: TypeAlias = Callable[..., Any]  # of (outputs, target, …), like a loss

ROWS_AT_ONCE = 4096  # of the validation data that go through the model together


class Validation:
    """Examples to judge a model by, and how."""

    def __init__(
        self, examples: Examples, score: Score, higher_is_better: bool, device: torch.device
    ) -> None:
        self.examples = examples.to(device)
        self.score = score
        self.higher_is_better = higher_is_better

    @torch.no_grad()
    def __call__(self, model: nn.Module) -> float:
        """The score of a model in evaluation mode.

        The model sees the examples in pieces, the score all at once: a ranking within a label
        cannot be computed from pieces.
        """
        starts = range(0, len(self.examples), ROWS_AT_ONCE)
        was_training = model.training
        model.eval()
        try:
            pieces = [model(self.examples.take(slice(i, i + ROWS_AT_ONCE))[0]) for i in starts]
        finally:
            model.train(was_training)
        return float(self.score(torch.cat(pieces), *self.examples.columns[1:]))


@dataclass
class Best:
    """The best score so far, its weights, and how many scores have come since."""

    score: float = math.nan
    step: int | None = None
    weights: dict[str, Tensor] = field(default_factory=dict)
    waited: int = 0

    def update(self, score: float, step: int, higher: bool, weights: dict[str, Tensor]) -> None:
        """Take in a score; `weights` are copied if it is the best, and none need be given."""
        better = score > self.score if higher else score < self.score
        if self.step is not None and not better:
            self.waited += 1
            return
        self.score, self.step, self.waited = score, step, 0
        self.weights = {name: tensor.detach().clone() for name, tensor in weights.items()}
