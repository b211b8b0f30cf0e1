"""The score on validation data, and when to stop for its sake."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from wassloss.training.examples import Examples

Score: TypeAlias = Callable[..., Any]  # of (outputs, target, …), as a loss is

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
        """The score of a model.

        The model sees the examples in pieces and in evaluation mode, the score all at once: a
        ranking within a label cannot be had from pieces.
        """
        starts = range(0, len(self.examples), ROWS_AT_ONCE)
        was_training = model.training
        model.eval()
        try:
            pieces = [model(self.examples.take(slice(i, i + ROWS_AT_ONCE))[0]) for i in starts]
        finally:
            model.train(was_training)
        return float(self.score(torch.cat(pieces), *self.examples.columns[1:]))

    def is_better(self, score: float, best: float) -> bool:
        return score > best if self.higher_is_better else score < best


@dataclass
class Best:
    """The best score so far, its weights, and how many scores have come since."""

    score: float = math.nan
    iteration: int = -1
    weights: dict[str, Tensor] = field(default_factory=dict)
    waited: int = 0

    def see(
        self, score: float, iteration: int, model: nn.Module, validation: Validation, keep: bool
    ) -> None:
        """Take in a score; `keep` a copy of the weights where it is the best."""
        if self.iteration >= 0 and not validation.is_better(score, self.score):
            self.waited += 1
            return
        self.score, self.iteration, self.waited = score, iteration, 0
        if keep:
            self.weights = {name: t.detach().clone() for name, t in model.state_dict().items()}
