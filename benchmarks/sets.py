"""Time of a loss of sets of labels over that of class ids, on one CPU core.

    python benchmarks/sets.py docs/benchmarks/sets.json

A step is the loss and the gradient in the logits. Times are the least of several, of the process;
the targets take turns. Masks have a tenth of the labels, intervals too, and subtrees are of every
size.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import output
import torch
from machine import describe, versions
from torch import Tensor

import wassloss as wl

CASES = [(10, 100), (1000, 100), (1000, 1024), (100_000, 16)]  # labels and batch
SHARE, REPEATS, STEPS = 0.1, 9, 20
FANOUT = 10
Loss = Callable[[Tensor, Any], Tensor]


def metrics(labels: int) -> dict[str, wl.ground.GroundMetric]:
    inner = (labels - 1) // (FANOUT - 1)  # nodes above leaves, of a power of FANOUT
    parents = [-1, *((node - 1) // FANOUT for node in range(1, inner + labels))]
    return {
        "line": wl.ground.Ordinal(labels),
        "tree": wl.ground.Tree(parents),
        "points": wl.ground.Embedding(torch.randn(labels, 2), normalize=False),
    }


def targets(metric: wl.ground.GroundMetric, batch: int) -> dict[str, Any]:
    labels = metric.size
    ids = torch.randint(labels, (batch,))
    found: dict[str, Any] = {"class ids": ids}
    if isinstance(metric, wl.ground.Ordinal):
        last = (ids + int(SHARE * labels)).clamp(max=labels - 1)
        found["intervals"] = wl.SetTarget.from_ranges(ids, last)
    if isinstance(metric, wl.ground.Tree):
        codes = metric._subtree_codes[torch.randint(len(metric._subtree_codes), (batch,))]
        found["subtrees"] = wl.SetTarget.from_ranges(
            codes // labels, codes % labels, metric.label_order
        )
    if labels <= 1000:  # beyond, costs are computed on demand: for masks, of all their labels
        mask = torch.rand(batch, labels) < SHARE
        mask[torch.arange(batch), ids] = True
        found["masks"] = wl.SetTarget(mask)
    return found


def seconds(loss: Loss, x: Tensor, target: Any) -> float:
    begin = time.process_time()
    for _ in range(STEPS):
        x.grad = None
        loss(x, target).backward()  # type: ignore[no-untyped-call]
    return (time.process_time() - begin) / STEPS


def rows(labels: int, batch: int) -> list[dict[str, Any]]:
    torch.manual_seed(0)
    x, found = torch.randn(batch, labels).requires_grad_(), []
    for name, metric in metrics(labels).items():
        loss, given = wl.WassersteinLoss(metric), targets(metric, batch)
        times: dict[str, list[float]] = {kind: [] for kind in given}
        for _ in range(REPEATS):
            for kind, target in given.items():
                times[kind].append(seconds(loss, x, target))
        least = {kind: min(taken) for kind, taken in times.items()}
        for kind in given:
            ratio = least[kind] / least["class ids"]
            print(f"K={labels} B={batch} {name}, {kind}: {1e6 * least[kind]:.0f} µs, {ratio:.2f} ×")
            case = {"labels": labels, "batch": batch, "metric": name, "target": kind}
            found.append(case | {"seconds": least[kind], "ratio": ratio})
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("path", type=Path, nargs="?")
    path = parser.parse_args().path
    torch.set_num_threads(1)
    found = [row for case in CASES for row in rows(*case)]
    if path is not None:
        record = {"machine": describe("cpu"), "versions": versions(), "rows": found}
        output.write_record(path, record)


if __name__ == "__main__":
    main()
