"""The report of :func:`wassloss.compare` on a table."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from wassloss.data.raw_table import RawTable
from wassloss.estimators import Comparison
from wassloss.report.record import Mistake, Report, most_mended

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
            "held out; “unclear” means that the interval includes 0.",
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
