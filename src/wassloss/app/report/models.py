"""The report of models on disk, judged on the same examples."""

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
    """Judge models on the same examples, under the same distances: those of the first model.

    Args:
        models: loaded from files, and trained on the same labels.
        data: what to judge them on; by default the examples that all of them held out.
        part: which of them; by default ``"test"``, or else ``"validation"``.

    Raises:
        ValueError: the models differ in their labels, would be judged on different examples, or
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
                f"{name} is {model.classifier!r}, after {model.classifier.n_iter_} iterations or "
                "epochs."
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
    """Refuse models that were trained on different data, or that hold out different rows."""
    first = judgings[0]
    for model, other in zip(models[1:], judgings[1:], strict=True):
        same_file = Path(other.source).resolve() == Path(first.source).resolve()
        if not (same_file and np.array_equal(other.examples.rows, first.examples.rows)):
            raise ValueError(
                f"{models[0].path} and {model.path} were trained on different data, or hold out "
                "different rows: say with data (--data) what to judge them on"
            )


def _check_unseen(models: Sequence[TableModel], judgings: Sequence[Judging]) -> None:
    """Refuse to judge a model by rows that it was trained on."""
    for model, judging in zip(models, judgings, strict=True):
        found = judging.overlap
        if found is not None and found.seen and not found.by_chance:
            raise ValueError(
                f"{model.path} was trained on {found} of those to judge it by: hold the same rows "
                "out of all models, or say with data (--data) which other rows to judge them by"
            )


def _warnings(
    names: Sequence[str], models: Sequence[TableModel], judgings: Sequence[Judging]
) -> list[str]:
    """What to keep in mind: other ground metrics, and rows that equal training rows by chance."""
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
                f"{seen} equal ones that {name} was trained on, no more than chance explains: "
                f"{seen.known.twins} of its {seen.known.rows} rows have a twin."
            )
    return found
