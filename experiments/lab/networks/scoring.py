"""Score a network's probabilities: scores of each example, by kind of target."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from experiments.lab.networks.tasks import Part, Task
from experiments.lab.sparse import as_dense
from wassloss import wasserstein
from wassloss.scores import (
    canberra,
    chebyshev,
    clark,
    cosine,
    intersection,
    kl_divergence,
    ranked_probability_score,
    ranking_auc,
    top_k_cost,
)

Scores = Mapping[str, NDArray[np.float64]]  # one number per example
LARGER_IS_BETTER = ("right", "least cost: right", "auc", "cosine", "intersection")


def score(task: Task, part: Part, h: Tensor) -> Scores:
    """Score probabilities `(n, labels)`, and their labels of least expected cost."""
    if task.kind == "distribution":
        found = _of_distributions(task, part, h)
    elif task.kind == "tags":
        found = _of_tags(task, part, h)
    else:
        found = _of_labels(task, part, h)
    return {name: values.double().numpy() for name, values in found.items()}


def _of_labels(task: Task, part: Part, h: Tensor) -> dict[str, Tensor]:
    y, distance = torch.as_tensor(part.target), task.metric.distance()
    found = {"nll": -h.gather(1, y[:, None]).squeeze(1).clamp(min=1e-30).log()}
    confidence, first = h.max(1)
    found["calibration"] = confidence - (first == y).float()
    for decision, ranking in (("", h), ("least cost: ", -(h @ distance))):
        order = ranking.argsort(dim=1, descending=True, stable=True)[:, :20]
        steps = distance[order, y[:, None]]  # (n, 20)
        found[f"{decision}right"] = (order[:, 0] == y).float()
        found[f"{decision}distance"] = steps[:, 0]
        found[f"{decision}grave"] = (steps[:, 0] >= task.grave).float()
        for k in (5, 20):
            if k < task.metric.size:
                found[f"{decision}distance@{k}"] = steps[:, :k].mean(1)
    if task.kind == "ordered":
        found["rps"] = ranked_probability_score(h, y, reduction="none")
    return found


def _of_tags(task: Task, part: Part, h: Tensor) -> dict[str, Tensor]:
    found = {}
    y = as_dense(part.target, task.metric.size)
    y = y / y.sum(1, keepdim=True)
    found["nll"] = -(y * h.clamp(min=1e-30).log()).sum(1)
    found["auc"] = ranking_auc(h, part.target, reduction="none").nan_to_num(nan=1.0)
    ks = list(range(1, min(20, task.metric.size) + 1))
    for decision, ranking in (("", h), ("least cost: ", -(h @ task.metric.distance()))):
        curve = top_k_cost(ranking, part.target, task.metric, k=ks, reduction="none")
        found[f"{decision}distance"] = curve.mean(1)
        found[f"{decision}distance@1"] = curve[:, 0]
    return found


def _of_distributions(task: Task, part: Part, h: Tensor) -> dict[str, Tensor]:
    y = torch.as_tensor(part.target)
    found = {
        "distance": wasserstein(h, y / y.sum(1, keepdim=True), task.metric),
        "nll": kl_divergence(h.clamp(min=1e-12), y, reduction="none"),  # the KL divergence
    }
    for compare in (chebyshev, clark, canberra, cosine, intersection):
        found[compare.__name__] = compare(h, y, reduction="none")
    return found
