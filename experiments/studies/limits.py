"""How far can the fronts of `frontier` and `tags` move? A regression of the cost itself.

The top-k cost of a label is its distance to the nearest true one. `NearestCostRegression` predicts
it for every label from the features, and nothing else: it is what a linear model can learn about
the cost. Subtracted from the logits of the KL model that `tags` chose, with a weight β, it trades
AUC for cost without training another loss.

β is chosen on validation data, once for the least cost and once for the least cost at KL's AUC. KL
models are trained with several seeds; scores are on test data.

    python -m experiments.studies.limits docs/results/tags.json docs/results/limits.json
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from experiments.lab.compact_json import write_json
from experiments.lab.labelled import LabelledSet, best_device, load_labelled
from experiments.lab.provenance import machine, versions
from experiments.lab.search import AUC_SLACK, Candidate, candidates, choose, compare, finals
from experiments.lab.verdict_text import mean_of
from experiments.run import load_result

# In units of the inverse median distance; with the last one, logits have no effect.
BETAS = (0.6, 1.2, 2.5, 5.0, 10.0, 20.0, 40.0, 1e4)
SEEDS = (1, 2, 3, 4, 5)


def limits(data: LabelledSet, kl: Candidate, seeds: Sequence[int]) -> dict[str, Any]:
    """The two choices for a set, next to its KL model."""
    unit = data.metric.median_cost()
    trials = [replace(kl.trial, less=beta / unit) for beta in (0.0, *BETAS)]
    looks = [kl.iteration] * len(trials)
    (own,), *rest = candidates(data, trials, kl.iteration, 0, looks)
    tried = [each for (each,) in rest]
    chosen = {"kl": own, "cost": choose(tried)}
    at_auc = choose(tried, own.auc - AUC_SLACK)
    if at_auc.auc >= own.auc - AUC_SLACK:
        chosen["auc"] = at_auc
    scored = finals(data, chosen, seeds)
    differences = compare(scored, data.test.groups)
    return {
        "chosen": {rule: each.as_json() for rule, each in chosen.items()},
        "scores": {rule: [run.summary() for run in runs] for rule, runs in scored.items()},
        "differences": {rule: differences[rule]["kl"] for rule in chosen if rule != "kl"},
    }


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("tags", type=Path, help="result of `python -m experiments tags`")
    parser.add_argument("out", type=Path)
    parser.add_argument("--sets", nargs="+", default=["clipart", "flickr8k", "delicious"])
    asked = parser.parse_args()
    tags = load_result(asked.tags)["found"]["sets"]
    found: dict[str, dict[str, Any]] = {}
    for name in asked.sets:
        data = load_labelled(name, best_device())
        for version, part in (("original", data), ("reduced", data.reduced())):
            kl = Candidate.from_json(tags[name][version]["chosen"]["kl"])
            each = limits(part, kl, SEEDS)
            found.setdefault(name, {})[version] = each
            cost = mean_of(each["scores"]["kl"], "cost")
            for rule, gap in each["differences"].items():
                share, auc = gap["cost"]["mean"] / cost, gap["auc"]["mean"]
                print(f"{name}, {version}, {rule}: {share:+.1%}, AUC {auc:+.4f}", flush=True)
    write_json(asked.out, {"versions": versions(), "machine": machine(), "sets": found})


if __name__ == "__main__":
    main()
