"""The report of runs that `wassloss train` wrote."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from wassloss.models import describe
from wassloss.report.comparison import described
from wassloss.report.models import models_report
from wassloss.report.record import Report
from wassloss.runs.evaluation import data_for
from wassloss.runs.trained import TrainedRun


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
    first, names = runs[0], _names(runs)
    given, part, _ = data_for(first, data, part)
    _check_comparable(runs, data)
    which = f"the part “{part}”" if part else "all examples"
    source = given.name or Path(data or ("" if first.task is None else first.task.data)).name
    return models_report(
        {name: [run.logits(given.features)] for name, run in zip(names, runs, strict=True)},
        [given.target],
        first.metric,
        labels=first.labels,
        describe=lambda i: (
            f"example {i}",
            described(first.columns, given.features[i].numpy()),
        ),
        groups=None if given.groups is None else given.groups.numpy(),
        warnings=_warnings(runs),
        notes=[
            f"{source}: {which}, {len(given)} examples, {first.metric.size} labels. "
            f"{first.metric!r}."
        ],
        unit="example",
        logs=logs if any(logs := [run.log() for run in runs]) else (),
        settings=_settings(runs),
    )


def _warnings(runs: Sequence[TrainedRun]) -> list[str]:
    """What to keep in mind."""
    first, found = runs[0], list[str]()
    if len({repr(run.metric.with_cost(power=1.0, scale=None)) for run in runs}) > 1:
        found.append(
            "The runs were trained under different ground metrics; distances here are those of "
            f"{first.name}."
        )
    for run in runs:
        if unsolved := sum(record.unconverged for record in run.log()):
            found.append(f"{run.name}: {unsolved} batches had solves that did not converge.")
    return found


def _check_comparable(runs: Sequence[TrainedRun], data: str | None) -> None:
    first = runs[0]
    for other in runs[1:]:
        both = f"{first.path} and {other.path}"
        if other.labels != first.labels:
            raise ValueError(
                f"runs must have the same labels to be compared, but those of {both} differ"
            )
        widths = [run.model.n_features_in_ for run in (first, other)]
        if widths[0] != widths[1]:
            raise ValueError(
                f"runs must take the same features to be compared, but {first.path} takes "
                f"{widths[0]} and {other.path} {widths[1]}"
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


def _names(runs: Sequence[TrainedRun]) -> list[str]:
    short = [run.name for run in runs]
    if len(set(short)) == len(short):
        return short
    paths = [str(run.path) for run in runs]
    if len(set(paths)) < len(paths):
        raise ValueError(f"runs must differ, got {', '.join(paths)}")
    return paths


def _settings(runs: Sequence[TrainedRun]) -> list[tuple[str, list[str]]]:
    """Parameters, task, model, metric and versions as words: a name, and a value for each run."""
    each = [_settings_of(run) for run in runs]
    names = dict.fromkeys(name for settings in each for name in settings)
    return [(name, [settings.get(name, "–") for settings in each]) for name in names]


def _settings_of(run: TrainedRun) -> dict[str, str]:
    shown: dict[str, Any] = {**run.config.get("task", {}), **run.model.get_params(deep=False)}
    for name in ("classes", "device", "random_state"):
        shown.pop(name, None)
    shown["model"] = ", ".join(f"{k} {v}" for k, v in (describe(run.model.model_) or {}).items())
    shown["metric"] = repr(run.metric)
    shown["iterations or passes"] = run.model.n_iter_
    versions = run.config.get("versions", {})
    shown |= {f"{name} version": value for name, value in versions.items()}
    shown["started"] = run.config.get("started")
    return {name: _word(value) for name, value in shown.items()}


def _word(value: Any) -> str:
    if value is None or value in ((), []):
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list | tuple):
        more = [f"… ({len(value)})"] if len(value) > 12 else []
        return ", ".join([*map(str, value[:12]), *more])
    return f"{value:g}" if isinstance(value, float) else str(value)
