"""What bounds the fronts of `wassloss reproduce frontier` and `tags`: the cost itself, regressed.

The top-k cost of a label is its distance to the nearest true one. `NearestCostRegression` predicts
that of every label from the features, with no regard for anything else: what a linear model knows
of the cost. Subtracted from the log-probabilities of the KL model that `tags` chose, with a weight
β, it trades AUC for cost with no other loss to train.

Ridge strength and β are picked on validation data: once for the least cost, and once for the least
cost at KL's AUC. KL models are trained with several seeds; scores are on test data.

    python experiments/limits.py docs/results/tags.json docs/results/limits.json
"""

from __future__ import annotations

import argparse
import itertools
import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wassloss.reproduce.labelled import RIDGES, LabelledSet, best_device, load_labelled
from wassloss.reproduce.parts import write_json
from wassloss.reproduce.provenance import machine, versions
from wassloss.reproduce.run import load_result
from wassloss.reproduce.search import AUC_SLACK, difference
from wassloss.reproduce.trials import Scores, Trial, scores_of, train_model
from wassloss.rivals import NearestCostRegression

BETAS = (0.5, 1.0, 2.0, 3.0, 4.0, 8.0, 16.0, 32.0, math.inf)  # the last: regression alone
SEEDS = (1, 2, 3, 4, 5)


@dataclass(frozen=True)
class Sum:
    """Log-probabilities less β times the regressed cost."""

    ridge: float
    beta: float

    def scores(self, log_h: Tensor, costs: Tensor) -> Tensor:
        return -costs if math.isinf(self.beta) else log_h - self.beta * costs

    def as_json(self) -> dict[str, Any]:
        return {"ridge": self.ridge, "beta": None if math.isinf(self.beta) else self.beta}


def limits(data: LabelledSet, kl: dict[str, Any], seeds: Sequence[int]) -> dict[str, Any]:
    """The two choices for a set, beside its KL model."""
    trial, steps, train = Trial(**kl["trial"]), kl["iteration"], data.train
    regressions = {
        ridge: NearestCostRegression(data.metric, ridge=ridge).fit(train.features, train.target)
        for ridge in RIDGES
    }

    def log_h(seed: int, on: str) -> Tensor:
        model = train_model(data, trial, steps, seed)
        with torch.no_grad():
            logits: Tensor = model(getattr(data, on).features)
        return logits.log_softmax(1)

    def scored(each: Sum, logs: Tensor, on: str) -> Scores:
        costs = regressions[each.ridge].costs(getattr(data, on).features)
        return scores_of([each.scores(logs, costs)], data, on)[0]

    tuning = log_h(0, "validation")
    baseline = scores_of([tuning], data, "validation")[0].summary()
    tried = {
        each: scored(each, tuning, "validation").summary()
        for each in itertools.starmap(Sum, itertools.product(RIDGES, BETAS))
    }
    enough = [each for each in tried if tried[each]["auc"] >= baseline["auc"] - AUC_SLACK]
    chosen = {"cost": min(tried, key=lambda each: tried[each]["cost"])}
    if enough:
        chosen["auc"] = min(enough, key=lambda each: tried[each]["cost"])
    logs = [log_h(seed, "test") for seed in seeds]
    runs = {"kl": scores_of(logs, data, "test")}
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
    parser.add_argument("tags", type=Path, help="what `wassloss reproduce tags` wrote")
    parser.add_argument("out", type=Path)
    parser.add_argument("--sets", nargs="+", default=["clipart", "flickr8k", "delicious"])
    asked = parser.parse_args()
    tags = load_result(asked.tags)["found"]["sets"]
    found: dict[str, dict[str, Any]] = {}
    for name in asked.sets:
        data = load_labelled(name, best_device())
        for version, part in (("original", data), ("reduced", data.reduced())):
            each = limits(part, tags[name][version]["chosen"]["kl"], SEEDS)
            found.setdefault(name, {})[version] = each
            kl = float(np.mean([run["cost"] for run in each["scores"]["kl"]]))
            for rule, gap in each["differences"].items():
                share, auc = gap["cost"]["mean"] / kl, gap["auc"]["mean"]
                print(f"{name}, {version}, {rule}: {share:+.1%}, AUC {auc:+.4f}", flush=True)
    write_json(asked.out, {"versions": versions(), "machine": machine(), "sets": found})


if __name__ == "__main__":
    main()
