"""Which regulariser, epsilon and power serve a user who knows nothing of them?

A linear softmax model is trained with each setting of the loss on labels of four kinds (grades of a
disease, digits on a line, tags of clip art, tags of photographs), the best epoch and learning rate
picked on a validation split. Scores are what the user cares about, in distances of the metric:

- cost: mean distance from the first 5 guesses to the nearest true label (on a line, the first);
- hits: share of examples whose first guess is a true label.

    python -m experiments.studies.defaults docs/results/defaults.json

Tags of photographs are looked for in $WASSLOSS_DATA.
"""

from __future__ import annotations

import argparse
import functools
import itertools
import json
import math
import multiprocessing
import os
import platform
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
import torch
from sklearn.datasets import load_diabetes, load_digits
from torch import Tensor

import wassloss as wl
from experiments.corpora.flickr8k import flickr8k as read_flickr8k

EPSILONS = (0.02, 0.05, 0.1, 0.2, 0.5)  # of the median cost
LEARNING_RATES = (1e-3, 1e-2)
SEEDS = (0, 1, 2)
BATCH = 100
PARTS = ("train", "validation", "test")


class Split(NamedTuple):
    """One part of a data set."""

    features: Tensor
    targets: Tensor  # (examples, labels), rows sum to 1


@dataclass(frozen=True)
class Data:
    """A data set with the metric of its labels."""

    name: str
    parts: dict[str, Split]  # train, validation, test
    metric: wl.ground.GroundMetric
    guesses: int
    epochs: int


@dataclass(frozen=True)
class Setting:
    """A loss under trial."""

    loss: str  # "kl", "plan" or "product"
    epsilon: float | None = None  # of the median cost
    power: float = 1.0
    kl_weight: float = 0.0


def settings() -> Iterator[Setting]:
    yield Setting("kl")
    for loss, epsilon in itertools.product(("plan", "product"), EPSILONS):
        for power, kl_weight in itertools.product((1.0, 2.0), (0.0, 0.1)):
            yield Setting(loss, epsilon, power, kl_weight)


def train_and_score(
    data: Data, setting: Setting, learning_rate: float, seed: int
) -> dict[str, float]:
    """Validation and test scores at the epoch that is best on the validation split."""
    generator = torch.Generator().manual_seed(seed)
    device = data.metric.device
    labels = data.metric.size
    metric = data.metric.with_cost(power=setting.power, scale="median")
    if setting.loss == "kl":
        loss_fn = cross_entropy
    else:
        loss_fn = wl.WassersteinLoss(
            metric,
            epsilon=0.2 if setting.epsilon is None else setting.epsilon,
            regularizer=setting.loss,
            kl_weight=setting.kl_weight,
            scaling_iterations=10,
            own_units=True,
        )
    train = data.parts["train"]
    model = torch.nn.Linear(train.features.shape[1], labels, device=device)
    torch.nn.init.zeros_(model.weight)
    torch.nn.init.zeros_(model.bias)
    optimizer = torch.optim.Adam(model.parameters(), lr=learning_rate, weight_decay=1e-4)
    target = padded(train.targets)
    best = {"validation_cost": math.inf}
    for _ in range(data.epochs):
        order = torch.randperm(len(train.features), generator=generator).to(device)
        for rows in order.split(BATCH):
            batch = wl.SparseTarget(target.indices[rows], target.weights[rows])
            loss = loss_fn(model(train.features[rows]), batch)
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        cost, hits = scores(model, data.parts["validation"], data)
        if cost < best["validation_cost"]:
            test_cost, test_hits = scores(model, data.parts["test"], data)
            best = {
                "validation_cost": cost,
                "validation_hits": hits,
                "test_cost": test_cost,
                "test_hits": test_hits,
            }
    return best


def cross_entropy(logits: Tensor, target: wl.SparseTarget) -> Tensor:
    """The divergence from the target, but for its own entropy."""
    return -(target.weights * logits.log_softmax(1).gather(1, target.indices)).sum(1).mean()


def padded(targets: Tensor) -> wl.SparseTarget:
    weights, indices = targets.topk(int((targets > 0).sum(1).max()))
    return wl.SparseTarget(indices, weights)


@torch.no_grad()
def scores(model: torch.nn.Module, split: Split, data: Data) -> tuple[float, float]:
    guess = model(split.features).topk(data.guesses).indices  # (examples, guesses)
    to_guess = data.metric.distance()[guess]  # (examples, guesses, labels)
    absent = (split.targets == 0).unsqueeze(1)
    cost = to_guess.masked_fill(absent, math.inf).amin(2).mean()
    hits = (split.targets.gather(1, guess[:, :1]) > 0).float().mean()
    return float(cost), float(hits)


def split(x: Tensor, y: Tensor, order: Tensor, ends: tuple[int, int]) -> dict[str, Split]:
    rows = order.tensor_split(ends)
    return {name: Split(x[own], y[own]) for name, own in zip(PARTS, rows, strict=True)}


def digits(device: str) -> Data:
    features, labels = load_digits(return_X_y=True)
    x = torch.tensor(features / 16, dtype=torch.float32, device=device)
    y = torch.nn.functional.one_hot(torch.tensor(labels, device=device)).float()
    order = torch.from_numpy(np.random.default_rng(0).permutation(len(x))).to(device)
    parts = split(x, y, order, (900, 1300))
    metric = wl.ground.Ordinal(10).to(device)
    return Data("digits", parts, metric, guesses=1, epochs=30)


def grades(device: str) -> Data:
    features, progression = load_diabetes(return_X_y=True)
    limits = np.quantile(progression, np.arange(1, 10) / 10)
    x = torch.tensor(features / features.std(0), dtype=torch.float32, device=device)
    y = torch.nn.functional.one_hot(torch.tensor(np.searchsorted(limits, progression))).float()
    order = torch.from_numpy(np.random.default_rng(0).permutation(len(x))).to(device)
    parts = split(x, y.to(device), order, (220, 330))
    metric = wl.ground.Ordinal(10).to(device)
    return Data("grades", parts, metric, guesses=1, epochs=60)


def clipart(device: str) -> Data:
    data = wl.data.clipart()
    train = torch.zeros(len(data), dtype=torch.bool)
    train[data.parts["train"]] = True
    if data.groups is None or data.metric is None:
        raise TypeError("clip art must come with groups and a metric")
    held_out = train & (data.groups % 5 == 0)  # variants of a drawing stay on one side
    rows = {"train": train & ~held_out, "validation": held_out, "test": ~train}
    parts = {name: tag_split(data, own, device) for name, own in rows.items()}
    return Data("clipart", parts, data.metric.to(device), guesses=5, epochs=30)


def flickr8k(device: str) -> Data:
    data = read_flickr8k()
    if data.metric is None:
        raise FileNotFoundError("flickr8k needs word vectors in $WASSLOSS_DATA/glove")
    parts = {name: tag_split(data, data.parts[name], device) for name in PARTS}
    return Data("flickr8k", parts, data.metric.to(device), guesses=5, epochs=15)


def tag_split(data: wl.data.Dataset, rows: Tensor, device: str) -> Split:
    """The tags of an example share its mass, however often each was given."""
    part = data.take(rows)
    if not isinstance(part.target, wl.SparseTarget):
        raise TypeError(f"data must have sparse targets, got {part.target!r}")
    tags = torch.zeros(len(part), data.label_count)
    tags.scatter_add_(1, part.target.indices, (part.target.weights > 0).float())
    features = part.features.float().to(device)
    return Split(features / features.std(), (tags / tags.sum(1, keepdim=True)).to(device))


@functools.cache
def load(name: str, device: str) -> Data:
    return {"grades": grades, "digits": digits, "clipart": clipart, "flickr8k": flickr8k}[name](
        device
    )


def run(name: str, setting: Setting, device: str) -> list[dict[str, object]]:
    """All learning rates and seeds of one setting on one data set."""
    torch.set_num_threads(1)
    configuration = {"data": name, **asdict(setting)}
    return [
        {
            **configuration,
            "learning_rate": rate,
            "seed": seed,
            **train_and_score(load(name, device), setting, rate, seed),
        }
        for rate, seed in itertools.product(LEARNING_RATES, SEEDS)
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n")[0])
    parser.add_argument("output", type=Path)
    parser.add_argument("--data", nargs="+", default=["grades", "digits", "clipart", "flickr8k"])
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--processes", type=int, default=os.cpu_count())
    arguments = parser.parse_args()
    began, runs = time.perf_counter(), []
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(arguments.processes, mp_context=context) as pool:
        jobs = [
            pool.submit(run, name, setting, arguments.device)
            for name, setting in itertools.product(arguments.data, settings())
        ]
        for job in as_completed(jobs):
            runs += job.result()
            seconds = time.perf_counter() - began
            print(f"{len(runs)} runs, {seconds:.0f} s", flush=True)
            write(arguments.output, runs, seconds)


def write(output: Path, runs: list[dict[str, object]], seconds: float) -> None:
    record = {
        "versions": {"python": platform.python_version(), "torch": torch.__version__},
        "command": " ".join(sys.argv),
        "seconds": seconds,
        "runs": sorted(runs, key=lambda one: [str(value) for value in one.values()]),
    }
    partial = output.with_suffix(".partial")
    partial.write_text(json.dumps(record, indent=1))
    partial.replace(output)


if __name__ == "__main__":
    main()
