"""Real data sets in the form of the experiments: three parts, sparse targets, metric, device."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
import torch
from torch import Tensor

from experiments.corpora.flickr8k import flickr8k
from experiments.corpora.glove import read_vectors
from experiments.corpora.lookup import find
from experiments.corpora.mulan import mulan
from experiments.corpora.noise import reduce_redundancy
from experiments.corpora.synthetic import lattice
from experiments.lab.cache import Cache
from experiments.lab.cost_regression import NearestCostRegression
from experiments.lab.dataset import Dataset, clipart
from experiments.lab.relabel import keep_labels, normalized, with_metric
from experiments.lab.sparse import as_sparse
from wassloss import SparseTarget
from wassloss.ground import Embedding, GroundMetric
from wassloss.scores import top_k_cost

VALIDATION = 0.15  # share of the training part, if a set has no validation part
SPLIT_SEED = 0
PARTS = ("train", "validation", "test")
RIDGES = (0.01, 0.03, 0.1, 0.3, 1.0)  # for features of mean square 1


@dataclass(frozen=True)
class Part:
    """Examples: features `(n, features)` and their targets.

    Attributes:
        groups: examples of one group are variants of each other; intervals count them as one.
    """

    features: Tensor
    target: SparseTarget
    groups: np.ndarray[Any, np.dtype[np.int64]]

    def __len__(self) -> int:
        return len(self.features)

    def to(self, device: torch.device) -> Part:
        target = SparseTarget(self.target.indices.to(device), self.target.weights.to(device))
        return replace(self, features=self.features.to(device), target=target)


@dataclass(frozen=True)
class LabelledSet:
    """A data set in three parts.

    Attributes:
        metric: tabulated distance between labels, with power 1 and without scale.
        guesses: number of guesses of a model: the top-k cost is averaged up to this k.
    """

    name: str
    train: Part
    validation: Part
    test: Part
    metric: GroundMetric
    label_names: tuple[str, ...]
    guesses: int = 20

    @property
    def device(self) -> torch.device:
        return self.train.features.device

    @property
    def ks(self) -> list[int]:
        """The numbers of guesses over which the top-k cost is averaged."""
        return list(range(1, min(self.guesses, self.metric.size) + 1))

    @cached_property
    def regressed_costs(self) -> dict[str, Tensor]:
        """Every label's cost on the other parts, predicted by a regression on the training part.

        Its ridge penalty is the one with the least ranking cost on validation data.
        """
        fitted = [
            NearestCostRegression(self.metric, ridge=ridge).fit(
                self.train.features, self.train.target
            )
            for ridge in RIDGES
        ]
        validation = self.validation

        def cost(regression: NearestCostRegression) -> float:
            ranking = -regression.costs(validation.features)
            curve = top_k_cost(ranking, validation.target, self.metric, k=self.ks)
            return float(curve.mean())

        best = min(fitted, key=cost)
        return {name: best.costs(getattr(self, name).features) for name in ("validation", "test")}

    def with_target(self, target: SparseTarget) -> LabelledSet:
        """The same data with other training labels."""
        return replace(self, train=replace(self.train, target=target).to(self.device))

    def reduced(self, seed: int = 0) -> LabelledSet:
        """The same data with one tag per cluster of near-synonyms in the training part."""
        cpu = self.train.to(torch.device("cpu")).target
        return self.with_target(reduce_redundancy(cpu, self.metric.to(device="cpu"), seed=seed))


def as_labelled(data: Dataset, device: torch.device, most: int | None = None) -> LabelledSet:
    """Convert a data set to the form of the experiments.

    Features are centred and divided by one number, so that their mean square in the training part
    is 1 and learning rates are comparable between sets.

    Args:
        data: with a metric, a test part and, if it has one, a validation part.
        device: the device to put it on.
        most: number of training examples to keep, the first ones; None for all.
    """
    metric = data.metric
    if metric is None:
        raise FileNotFoundError(
            f"{data.name} has no ground metric: its labels' word vectors are not in glove/ of "
            "$WASSLOSS_DATA"
        )
    if "validation" not in data.parts:
        train, validation = _divided(data.parts["train"], data.groups)
        data = replace(data, parts={**data.parts, "train": train, "validation": validation})
    data = normalized(data)
    x = data.features.float()
    train = data.part("train").features.float()
    mean = train.mean(0)
    scale = (train - mean).square().mean().sqrt()
    target = as_sparse(data.target)

    def part(name: str) -> Part:
        rows = data.parts[name]
        rows = rows[:most] if name == "train" else rows
        groups = rows if data.groups is None else data.groups[rows]
        own = _trimmed(SparseTarget(target.indices[rows], target.weights[rows]))
        return Part((x[rows] - mean) / scale, own, groups.numpy()).to(device)

    return LabelledSet(
        data.name,
        part("train"),
        part("validation"),
        part("test"),
        metric.with_cost(power=1.0, scale=None).to(device=device).tabulated(),
        data.label_names or tuple(map(str, range(data.label_count))),
    )


def _trimmed(target: SparseTarget) -> SparseTarget:
    """Drop padding columns that no example of the part needs."""
    order = target.weights.argsort(dim=1, descending=True, stable=True)
    width = max(1, int((target.weights > 0).sum(1).max()))
    order = order[:, :width]
    return SparseTarget(target.indices.gather(1, order), target.weights.gather(1, order).float())


def _delicious() -> Dataset:
    """Delicious with the tags that have a word vector, and the pages with such a tag."""
    data = mulan("delicious")
    names = data.label_names or ()
    vectors = read_vectors(find("glove", "glove_100d.npy"), names)
    missing = set(vectors.missing(names))
    known = tuple(name for name in names if name not in missing)
    metric = Embedding(vectors.take(known).vectors, labels=known)
    return with_metric(keep_labels(data, known), metric)


def _lattice() -> Dataset:
    """The paper's noisy lattice, with half of the training labels flipped to a neighbour."""
    return lattice(6, 0.5, train=100, test=100, spread=0.2, seed=0)


SETS: dict[str, Callable[[], Dataset]] = {
    "lattice": _lattice,
    "clipart": clipart,
    "flickr8k": flickr8k,
    "delicious": _delicious,
}


def load_labelled(name: str, device: torch.device, most: int | None = None) -> LabelledSet:
    """Load a set by name.

    Raises:
        FileNotFoundError: its files are missing; the message says where to put them.
    """
    if name not in SETS:
        raise ValueError(f"name must be one of {', '.join(SETS)}, got {name!r}")
    data = as_labelled(SETS[name](), device, most)
    return replace(data, name=name, guesses=1) if name == "lattice" else data


def each_set(
    names: Sequence[str],
    cache: Cache,
    compute: Callable[[str], dict[str, Any]],
    prefix: str = "",
) -> dict[str, Any]:
    """Compute something for each data set, cached by name; sets without files are skipped.

    The names in the cache start with `prefix`.
    """
    found = {name: _or_none(name, cache, compute, prefix) for name in names}
    return {name: value for name, value in found.items() if value is not None}


def each_version(
    name: str,
    versions: Sequence[str],
    compute: Callable[[LabelledSet], dict[str, Any]],
    *,
    most: int | None,
    seed: int,
) -> dict[str, Any]:
    """Compute something for a set's ``"original"`` and for its ``"reduced"`` tags."""
    data = load_labelled(name, best_device(), most)
    made = {"original": lambda: data, "reduced": lambda: data.reduced(seed)}
    return {version: compute(made[version]()) for version in versions}


def _or_none(name: str, cache: Cache, compute: Callable[[str], dict[str, Any]], prefix: str) -> Any:
    try:
        return cache.part(f"{prefix}{name}", partial(compute, name))
    except FileNotFoundError as error:
        cache.say(f"{name} is left out: {error}")
        return None


def best_device() -> torch.device:
    """The GPU if there is one, otherwise the CPU."""
    return torch.device("cuda" if torch.cuda.is_available() else "cpu")


def _divided(rows: Tensor, groups: Tensor | None) -> tuple[Tensor, Tensor]:
    """Random rows for training and for validation; those of a group stay together."""
    owners = rows if groups is None else groups[rows]
    _, group, sizes = owners.unique(return_inverse=True, return_counts=True)
    # Sort random keys, because libraries change how they draw permutations.
    keys = np.random.default_rng(SPLIT_SEED).random(len(sizes))
    order = torch.from_numpy(np.argsort(keys, kind="stable"))
    # A group goes to the part of its middle, so each part's size is off by at most half a group.
    middles = torch.empty(len(sizes), dtype=torch.float64)
    middles[order] = (sizes[order].cumsum(0) - sizes[order] / 2).double() / len(rows)
    train = (middles < 1 - VALIDATION)[group]
    return rows[train], rows[~train]
