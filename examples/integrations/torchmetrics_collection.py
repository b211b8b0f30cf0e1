"""torchmetrics: scores of wassloss and others in one collection, batch by batch."""

from __future__ import annotations

import torch
from grades import GRADES, graded_patients
from torch import Tensor
from torchmetrics import MetricCollection
from torchmetrics.classification import MulticlassAccuracy

import wassloss as wl
from wassloss.scores.accumulators import Accumulator


def main() -> tuple[dict[str, Tensor], dict[str, float]]:
    """Score a random model; return the scores computed by batches and from all data at once."""
    torch.manual_seed(0)
    x, y = graded_patients()
    metric = wl.ground.Ordinal(GRADES)
    probabilities = torch.nn.Linear(x.shape[1], GRADES)(x).softmax(1).detach()

    collection = MetricCollection(
        {
            "accuracy": MulticlassAccuracy(GRADES, average="micro"),
            "distance off": Accumulator(wl.scores.mean_absolute_error),
            "kappa": Accumulator(wl.scores.quadratic_weighted_kappa),
            "wasserstein": Accumulator(wl.scores.mean_wasserstein, metric),
        }
    )
    for batch in range(0, len(x), 50):
        rows = slice(batch, batch + 50)
        collection.update(probabilities[rows], y[rows])

    at_once = {
        "accuracy": wl.scores.accuracy(probabilities, y),
        "distance off": wl.scores.mean_absolute_error(probabilities, y),
        "kappa": wl.scores.quadratic_weighted_kappa(probabilities, y),
        "wasserstein": wl.scores.mean_wasserstein(probabilities, y, metric),
    }
    return collection.compute(), {name: float(value) for name, value in at_once.items()}


if __name__ == "__main__":
    for name, value in main()[0].items():
        print(f"{name}: {value:.3f}")
