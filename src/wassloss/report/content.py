"""What a report says, in numbers and words: all computed here, nothing drawn."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from wassloss._checks import check_seed
from wassloss.data._inputs import part_name
from wassloss.data.streaming import Batch
from wassloss.ground import GroundMetric
from wassloss.report.mass import MassByDistance, mass_by_distance
from wassloss.runs import TrainedRun
from wassloss.runs.evaluation import ExampleScores, evaluate, nearest_true, run_difference
from wassloss.runs.inputs import Inputs
from wassloss.runs.judging import inputs_for
from wassloss.scores import top_labels
from wassloss.scores._inputs import read_labels
from wassloss.scores.differences import Difference
from wassloss.training.log import Record

GUESSES = 5  # of each example that is shown


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
class Comparison:
    """A table to put first, where there is more to say than these runs: over seeds, say."""

    title: str
    header: list[str]
    rows: list[list[str]]
    notes: list[str]


@dataclass(frozen=True)
class Report:
    """All that the page shows.

    Attributes:
        names: of the runs, all different.
        scores: of each run.
        differences: second run less first, by score, where there are two.
        mass: where predicted mass goes.
        logs: of each run's training.
        watched: the validation score in each log.
        examples: predictions side by side, of the first two runs.
        configs: settings and versions of each run, flat.
        subtitle: what they are judged on.
        notes: what to keep in mind.
        comparison: a table to put first, or None.
    """

    names: list[str]
    scores: list[ExampleScores]
    differences: dict[str, Difference]
    mass: MassByDistance
    logs: list[list[Record]]
    watched: list[str]
    examples: list[Example]
    configs: list[dict[str, str]]
    subtitle: str
    notes: list[str]
    comparison: Comparison | None = None


def build_report(
    runs: Sequence[TrainedRun],
    *,
    data: str | None = None,
    part: str | None = None,
    examples: int = 12,
    seed: int = 0,
    comparison: Comparison | None = None,
) -> Report:
    """Judge runs on the same examples, under the same distances: those of the first run.

    Args:
        runs: trained on the same labels.
        data: what to judge them on; by default the data of the first run.
        part: of them; by default ``"test"``, or else ``"validation"``.
        examples: how many to show side by side.
        seed: of their choice.
        comparison: a table to put first.

    Raises:
        ValueError: the runs do not have the same labels, or there is nothing to judge them on.
    """
    if not runs:
        raise ValueError("runs must hold a run, got none")
    first = runs[0]
    _check_alike(runs, data)
    inputs = inputs_for(first, data)
    if part is None and (inputs.parts or data is None):
        part = inputs.held_out()
    part = None if part is None else part_name(part)
    _check_held_out(runs, data, part)
    batches = list(inputs.batches(part))
    scores = [evaluate(run, batches, first.metric) for run in runs]
    groups = _groups(inputs, part)
    differences = {}
    if len(runs) == 2:
        differences = {
            name: run_difference(scores[:1], scores[1:2], name, groups) for name in scores[0].values
        }
    return Report(
        names=_names(runs),
        scores=scores,
        differences=differences,
        mass=mass_by_distance(runs, batches, first.metric),
        logs=[run.log() for run in runs],
        watched=[run.settings.score for run in runs],
        examples=_examples(runs[:2], batches, first.metric, examples, seed),
        configs=[_flat(run) for run in runs],
        subtitle=_subtitle(inputs, data or first.settings.data, part, len(scores[0])),
        notes=_notes(runs),
        comparison=comparison,
    )


def _check_alike(runs: Sequence[TrainedRun], data: str | None) -> None:
    first = runs[0]
    for other in runs[1:]:
        if other.metric.size != first.metric.size or other.metric.labels != first.metric.labels:
            raise ValueError(
                f"runs must have the same labels to be compared, but those of {first.path} and "
                f"{other.path} differ"
            )
        if other.features != first.features:
            raise ValueError(
                f"runs must take the same features to be compared, but {first.path} takes "
                f"{first.features} and {other.path} {other.features}"
            )
        names = {run.feature_names for run in (first, other)} - {None}
        if len(names) > 1:
            raise ValueError(
                f"runs must take the same columns in the same order to be compared, but those of "
                f"{first.path} and {other.path} differ"
            )
        if data is None and other.settings.data != first.settings.data:
            raise ValueError(
                f"{first.path} and {other.path} were trained on different data: say with data "
                "(--data) what to judge them on"
            )


def _check_held_out(runs: Sequence[TrainedRun], data: str | None, part: str | None) -> None:
    """A validation part that was drawn with another seed holds what some run was trained on."""
    if data is not None or part != "validation":
        return
    drawn = {(run.settings.seed, run.settings.validation) for run in runs}
    if len(drawn) > 1 and any(run.settings.validation for run in runs):
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


def _groups(inputs: Inputs, part: str | None) -> NDArray[np.int64] | None:
    if inputs.data is None:
        return None
    chosen = inputs.data.part(part) if part else inputs.data
    return None if chosen.groups is None else chosen.groups.numpy()


def _examples(
    runs: Sequence[TrainedRun],
    batches: Sequence[Batch],
    metric: GroundMetric,
    count: int,
    seed: int,
) -> list[Example]:
    sizes = [len(features) for features, _ in batches]
    total = sum(sizes)
    generator = np.random.default_rng(check_seed("seed", seed))
    chosen = np.sort(generator.permutation(total)[: min(count, total)])
    starts = np.cumsum([0, *sizes])
    found: list[Example] = []
    for start, (features, target) in zip(starts, batches, strict=False):
        rows = chosen[(chosen >= start) & (chosen < start + len(features))] - start
        if not len(rows):
            continue
        some = torch.from_numpy(rows)
        outputs = [run.logits(features) for run in runs]
        nearest = nearest_true(target, metric, outputs[0])[some]
        truth = read_labels(target, outputs[0])
        for place, row in enumerate(rows.tolist()):
            true = truth.indices[row][truth.weights[row] > 0].tolist()
            guesses = [_guesses(runs[0], out[row], nearest[place]) for out in outputs]
            names = [runs[0].label(i) for i in true]
            found.append(Example(int(start) + row, names, guesses))
    return found


def _guesses(run: TrainedRun, logits: torch.Tensor, nearest: torch.Tensor) -> list[Guess]:
    p = logits.softmax(0)
    best = torch.as_tensor(top_labels(p[None], min(GUESSES, len(p))))[0].tolist()
    return [Guess(run.label(i), float(p[i]), float(nearest[i])) for i in best]


def _flat(run: TrainedRun) -> dict[str, str]:
    """Settings, the model, the metric and versions as words."""
    config = run.config
    shown: dict[str, Any] = dict(config["settings"])
    epsilon = config.get("epsilon")
    if epsilon is not None and shown.get("epsilon") is None:
        shown["epsilon"] = f"{epsilon:.4g} (default)"
    shown["model"] = ", ".join(f"{k} {v}" for k, v in config["model"].items())
    shown["metric"] = repr(run.metric)
    shown |= {f"{name} version": value for name, value in config["versions"].items()}
    shown["started"] = config.get("started", "")
    shown["finished"] = run.finished
    return {name: _word(value) for name, value in shown.items()}


def _word(value: Any) -> str:
    if value is None or value == [] or value == ():
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        shown = [str(item) for item in value]
        return ", ".join(shown if len(shown) <= 12 else [*shown[:12], f"… ({len(shown)})"])
    return f"{value:g}" if isinstance(value, float) else str(value)


def _subtitle(inputs: Inputs, source: str, part: str | None, count: int) -> str:
    name = inputs.data.name if inputs.data is not None and inputs.data.name else Path(source).name
    which = f"the part “{part}”" if part else "all examples"
    return f"{name}: {which}, {count} examples, {inputs.metric.size} labels. {inputs.metric!r}."


def _notes(runs: Sequence[TrainedRun]) -> list[str]:
    notes = [
        f"{run.name} was stopped before its end; its newest checkpoint is shown."
        for run in runs
        if not run.finished
    ]
    kinds = {repr(run.metric.with_cost(power=1.0, scale=None)) for run in runs}
    if len(kinds) > 1:
        notes.append(
            "The runs were trained under different ground metrics; distances here are those of "
            f"{runs[0].name}."
        )
    unsolved = {run.name: sum(r.unconverged for r in run.log()) for run in runs}
    notes += [
        f"{name}: {count} batches had solves that did not converge."
        for name, count in unsolved.items()
        if count
    ]
    return notes
