"""The paper's model: a linear softmax."""

from __future__ import annotations

from typing import Any

from torch import Tensor, nn

from wassloss._checks import check_count


class LinearSoftmax(nn.Module):
    r"""Logits `Θx + b`, whose softmax is the paper's `h_θ(x)`.

    Args:
        features: length of an input.
        labels: number of labels.
        bias: False for the paper's model to the letter, which has none.

    Shapes:
        - x: `(batch, features)`
        - output: logits, `(batch, labels)`; the losses take the softmax themselves.
    """

    def __init__(self, features: int, labels: int, bias: bool = True) -> None:
        super().__init__()
        self.linear = nn.Linear(
            check_count("features", features), check_count("labels", labels), bias=bias
        )

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.linear(x)
        return logits

    def config(self) -> dict[str, Any]:
        """What `models.config.build` makes the same model from."""
        linear = self.linear
        return {
            "kind": "LinearSoftmax",
            "features": linear.in_features,
            "labels": linear.out_features,
            "bias": linear.bias is not None,
        }
