"""Ordered labels: progression of a disease after one year, from scikit-learn's diabetes data.

There are 442 patients with ten measurements each; the progression after one year is divided into
ten grades of equal size. These are too few patients for a single test part, so cross-validation is
used: each fold is predicted by models that are tuned and trained on the others.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from torch import Tensor

from experiments.lab.cache import Cache
from experiments.lab.dataset import Dataset
from experiments.lab.experiment import Experiment, Result, Verdict
from experiments.lab.families import Budget
from experiments.lab.labelled import as_labelled, best_device
from experiments.lab.search import Candidate
from experiments.lab.single_label import (
    Guesses,
    SingleLabelSettings,
    draw_differences,
    guess,
    summarize,
    tune,
    verdicts,
)
from experiments.lab.threads import one_thread
from wassloss.ground import Ordinal

if TYPE_CHECKING:
    from matplotlib.figure import Figure

STEP = "grade"


@dataclass(frozen=True)
class Settings(SingleLabelSettings):
    """Sizes; patients are divided into `folds`, each predicted by models trained on the others."""

    families: tuple[str, ...] = ("kl", "decoded", "softened", "squared_emd", "expected", "plan")
    grades: int = 10
    folds: int = 10


def compute(settings: Settings, cache: Cache | None = None) -> dict[str, Any]:
    """Choices and first guesses of every fold, joined over all patients."""
    cache = cache or Cache()
    folds = [
        cache.part(f"fold {fold + 1}", partial(_fold, fold, settings))
        for fold in range(settings.folds)
    ]
    chosen = {
        family: [Candidate.from_json(fold["chosen"][family]) for fold in folds]
        for family in settings.families
    }
    guesses = {
        family: [
            Guesses.joined([_read(fold["guesses"][family][s], settings) for fold in folds])
            for s in range(settings.seeds)
        ]
        for family in settings.families
    }
    return {"patients": len(guesses["kl"][0].right), **summarize(chosen, guesses)}


def _fold(fold: int, settings: Settings) -> dict[str, Any]:
    steps = Ordinal(settings.grades).median_cost()
    data = as_labelled(diabetes(fold, settings.folds, settings.grades), best_device())
    with one_thread():  # too little work for several threads
        chosen = tune(data, settings)
        found = guess(data, chosen, steps, settings)
    return {
        "chosen": {family: candidate.as_json() for family, candidate in chosen.items()},
        "guesses": {
            family: [run.distance.astype(int).tolist() for run in runs]
            for family, runs in found.items()
        },
    }


def _read(distances: list[int], settings: Settings) -> Guesses:
    distance = np.array(distances, dtype=np.float64)
    right, far = distance == 0, distance >= settings.far
    return Guesses(distance, right.astype(np.float64), far.astype(np.float64))


def diabetes(fold: int, folds: int, grades: int) -> Dataset:
    """Patients and their grades, with one fold for testing and the next one for validation.

    The unit of the metric is the median distance of two grades.
    """
    from sklearn.datasets import load_diabetes  # takes a second to import

    features, progression = load_diabetes(return_X_y=True)
    rank = progression.argsort(kind="stable").argsort(kind="stable")
    order = torch.from_numpy(np.random.default_rng(0).permutation(len(rank)))
    dealt: list[Tensor] = [order[f::folds] for f in range(folds)]
    test, validation = fold, (fold + 1) % folds
    train = [rows for f, rows in enumerate(dealt) if f not in (test, validation)]
    return Dataset(
        torch.from_numpy(features).float(),
        torch.from_numpy(rank * grades // len(rank)),
        label_names=tuple(map(str, range(grades))),
        label_count=grades,
        parts={"train": torch.cat(train), "validation": dealt[validation], "test": dealt[test]},
        metric=_grades(grades),
        name="diabetes",
        provenance="Efron, Hastie, Johnstone, Tibshirani (2004), as scikit-learn ships it.",
    )


def _grades(grades: int) -> Ordinal:
    places = np.arange(grades) / Ordinal(grades).median_cost()
    return Ordinal(places, labels=tuple(map(str, range(grades))))


def draw(result: Result) -> dict[str, Figure]:
    """Each loss against KL."""
    settings = result["settings"]
    sizes = f"{result['found']['patients']} patients in {settings['folds']} folds"
    return {"grades": draw_differences(result, STEP, sizes)}


def verdict(result: Result) -> list[Verdict]:
    """Whether a Wasserstein loss is nearer, also than the rivals."""
    return verdicts(result, STEP)


EXPERIMENT = Experiment(
    name="ordinal",
    title="Ordered labels: grades of a disease",
    claim="where labels are ordered, a Wasserstein loss guesses nearer to the truth",
    figure="beyond the paper",
    quick=Settings(budget=Budget(3, 3, (0.005,)), iterations=300, seeds=5, folds=5),
    full=Settings(budget=Budget()),
    compute=compute,
    draw=draw,
    verdict=verdict,
)
