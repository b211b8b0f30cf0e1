"""The scores of a run, example by example, so that runs can be compared on the same ones."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wassloss import scores
from wassloss.data.streaming import Batch
from wassloss.ground import GroundMetric
from wassloss.runs.trained import TrainedRun
from wassloss.scores._inputs import read_labels
from wassloss.scores.differences import Difference, paired_difference

CURVE = 20  # guesses up to which the top-k cost is computed

# name → whether more is better, and what it is
MEANING: dict[str, tuple[bool, str]] = {
    "top1_cost": (False, "distance of the first guess to a true label"),
    "top5_cost": (False, "the same, mean of the first five guesses"),
    "top10_cost": (False, "the same, mean of the first ten guesses"),
    "auc": (True, "chance that a true label outscores a false one"),
    "accuracy": (True, "how often the first guess is right"),
    "recall_at_5": (True, "share of true labels in the first five guesses"),
    "expected_distance": (False, "first guess to all true labels, mean distance"),
    "mass_distance": (False, "distance of predicted mass to a true label"),
}


@dataclass(frozen=True)
class ExampleScores:
    """Scores of each example.

    Attributes:
        curve: top-k cost for k = 1, 2, …, `(examples, k)`.
        values: the other scores by name, `(examples,)`; NaN if an example has none.
    """

    curve: NDArray[np.float64]
    values: dict[str, NDArray[np.float64]]

    def __len__(self) -> int:
        return len(self.curve)

    def mean(self, name: str) -> float:
        """Over the examples that have the score; NaN if none has."""
        own = self.values[name]
        known = own[~np.isnan(own)]
        return float(known.mean()) if len(known) else float("nan")

    def standard_error(self, name: str) -> float:
        """Of the mean, for independent examples."""
        own = self.values[name]
        known = own[~np.isnan(own)]
        return float(known.std(ddof=1) / len(known) ** 0.5) if len(known) > 1 else float("nan")

    def to_json(self) -> dict[str, Any]:
        """Means and their standard errors, or None."""
        return {
            "examples": len(self),
            "scores": {name: _number(self.mean(name)) for name in self.values},
            "standard_errors": {name: _number(self.standard_error(name)) for name in self.values},
            "top_k_cost": [float(value) for value in self.curve.mean(0)],
        }


def run_difference(
    first: Sequence[ExampleScores],
    second: Sequence[ExampleScores],
    name: str,
    groups: NDArray[np.int64] | None = None,
) -> Difference:
    """How much two settings differ in a score on the same examples, each in several runs."""
    pairs = zip(first, second, strict=True)
    return paired_difference([b.values[name] - a.values[name] for a, b in pairs], groups)


def evaluate(
    run: TrainedRun, batches: Iterable[Batch], metric: GroundMetric | None = None
) -> ExampleScores:
    """Score a run on examples with known labels.

    Args:
        run: the run.
        batches: of (features, target), with labels in the run's order.
        metric: whose distances to charge; by default the run's own.
    """
    chosen = run.metric if metric is None else metric
    pieces = [score_examples(run.logits(x), target, chosen) for x, target in batches]
    if not pieces:
        raise ValueError("data must hold examples, got none")
    return ExampleScores(
        np.concatenate([piece.curve for piece in pieces]),
        {
            name: np.concatenate([piece.values[name] for piece in pieces])
            for name in pieces[0].values
        },
    )


@torch.no_grad()
def score_examples(logits: Tensor, target: Any, metric: GroundMetric) -> ExampleScores:
    """All scores of some predictions."""
    ks = range(1, min(CURVE, metric.size) + 1)
    curve = scores.top_k_cost(logits, target, metric, k=ks, reduction="none").double().numpy()
    mass = (logits.softmax(1) * nearest_true(target, metric, logits)).sum(1)
    values = {
        **{f"top{k}_cost": curve[:, k - 1] for k in (1, 5, 10) if k <= metric.size},
        "auc": scores.ranking_auc(logits, target, reduction="none").double().numpy(),
        "accuracy": scores.accuracy(logits, target, reduction="none").double().numpy(),
        "expected_distance": scores.expected_distance(logits, target, metric, reduction="none")
        .double()
        .numpy(),
        "mass_distance": mass.double().numpy(),
    }
    if metric.size >= 5:
        values["recall_at_5"] = (
            scores.recall_at_k(logits, target, 5, reduction="none").double().numpy()
        )
    return ExampleScores(curve, {name: values[name] for name in MEANING if name in values})


def nearest_true(target: Any, metric: GroundMetric, like: Tensor) -> Tensor:
    """The distance from every label to the nearest true one, `(batch, labels)`."""
    truth = read_labels(target, like)
    nearest = like.new_full((len(like), metric.size), torch.inf)
    for place in range(truth.indices.shape[1]):
        used = truth.weights[:, place] > 0
        columns = metric.distance_columns(truth.indices[used, place]).to(like.dtype)
        nearest[used] = torch.minimum(nearest[used], columns)
    return nearest


def _number(value: float) -> float | None:
    return None if np.isnan(value) else value
