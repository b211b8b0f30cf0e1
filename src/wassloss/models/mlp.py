"""A multi-layer perceptron."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

from torch import Tensor, nn

from wassloss._checks import check_count, check_number


class MLP(nn.Module):
    """Linear layers with ReLU between them; without hidden layers, a linear model.

    Args:
        features: length of an input.
        hidden_layer_sizes: width of each hidden layer, in order.
        labels: number of labels.
        dropout: share of the hidden units that each training step leaves out.

    Shapes:
        - x: `(batch, features)`
        - output: logits, `(batch, labels)`
    """

    def __init__(
        self, features: int, hidden_layer_sizes: Sequence[int], labels: int, dropout: float = 0.0
    ) -> None:
        super().__init__()
        if not 0 <= check_number("dropout", dropout) < 1:
            raise ValueError(f"dropout must be at least 0 and less than 1, got {dropout}")
        if isinstance(hidden_layer_sizes, int | str):
            raise TypeError(
                "hidden_layer_sizes must be a sequence of widths, such as [128], got "
                f"{hidden_layer_sizes!r}"
            )
        widths = [check_count("hidden_layer_sizes", width) for width in hidden_layer_sizes]
        self.widths = (check_count("features", features), *widths, check_count("labels", labels))
        self.dropout = dropout
        layers: list[nn.Module] = []
        for inside, outside in itertools.pairwise(self.widths):
            layers += [nn.Linear(inside, outside), nn.ReLU()]
            layers += [nn.Dropout(dropout)] if dropout else []
        last = len(layers) - (3 if dropout else 2)
        self.layers = nn.Sequential(*layers[: last + 1])

    def forward(self, x: Tensor) -> Tensor:
        logits: Tensor = self.layers(x)
        return logits

    def config(self) -> dict[str, Any]:
        """What `models.config.build` makes the same model from."""
        features, *hidden, labels = self.widths
        return {
            "kind": "MLP",
            "features": features,
            "hidden_layer_sizes": hidden,
            "labels": labels,
            "dropout": self.dropout,
        }

    def __repr__(self) -> str:
        dropout = f", dropout={self.dropout:g}" if self.dropout else ""
        return f"MLP({', '.join(map(str, self.widths))}{dropout})"
