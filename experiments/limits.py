"""What bounds the front of `wassloss reproduce frontier`: the cost itself, regressed.

The top-k cost of a label is its distance to the nearest true one. Ridge regression predicts that
distance of every label from the features, in closed form and with no regard for anything else: what
a linear model knows of the cost. Added to the log-probabilities of the KL model that `frontier`
chose, with a weight β, it trades AUC for cost without a loss to train. Where the fronts of all
losses end on that of this sum, the model and its features are what bounds them, not the loss.

Ridge strength and β are picked on validation data: once for the least cost, and once for the least
cost at KL's AUC. KL models are trained with several seeds; scores are on test data.

    python experiments/limits.py docs/results/frontier.json docs/results/limits.json
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wassloss.reproduce.labelled import LabelledSet, Part, best_device, load_labelled
from wassloss.reproduce.parts import write_json
from wassloss.reproduce.provenance import machine, versions
from wassloss.reproduce.run import load_result
from wassloss.reproduce.search import AUC_SLACK, difference
from wassloss.reproduce.trials import Scores, Trial, scores_of, train_model

SETS = ("flickr8k", "delicious")
RIDGES = (0.01, 0.03, 0.1, 0.3, 1.0)  # beside features of mean square 1
BETAS = (0.5, 1.0, 2.0, 3.0, 4.0, 8.0, 16.0, math.inf)  # the last: regression alone
SEEDS = (1, 2, 3, 4, 5)
ROWS = 500  # examples whose distances are looked up at once


@dataclass(frozen=True)
class Sum:
    """Log-probabilities less β times the regressed distance."""

    ridge: float
    beta: float

    def scores(self, log_h: Tensor, regressed: Tensor) -> Tensor:
        return -regressed if math.isinf(self.beta) else log_h - self.beta * regressed

    def as_json(self) -> dict[str, Any]:
        return {"ridge": self.ridge, "beta": None if math.isinf(self.beta) else self.beta}


def to_nearest(part: Part, distances: Tensor) -> Tensor:
    """The distance of every label to the nearest true one, `(n, labels)`."""

    def pieces() -> Iterator[Tensor]:
        for rows in torch.arange(len(part)).split(ROWS):
            own, weights = part.target.indices[rows], part.target.weights[rows]
            far = (weights == 0).unsqueeze(2)
            yield distances[own].masked_fill(far, math.inf).amin(1)

    return torch.cat(list(pieces()))


def regress(data: LabelledSet, ridge: float) -> tuple[Tensor, Tensor]:
    """Weights and offsets that predict the distances, by least squares; features are centred."""
    x = data.train.features.double()
    y = to_nearest(data.train, data.metric.cost().double())
    offset = y.mean(0)
    gram = x.T @ x / len(x) + ridge * torch.eye(x.shape[1], dtype=x.dtype, device=x.device)
    return torch.linalg.solve(gram, x.T @ (y - offset) / len(x)), offset


def limits(name: str, kl: dict[str, Any], seeds: Sequence[int]) -> dict[str, Any]:
    """The two choices for a set, beside its KL model."""
    data = load_labelled(name, best_device())
    trial, steps = Trial(**kl["trial"]), kl["iteration"]
    regressions = {ridge: regress(data, ridge) for ridge in RIDGES}

    def log_h(model: torch.nn.Module, part: Part) -> Tensor:
        with torch.no_grad():
            logits: Tensor = model(part.features)
        return logits.log_softmax(1)

    def scored(each: Sum, logs: Tensor, on: str) -> Scores:
        part = getattr(data, on)
        weights, offset = regressions[each.ridge]
        regressed = (part.features.double() @ weights + offset).to(logs.dtype)
        return scores_of(each.scores(logs, regressed), data, on)

    tuning = log_h(train_model(data, trial, steps, 0), data.validation)
    baseline = scores_of(tuning, data, "validation").summary()
    tried = {
        each: scored(each, tuning, "validation").summary()
        for each in itertools.starmap(Sum, itertools.product(RIDGES, BETAS))
    }
    enough = [each for each in tried if tried[each]["auc"] >= baseline["auc"] - AUC_SLACK]
    chosen = {"cost": min(tried, key=lambda each: tried[each]["cost"])}
    if enough:
        chosen["auc"] = min(enough, key=lambda each: tried[each]["cost"])
    models = [train_model(data, trial, steps, seed) for seed in seeds]
    logs = [log_h(model, data.test) for model in models]
    runs = {"kl": [scores_of(each, data, "test") for each in logs]}
    runs |= {rule: [scored(each, log, "test") for log in logs] for rule, each in chosen.items()}
    return {
        "kl": kl,
        "chosen": {rule: each.as_json() for rule, each in chosen.items()},
        "scores": {rule: [run.summary() for run in each] for rule, each in runs.items()},
        "differences": {
            rule: {
                which: difference(runs[rule], runs["kl"], which, data.test.groups)
                for which in ("cost", "auc")
            }
            for rule in chosen
        },
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("frontier", type=Path, help="what `wassloss reproduce frontier` wrote")
    parser.add_argument("out", type=Path)
    parser.add_argument("--sets", nargs="+", default=SETS)
    asked = parser.parse_args()
    frontier = load_result(asked.frontier)["found"]["sets"]
    found = {}
    for name in asked.sets:
        found[name] = limits(name, frontier[name]["chosen"]["kl cost"], SEEDS)
        kl = float(np.mean([run["cost"] for run in found[name]["scores"]["kl"]]))
        for rule, gap in found[name]["differences"].items():
            print(f"{name}, {rule}: {gap['cost']['mean'] / kl:+.1%}, AUC {gap['auc']['mean']:+.4f}")
    write_json(asked.out, {"versions": versions(), "machine": machine(), "sets": found})


if __name__ == "__main__":
    main()
