"""The report on saved models, scored on the same examples."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np

from wassloss.app.evaluation import Judging, judge, judge_on_same
from wassloss.app.model import TableModel
from wassloss.app.report.answers import answers_report
from wassloss.app.report.page import Report, described


def models_report(
    models: Sequence[TableModel], *, data: str | None = None, part: str | None = None
) -> Report:
    """Score models on the same examples, with the distances of the first model.

    Args:
        models: models loaded from files, with the same labels.
        data: the table to score on; by default the rows that all models held out.
        part: the part to score on; by default ``"test"``, or else ``"validation"``.

    Raises:
        ValueError: the models have different labels, would be scored on different examples, or
            were trained on some of these.
    """
    if not models:
        raise ValueError("models must hold a model, got none")
    names = [model.name for model in models]
    if len(set(names)) < len(names):
        names = [str(model.path) for model in models]
    if len(set(names)) < len(names):
        raise ValueError(f"models must differ, got {', '.join(names)}")
    first = models[0]
    _check_labels(models)
    judging = judge(first, data, part)
    others = [
        judge(model, part=part) if data is None else judge_on_same(model, judging)
        for model in models[1:]
    ]
    judgings, examples = [judging, *others], judging.examples
    _check_same_rows(models, judgings)
    _check_unseen(models, judgings)
    which = f"the part “{judging.part}”" if judging.part else "all examples"
    return answers_report(
        {
            name: model.logits(own.examples.table)
            for name, model, own in zip(names, models, judgings, strict=True)
        },
        examples.target,
        first.metric_,
        labels=first.labels,
        describe=lambda i: (f"row {examples.rows[i]}", described(examples.X.iloc[i])),
        groups=examples.groups,
        warnings=_warnings(names, models, judgings),
        notes=[
            f"{Path(judging.source).name}: {which}, {len(examples)} examples, "
            f"{first.metric_.size} labels. {first.metric_!r}.",
            *(
                f"{name} is {model.classifier!r}, fitted for {model.classifier.n_iter_} iterations "
                "or epochs."
                for name, model in zip(names, models, strict=True)
            ),
        ],
        unit="row",
    )


def _check_labels(models: Sequence[TableModel]) -> None:
    for other in models[1:]:
        if other.labels != models[0].labels:
            raise ValueError(
                "models must have the same labels to be compared, but those of "
                f"{models[0].path} and {other.path} differ"
            )


def _check_same_rows(models: Sequence[TableModel], judgings: Sequence[Judging]) -> None:
    """Refuse models that were trained on different data, or that held out different rows."""
    first = judgings[0]
    for model, other in zip(models[1:], judgings[1:], strict=True):
        same_file = Path(other.source).resolve() == Path(first.source).resolve()
        if not (same_file and np.array_equal(other.examples.rows, first.examples.rows)):
            raise ValueError(
                f"{models[0].path} and {model.path} were trained on different data, or held out "
                "different rows: pass data (--data) to score them on the same rows"
            )


def _check_unseen(models: Sequence[TableModel], judgings: Sequence[Judging]) -> None:
    """Refuse to score a model on rows that it was trained on."""
    for model, judging in zip(models, judgings, strict=True):
        found = judging.overlap
        if found is not None and found.seen and not found.by_chance:
            raise ValueError(
                f"{model.path} was trained on {found} that it would be scored on: hold the same "
                "rows out of all models, or pass data (--data) with other rows"
            )


def _warnings(
    names: Sequence[str], models: Sequence[TableModel], judgings: Sequence[Judging]
) -> list[str]:
    """Warn about different ground metrics, and rows that equal training rows by chance."""
    found = []
    if len({repr(model.metric_.with_cost(power=1.0, scale=None)) for model in models}) > 1:
        found.append(
            "The models were trained under different ground metrics; distances here are those of "
            f"{names[0]}."
        )
    for name, judging in zip(names, judgings, strict=True):
        seen = judging.overlap
        if seen is not None and seen.seen:
            found.append(
                f"{seen} equal training rows of {name}, no more than expected by chance: "
                f"{seen.known.twins} of its {seen.known.rows} training rows have a duplicate."
            )
    return found
