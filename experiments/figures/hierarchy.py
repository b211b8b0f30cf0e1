"""Labels in a taxonomy: the nouns of photographs, in WordNet's tree.

The data are Flickr8k's photographs. The label of each is the noun that most of its captions name;
in case of a tie, the more frequent noun. Nouns that label fewer training photographs than `least`
are left out, with their photographs. The distance of two nouns is the number of steps between them
through WordNet's hypernyms.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from experiments.corpora.flickr8k import flickr8k
from experiments.corpora.hypernyms import hypernym_paths
from experiments.lab.cache import Cache
from experiments.lab.dataset import Dataset
from experiments.lab.experiment import Experiment, Result, Verdict
from experiments.lab.families import Budget
from experiments.lab.labelled import as_labelled, best_device
from experiments.lab.pca import compressed
from experiments.lab.relabel import keep_labels, with_metric
from experiments.lab.single_label import (
    SingleLabelSettings,
    draw_differences,
    guess,
    summarize,
    tune,
    verdicts,
)
from experiments.lab.sparse import as_sparse
from wassloss import SparseTarget
from wassloss.ground import Matrix, Tree

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STEP = "step"


@dataclass(frozen=True)
class Settings(SingleLabelSettings):
    """Sizes.

    Attributes:
        least: smallest number of training photographs with a noun.
        features: number of principal components; None for all features.
        most: limit on training photographs; None for all.
    """

    least: int = 10
    features: int | None = None
    most: int | None = None
    far: int = 10


def compute(settings: Settings, cache: Cache | None = None) -> dict[str, Any]:
    """Choices on validation data, first guesses on test data."""
    cache = cache or Cache()
    found: dict[str, Any] = cache.part("photographs", partial(_compute, settings))
    return found


def _compute(settings: Settings) -> dict[str, Any]:
    record, steps = photographs(settings.least)
    data = as_labelled(compressed(record, settings.features), best_device(), settings.most)
    chosen = tune(data, settings)
    guesses = guess(data, chosen, steps, settings)
    return {
        "labels": list(data.label_names),
        "median_steps": steps,
        "sizes": {part: len(getattr(data, part)) for part in ("train", "validation", "test")},
        **summarize({family: [candidate] for family, candidate in chosen.items()}, guesses),
    }


def photographs(least: int) -> tuple[Dataset, float]:
    """Photographs with one noun each, and the median number of steps between two nouns.

    The unit of the metric is this median.
    """
    data = flickr8k(counts=True)  # whole numbers, so that ties are exact
    classes = heaviest(as_sparse(data.target))
    counts = torch.bincount(classes[data.parts["train"]], minlength=data.label_count)
    names = data.label_names or ()
    kept = [names[i] for i in (counts >= least).nonzero().squeeze(1).tolist()]
    tree = Tree.from_paths(hypernym_paths(kept))
    steps = tree.median_cost()
    metric = Matrix(tree.distance() / steps, labels=tree.labels)
    single = keep_labels(replace(data, target=classes, metric=None), kept)
    return with_metric(single, metric), steps


def heaviest(target: SparseTarget) -> torch.Tensor:
    """The label with the most mass of each example; in case of a tie, the first."""
    weights, indices = target.weights.numpy(), target.indices.numpy()
    most = weights == weights.max(1, keepdims=True)
    return torch.from_numpy(np.where(most, indices, indices.max() + 1).min(1))


def draw(result: Result) -> dict[str, Figure]:
    """Each loss against KL."""
    found = result["found"]
    sizes = f"{found['sizes']['train']:,} training photographs, {len(found['labels'])} nouns"
    return {"steps": draw_differences(result, STEP, sizes)}


def verdict(result: Result) -> list[Verdict]:
    """Whether a Wasserstein loss is nearer, also than the rivals."""
    return verdicts(result, STEP)


EXPERIMENT = Experiment(
    name="hierarchy",
    title="Labels of a taxonomy: WordNet's tree",
    claim="where labels are a tree, a Wasserstein loss guesses nearer to the truth",
    figure="beyond the paper",
    quick=Settings(budget=Budget(4, 3, (0.005,)), iterations=500, seeds=5, features=64),
    full=Settings(),
    compute=compute,
    draw=draw,
    verdict=verdict,
)
