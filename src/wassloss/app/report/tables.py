"""The reports of a comparison on a table, and of runs that `wassloss train` wrote."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from wassloss.data.fingerprints import Overlap
from wassloss.data.raw_table import RawTable
from wassloss.estimators import Comparison
from wassloss.app.report.models import models_report
from wassloss.app.report.page import Mistake, Report, most_mended
from wassloss.runs.directory import TrainedRun
from wassloss.runs.evaluation import data_for, trained_on

_SHOWN = 4  # columns of a row


def comparison_report(found: Comparison, raw: RawTable, features: NDArray[np.floating]) -> Report:
    """What was found with the features of a table."""
    models, labels = (found.candidates[0], found.ours), found.labels

    def shown(i: int) -> Mistake:
        row = found.held[i]
        guesses = [labels[model.guess[i]] for model in models]
        text = described(raw, features[row])
        return Mistake(f"row {row}", text, labels[found.truth[i]], guesses)

    header, rows = found.table()
    before, after = (model.distance for model in models)
    return Report(
        answer=found.answer,
        models=models,
        names=[model.name for model in models],
        candidates=found.candidates,
        metric=found.best.metric_,
        labels=labels,
        truth=found.truth,
        header=header,
        rows=rows,
        notes=[
            f"{found.rows[0]} rows to learn from; {found.rows[1]} rows, on which nothing was "
            "chosen, to judge by. Each loss has eight settings, chosen by the mean distance in "
            "cross-validation.",
            "Changes in distance are relative to the first row, with 95 % intervals over the rows "
            "held out; “unclear” means that the interval includes 0, or that there is none.",
            f"The saved model is {found.best!r}.",
        ],
        unit="row",
        mended=[shown(i) for i in most_mended(before, after)],
        made=[shown(i) for i in most_mended(after, before)],
    )


def described(raw: RawTable, features: NDArray[np.floating]) -> str:
    """The first columns of a row in words, from its features; nothing if they have no names."""
    if raw.names is None:
        return ""
    words, start = [], 0
    for column in raw.columns[:_SHOWN]:
        own = features[start : start + len(column.features)]
        start += len(column.features)
        if column.kind == "category":
            value = column.levels[own.argmax()] if own.any() else "missing"
        else:
            value = "missing" if column.gaps and own[1] else f"{own[0]:.4g}"
        words.append(f"{column.name} {value}")
    return ", ".join(words)


def runs_report(
    runs: Sequence[TrainedRun], *, data: str | None = None, part: str | None = None
) -> Report:
    """Judge runs on the same examples, under the same distances: those of the first run.

    Args:
        runs: trained on the same labels.
        data: what to judge them on; by default the data of the first run.
        part: of them; by default ``"test"``, or else ``"validation"``.
    """
    if not runs:
        raise ValueError("runs must hold a run, got none")
    first, names = runs[0], [run.name for run in runs]
    if len(set(names)) < len(runs):
        names = [str(run.path) for run in runs]
    if len(set(names)) < len(runs):
        raise ValueError(f"runs must differ, got {', '.join(names)}")
    judging = data_for(first, data, part)
    _check_comparable(runs, data)
    given, part, *_ = judging
    x = given.features.numpy()
    features = [judging.features_for(run) for run in runs]
    overlaps = [trained_on(run, own) for run, own in zip(runs, features, strict=True)]
    _check_unseen(runs, overlaps)
    which = f"the part “{part}”" if part else "all examples"
    source = given.name or Path(data or ("" if first.task is None else first.task.data)).name
    return models_report(
        {
            name: run.model._outputs(own)
            for name, run, own in zip(names, runs, features, strict=True)
        },
        given.target,
        first.model.metric_,
        labels=first.labels,
        describe=lambda i: (f"example {i}", described(first.columns, x[i])),
        groups=None if given.groups is None else given.groups.numpy(),
        warnings=[*_warnings(runs), *_equal_rows(names, overlaps)],
        notes=[
            f"{source}: {which}, {len(given)} examples, {first.model.metric_.size} labels. "
            f"{first.model.metric_!r}.",
            *(
                f"{name} is {run.model!r}, after {run.model.n_iter_} iterations or passes."
                for name, run in zip(names, runs, strict=True)
            ),
        ],
        unit="example",
    )


def _warnings(runs: Sequence[TrainedRun]) -> list[str]:
    """What to keep in mind."""
    first, found = runs[0], list[str]()
    if len({repr(run.model.metric_.with_cost(power=1.0, scale=None)) for run in runs}) > 1:
        found.append(
            "The runs were trained under different ground metrics; distances here are those of "
            f"{first.name}."
        )
    for run in runs:
        if unsolved := sum(record.unconverged for record in run.log()):
            found.append(f"{run.name}: {unsolved} batches had solves that did not converge.")
    return found


def _check_unseen(runs: Sequence[TrainedRun], overlaps: Sequence[Overlap | None]) -> None:
    """Refuse to judge a run by rows that it was trained on."""
    for run, found in zip(runs, overlaps, strict=True):
        if found is not None and found.seen and not found.by_chance:
            raise ValueError(
                f"{run.path} was trained on {found} of those to judge it by: hold the same rows "
                "out of all runs, or say with data (--data) which other rows to judge them by"
            )


def _equal_rows(names: Sequence[str], overlaps: Sequence[Overlap | None]) -> list[str]:
    """What is said of rows that equal those of the training by chance."""
    return [
        f"{found} equal ones that {name} was trained on, no more than chance explains: "
        f"{found.known.twins} of its {found.known.rows} rows have a twin."
        for name, found in zip(names, overlaps, strict=True)
        if found is not None and found.seen
    ]


def _check_comparable(runs: Sequence[TrainedRun], data: str | None) -> None:
    first = runs[0]
    for other in runs[1:]:
        both = f"{first.path} and {other.path}"
        if other.labels != first.labels:
            raise ValueError(
                f"runs must have the same labels to be compared, but those of {both} differ"
            )
        if len({first.columns.names, other.columns.names} - {None}) > 1:
            raise ValueError(
                "runs must take the same columns in the same order to be compared, but those of "
                f"{both} differ"
            )
        if data is None and _held_out(other) != _held_out(first):
            raise ValueError(
                f"{both} were trained on different data, or hold out different examples: say with "
                "data (--data) what to judge them on"
            )


def _held_out(run: TrainedRun) -> object:
    """What says which examples a run holds out."""
    task = run.task
    return None if task is None else (task.data, task.test, task.test and task.seed, task.group)
