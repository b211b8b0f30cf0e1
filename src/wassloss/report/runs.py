"""The report of runs that `wassloss train` wrote."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from wassloss.losses.modules import EPSILON, KL_WEIGHT
from wassloss.report.comparison import described
from wassloss.report.models import models_report
from wassloss.report.record import Report
from wassloss.runs import TrainedRun
from wassloss.runs.evaluation import inputs_for
from wassloss.runs.inputs import Inputs


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
    inputs, part = inputs_for(first, data, part)
    _check_comparable(runs, data, part)
    batches = list(inputs.batches(part))
    examples = sum(len(x) for x, _ in batches)

    def answers(run: TrainedRun) -> Iterator[Tensor]:
        return (run.logits(x) for x, _ in batches)

    def describe(i: int) -> tuple[str, str]:
        place = i
        for x, _ in batches:
            if place < len(x):
                break
            place -= len(x)
        named = first.feature_names is not None
        return f"example {i}", described(first.columns, x[place].numpy()) if named else ""

    return models_report(
        {name: partial(answers, run) for name, run in zip(names, runs, strict=True)},
        [target for _, target in batches],
        first.metric,
        labels=[first.label(i) for i in range(first.metric.size)],
        describe=describe,
        groups=_groups(inputs, part),
        warnings=_warnings(runs),
        notes=[_subtitle(inputs, data or first.settings.data, part, examples)],
        unit="example",
        logs=[run.log() for run in runs],
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
        if not run.finished:
            found.append(f"{run.name} was stopped before its end; its newest checkpoint is shown.")
        if unsolved := sum(record.unconverged for record in run.log()):
            found.append(f"{run.name}: {unsolved} batches had solves that did not converge.")
    return found


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
        if data is None and other.settings.data != first.settings.data:
            raise ValueError(
                f"{both} were trained on different data: say with data (--data) what to judge "
                "them on"
            )
    # A part that was drawn with another seed holds what some run was trained on.
    asked = [run.settings for run in runs]
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


def _groups(inputs: Inputs, part: str | None) -> NDArray[np.int64] | None:
    if inputs.data is None:
        return None
    chosen = inputs.data.part(part) if part else inputs.data
    return None if chosen.groups is None else chosen.groups.numpy()


def _subtitle(inputs: Inputs, source: str, part: str | None, count: int) -> str:
    name = inputs.data.name if inputs.data is not None and inputs.data.name else Path(source).name
    which = f"the part “{part}”" if part else "all examples"
    return f"{name}: {which}, {count} examples, {inputs.metric.size} labels. {inputs.metric!r}."


def _settings(runs: Sequence[TrainedRun]) -> list[tuple[str, list[str]]]:
    """Settings, model, metric and versions as words: a name, and a value for each run."""
    each = [_settings_of(run) for run in runs]
    names = dict.fromkeys(name for settings in each for name in settings)
    return [(name, [settings.get(name, "–") for settings in each]) for name in names]


def _settings_of(run: TrainedRun) -> dict[str, str]:
    config = run.config
    shown: dict[str, Any] = dict(config["settings"])
    if shown["loss"] == "wasserstein":
        for name, default in (("epsilon", EPSILON), ("kl_weight", KL_WEIGHT)):
            if shown[name] is None:
                shown[name] = f"{default:g} (default)"
    shown["model"] = ", ".join(f"{k} {v}" for k, v in config["model"].items())
    shown["metric"] = repr(run.metric)
    shown |= {f"{name} version": value for name, value in config["versions"].items()}
    shown |= {"started": config["started"], "finished": run.finished}
    return {name: _word(value) for name, value in shown.items()}


def _word(value: Any) -> str:
    if value is None or value == []:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, list):
        more = [f"… ({len(value)})"] if len(value) > 12 else []
        return ", ".join([*map(str, value[:12]), *more])
    return f"{value:g}" if isinstance(value, float) else str(value)
