"""The report of runs that `wassloss train` wrote."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wassloss.data.streaming import Batch
from wassloss.estimators.comparison import LEAST_COST, PROBABLE, Candidate
from wassloss.losses.modules import EPSILON, KL_WEIGHT
from wassloss.report.comparison import described
from wassloss.report.record import Mistake, Report, answer, judged, mistakes, score_table
from wassloss.runs import TrainedRun
from wassloss.runs.evaluation import ExampleScores, evaluate, inputs_for
from wassloss.runs.inputs import Inputs
from wassloss.scores import paired_difference
from wassloss.scores._inputs import read_weights
from wassloss.scores.by_kind import ONE, ORDERED, TAGS
from wassloss.targets import take_rows

_NAMED = 3  # labels of a distribution that are named, the largest first


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
    batches: list[Any] = list(inputs.batches(part))
    scores = [evaluate(run, batches, first.metric) for run in runs]
    kind, groups = scores[0].kind, _groups(inputs, part)
    candidates = _candidates(runs, names, batches, scores, groups)
    models = candidates[: len(runs)]
    one_label, tags = kind in (ONE, ORDERED), kind == TAGS
    far_from = "the nearest true label" if tags else "the true distribution"
    far_from = "the truth" if one_label else far_from
    header, rows, meanings = score_table([[each] for each in scores], names, groups)
    mended, made = mistakes(models, lambda i: _mistake(runs, models, batches, kind, i))
    return Report(
        answer=answer(models, names, far_from),
        warnings=_warnings(runs),
        models=models,
        names=names,
        candidates=candidates,
        metric=first.metric,
        labels=[first.label(i) for i in range(first.metric.size)],
        truth=torch.cat([ids for _, ids in batches]).numpy() if one_label else None,
        far_from=far_from,
        header=header,
        rows=rows,
        meanings=meanings,
        notes=[
            _subtitle(inputs, data or first.settings.data, part, len(scores[0])),
            "Scores are means over examples, ↓ lower is better, ↑ higher is better. Changes are "
            f"relative to those of {names[0]} on the same examples, with 95 % intervals; “unclear” "
            "means that the interval includes 0. They describe these models, not what other seeds "
            "would give.",
        ],
        unit="example",
        mended=mended,
        made=made,
        curves=[each.curve for each in scores] if one_label or tags else (),
        logs=[run.log() for run in runs],
        settings=_settings(runs),
    )


def _candidates(
    runs: Sequence[TrainedRun],
    names: Sequence[str],
    batches: Sequence[Batch],
    scores: Sequence[ExampleScores],
    groups: NDArray[np.int64] | None,
) -> list[Candidate]:
    """Each run by its most probable labels, then each by those of least expected cost.

    The distance of an answer is that to the nearest true label. If targets are distributions, it is
    that of the predicted distribution from the true one, and there is nothing to decide.
    """
    metric, found = runs[0].metric, list[Candidate]()
    shares = "transport" in scores[0].values
    for decision in (PROBABLE,) if shares else (PROBABLE, LEAST_COST):
        for run, name, own in zip(runs, names, scores, strict=True):
            answers = ((run.logits(x).softmax(1), target) for x, target in batches)
            first = found[0] if found else None
            one = judged(name, decision, answers, metric, first, groups)
            if shares:
                distance = own.values["transport"]
                gaps = distance - (distance if first is None else first.distance)
                one = replace(one, distance=distance, versus=paired_difference(gaps, groups))
            found.append(one)
    return found


def _mistake(
    runs: Sequence[TrainedRun],
    models: Sequence[Candidate],
    batches: Sequence[Batch],
    kind: str,
    example: int,
) -> Mistake:
    x, target = _example(batches, example)
    first = runs[0]
    chances = [run.logits(x).softmax(1)[0] for run in runs[:2]]
    truth = read_weights(target, chances[0][None])[0]
    if kind in (ONE, ORDERED, TAGS):
        true = ", ".join(first.label(i) for i in truth.nonzero()[:, 0].tolist())
        guesses = [first.label(int(model.guess[example])) for model in models[:2]]
    else:
        true, *guesses = (_in_words(first, shares) for shares in (truth / truth.sum(), *chances))
    return Mistake(f"example {example}", described(first.columns, x[0].numpy()), true, guesses)


def _example(batches: Sequence[Batch], place: int) -> Batch:
    """An example as a batch of its own, by its place in all batches."""
    batch = 0
    while place >= len(batches[batch][0]):
        place -= len(batches[batch][0])
        batch += 1
    features, target = batches[batch]
    return features[[place]], take_rows(target, torch.tensor([place]))


def _in_words(run: TrainedRun, shares: Tensor) -> str:
    largest = shares.topk(min(_NAMED, len(shares)))
    named = zip(largest.indices.tolist(), largest.values.tolist(), strict=True)
    return ", ".join(f"{run.label(i)} {100 * share:.0f} %" for i, share in named)


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
