"""Find the `epsilon`, `kl_weight` and `power` that suit every metric.

Networks and linear models are trained with each setting of `WassersteinLoss` and with
cross-entropy, under the same optimiser, and scored on validation data. The table shows each
setting's change from cross-entropy separately for taxonomies, ordered labels and distributions,
because a default must suit all of them.

    python -m experiments.studies.defaults docs/results/defaults.json
    python -m experiments.studies.defaults docs/results/defaults.json --table
"""

from __future__ import annotations

import argparse
import itertools
import json
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from experiments.lab.compact_json import write_json
from experiments.lab.networks.tasks import load_task
from experiments.lab.networks.trials import Job, Run, Trial, run_all
from experiments.lab.provenance import machine, versions

EPSILONS, KL_WEIGHTS, POWERS = (0.05, 0.1, 0.2), (0.0, 0.1, 0.25, 0.5, 1.0), (1.0, 2.0)
# The sets on which the default was chosen; docs/defaults.md has results on others.
SETS = (
    *("definitions-3000", "california", "cement", "stock", "digits", "grades", "grades-linear"),
    "s-jaffe",
)
SEEDS = (1,)
SCORES = ("distance", "right", "nll")


def trials() -> Iterator[Trial]:
    """Yield cross-entropy and all settings."""
    yield Trial("ce")
    for values in itertools.product(EPSILONS, KL_WEIGHTS, POWERS):
        yield Trial("w", tuple(zip(("epsilon", "alpha", "power"), values, strict=True)))


def compute(name: str) -> dict[str, Any]:
    """Mean validation scores of every setting on one set."""
    tried = list(trials())
    jobs = [Job(name, trial, seed, "validation") for trial in tried for seed in SEEDS]
    found = iter(run_all(jobs))
    return {
        "kind": load_task(name, SEEDS[0]).kind,
        "scores": [
            {**dict(trial.strengths), **_means([next(found) for _ in SEEDS])} for trial in tried
        ],
    }


def _means(runs: list[Run]) -> dict[str, float]:
    return {
        score: round(float(np.mean([run.mean(score) for run in runs])), 6)
        for score in SCORES
        if score in runs[0].scores
    }


def table(sets: dict[str, Any]) -> tuple[list[str], list[list[str]]]:
    """Head and rows: for each setting, the median change over the sets of a kind."""
    kinds = list(dict.fromkeys(of_set["kind"] for of_set in sets.values()))
    columns = [(kind, score) for kind in kinds for score in SCORES if _has(sets, kind, score)]
    names = {"distance": "mean distance", "right": "accuracy", "nll": "NLL"}
    head = ["`epsilon`", "`kl_weight`", "`power`"]
    head += [f"{kind}: {names[score]}" for kind, score in columns]
    rows = [
        [
            *(f"{value:g}" for _, value in trial.strengths),
            *(f"{_change(sets, kind, score, i):+.1f} %" for kind, score in columns),
        ]
        for i, trial in enumerate(trials())
        if trial.family != "ce"
    ]
    return head, rows


def _has(sets: dict[str, Any], kind: str, score: str) -> bool:
    return any(s["kind"] == kind and score in s["scores"][0] for s in sets.values())


def _change(sets: dict[str, Any], kind: str, score: str, i: int) -> float:
    """Median change over the sets of a kind, in per cent of cross-entropy's score, the first."""
    of_kind = [s["scores"] for s in sets.values() if s["kind"] == kind]
    return float(np.median([100 * (s[i][score] / s[0][score] - 1) for s in of_kind]))


def main() -> None:
    """Compute the sets that the file lacks, writing each one when it is finished."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("--table", action="store_true", help="only print the table of the file")
    arguments = parser.parse_args()
    sets: dict[str, Any] = {}
    if arguments.output.is_file():
        sets = json.loads(arguments.output.read_text(encoding="utf-8")).get("sets", {})
    for name in () if arguments.table else [name for name in SETS if name not in sets]:
        began = time.perf_counter()
        sets[name] = {**compute(name), "seconds": round(time.perf_counter() - began, 1)}
        print(f"{name}: {sets[name]['seconds']} s", flush=True)
        record: dict[str, Any] = {"command": "python -m experiments.studies.defaults"}
        record |= {"seeds": SEEDS, "versions": versions(), "machine": machine(), "sets": sets}
        write_json(arguments.output, record)
    head, rows = table(sets)
    print("\n".join("\t".join(line) for line in (head, *rows)))


if __name__ == "__main__":
    main()
