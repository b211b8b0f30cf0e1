"""What a report says, in numbers and words: all computed here, nothing drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wassloss._checks import check_seed
from wassloss.data.streaming import Batch
from wassloss.estimators.comparison import SAID
from wassloss.ground import GroundMetric
from wassloss.runs import TrainedRun
from wassloss.runs.evaluation import ExampleScores, evaluate, inputs_for
from wassloss.runs.inputs import Inputs
from wassloss.scores import paired_difference, top_labels
from wassloss.scores._inputs import read_labels
from wassloss.scores.by_kind import nearest_true
from wassloss.scores.differences import Difference

GUESSES = 5  # of each example that is shown
_MOST_VALUES = 12  # distances that each get a bar; beyond, they are put into bins
_BINS = 10
_LABELS = 512  # columns that the distinct distances are looked for in


@dataclass(frozen=True)
class Guess:
    """One label that a run suggests."""

    label: str
    probability: float
    distance: float  # to the nearest true label


@dataclass(frozen=True)
class Example:
    """An example, its true labels, and what the runs say: one list of guesses each."""

    row: int
    truth: list[str]
    guesses: list[list[Guess]]


@dataclass(frozen=True)
class MassByDistance:
    """How far from the nearest true label predicted mass lies."""

    ticks: list[str]  # distances; the first is 0, a true label, where the metric is a distance
    shares: NDArray[np.float64]  # of the mass of each run, (runs, ticks)
    even: NDArray[np.float64]  # of mass spread evenly over all labels, (ticks,)


@dataclass(frozen=True)
class Report:
    """All that the page shows."""

    runs: Sequence[TrainedRun]
    names: list[str]  # of the runs, all different
    scores: list[ExampleScores]  # of each run
    differences: dict[str, Difference]  # second run minus first, by score, where there are two
    mass: MassByDistance
    examples: list[Example]  # of the first two runs
    subtitle: str  # what they are judged on

    @property
    def answer(self) -> str:
        """The finding in a sentence."""
        costs = [scores.mean("top1_cost") for scores in self.scores]
        far = [f"{cost:.3g} with {name}" for cost, name in zip(costs, self.names, strict=True)]
        found = f"the first guess is on average {' and '.join(far)} from the nearest true label"
        if not self.differences:
            return f"{found[0].upper()}{found[1:]}."
        gap = self.differences["top1_cost"]
        share = [f"{100 * x / (costs[0] or np.nan):+.1f}" for x in (gap.mean, gap.low, gap.high)]
        said = SAID[gap.verdict(more_is_better=False)]
        return f"{said}: {found} ({share[0]} %, 95 % interval {share[1]} to {share[2]})."


def build_report(
    runs: Sequence[TrainedRun],
    *,
    data: str | None = None,
    part: str | None = None,
    examples: int = 12,
    seed: int = 0,
) -> Report:
    """Judge runs on the same examples, under the same distances: those of the first run.

    Args:
        runs: trained on the same labels.
        data: what to judge them on; by default the data of the first run.
        part: of them; by default ``"test"``, or else ``"validation"``.
        examples: how many to show side by side.
        seed: of their choice.
    """
    if not runs:
        raise ValueError("runs must hold a run, got none")
    first = runs[0]
    inputs, part = inputs_for(first, data, part)
    _check_comparable(runs, data, part)
    batches = list(inputs.batches(part))
    scores = [evaluate(run, batches, first.metric) for run in runs]
    groups = _groups(inputs, part)
    differences = {}
    if len(runs) == 2:
        both = (scores[0].values, scores[1].values)
        differences = {n: paired_difference(both[1][n] - both[0][n], groups) for n in both[0]}
    return Report(
        runs=runs,
        names=_names(runs),
        scores=scores,
        differences=differences,
        mass=mass_by_distance(runs, batches, first.metric),
        examples=_examples(runs[:2], batches, first.metric, examples, seed),
        subtitle=_subtitle(inputs, data or _source(first) or "", part, len(scores[0])),
    )


def _check_comparable(runs: Sequence[TrainedRun], data: str | None, part: str | None) -> None:
    first = runs[0]
    for other in runs[1:]:
        both = f"{first.path} and {other.path}"
        if other.metric.size != first.metric.size or other.metric.labels != first.metric.labels:
            raise ValueError(
                f"runs must have the same labels to be compared, but those of {both} differ"
            )
        if other.features != first.features:
            raise ValueError(
                f"runs must take the same features to be compared, but {first.path} takes "
                f"{first.features} and {other.path} {other.features}"
            )
        if len({first.feature_names, other.feature_names} - {None}) > 1:
            raise ValueError(
                "runs must take the same columns in the same order to be compared, but those of "
                f"{both} differ"
            )
        if data is None and _source(other) != _source(first):
            raise ValueError(
                f"{both} were trained on different data: say with data (--data) what to judge "
                "them on"
            )
    # A part that was drawn with another seed holds what some run was trained on.
    asked = [run.settings for run in runs if run.settings is not None]
    drawn = {(s.test, s.validation * (part == "validation"), s.seed, s.group) for s in asked}
    if data is None and len(drawn) > 1 and any(of_test or other for of_test, other, *_ in drawn):
        raise ValueError(
            "runs must hold out the same examples to be compared on them, but they were drawn with "
            "different seeds or shares: say with data (--data) what to judge them on"
        )


def _names(runs: Sequence[TrainedRun]) -> list[str]:
    short = [run.name for run in runs]
    if len(set(short)) == len(short):
        return short
    paths = [str(run.path) for run in runs]
    if len(set(paths)) < len(paths):
        raise ValueError(f"runs must differ, got {', '.join(paths)}")
    return paths


def _source(run: TrainedRun) -> str | None:
    """What it was trained on, if it holds some of that out."""
    return None if run.settings is None else run.settings.data


def _groups(inputs: Inputs, part: str | None) -> NDArray[np.int64] | None:
    chosen = inputs.data.part(part) if part else inputs.data
    return None if chosen.groups is None else chosen.groups.numpy()


@torch.no_grad()
def mass_by_distance(
    runs: Sequence[TrainedRun], batches: Sequence[Batch], metric: GroundMetric
) -> MassByDistance:
    """Put the mass that each run predicts into bins of distance to the nearest true label."""
    edges, ticks = _bins(metric)
    totals = np.zeros((len(runs) + 1, len(ticks)))
    for features, target in batches:
        outputs = [run.logits(features).softmax(1) for run in runs]
        nearest = nearest_true(target, metric, outputs[0]).double()
        # The bin of every label: how many inner edges are below its distance.
        place = torch.bucketize(nearest.contiguous(), edges).reshape(-1)
        even = torch.full_like(outputs[0], 1 / metric.size)
        for total, mass in zip(totals, [*outputs, even], strict=True):
            weights = mass.reshape(-1).double()
            total += torch.bincount(place, weights=weights, minlength=len(ticks)).numpy()
    totals /= totals.sum(1, keepdims=True)
    return MassByDistance(ticks, totals[:-1], totals[-1])


def _bins(metric: GroundMetric) -> tuple[Tensor, list[str]]:
    """Inner edges, and a word for each bin."""
    size = metric.size
    chosen = torch.arange(min(size, _LABELS)) * size // min(size, _LABELS)
    found = metric.distance_columns(chosen).double().unique()
    values = found[torch.cat([torch.tensor([True]), found.diff() > 1e-6 * float(found.max())])]
    if len(values) <= _MOST_VALUES:
        return (values[1:] + values[:-1]) / 2, [f"{value:.3g}" for value in values.tolist()]
    apart = float(values[0]) == 0  # a true label is at 0, unless costs say otherwise
    low, high = float(values[int(apart)]), float(values[-1])
    bounds = torch.linspace(low, high, _BINS + 1, dtype=torch.float64)
    words = [f"{bound:.2f}" if high < 10 else f"{bound:.3g}" for bound in bounds.tolist()]
    ranges = [f"{a}–{b}" for a, b in pairwise(words)]
    if not apart:
        return bounds[1:-1], ranges
    # It stands apart, and the bins are for the others.
    return torch.cat([bounds[:1] / 2, bounds[1:-1]]), ["true label", *ranges]


def _examples(
    runs: Sequence[TrainedRun],
    batches: Sequence[Batch],
    metric: GroundMetric,
    count: int,
    seed: int,
) -> list[Example]:
    generator = np.random.default_rng(check_seed("seed", seed))
    total = sum(len(features) for features, _ in batches)
    chosen = np.sort(generator.permutation(total)[:count])
    found: list[Example] = []
    start = 0
    for features, target in batches:
        inside = (chosen >= start) & (chosen < start + len(features))
        if inside.any():
            masses = [run.logits(features).softmax(1) for run in runs]
            nearest = nearest_true(target, metric, masses[0])
            truth = read_labels(target, masses[0])
        for row in (chosen[inside] - start).tolist():
            true = truth.indices[row][truth.weights[row] > 0].tolist()
            guesses = [_guesses(runs[0], p[row], nearest[row]) for p in masses]
            found.append(Example(start + row, [runs[0].label(i) for i in true], guesses))
        start += len(features)
    return found


def _guesses(run: TrainedRun, p: Tensor, nearest: Tensor) -> list[Guess]:
    best = torch.as_tensor(top_labels(p[None], min(GUESSES, len(p))))[0].tolist()
    return [Guess(run.label(i), float(p[i]), float(nearest[i])) for i in best]


def _subtitle(inputs: Inputs, source: str, part: str | None, count: int) -> str:
    name = inputs.data.name or Path(source).name
    which = f"the part “{part}”" if part else "all examples"
    return f"{name}: {which}, {count} examples, {inputs.metric.size} labels. {inputs.metric!r}."
