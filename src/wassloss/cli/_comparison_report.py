"""The report of `wassloss compare`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from wassloss.data.raw_table import RawTable
from wassloss.estimators import Comparison
from wassloss.report.gains import Gains, Mistake, Point, most_mended, write_gains

_SHOWN = 4  # columns of a row


def write_comparison(
    found: Comparison, raw: RawTable, features: NDArray[np.floating], path: Path
) -> None:
    """Write the page about what was found with the features of a table."""
    write_gains(_gains(found, raw, features), path)


def described(raw: RawTable, features: NDArray[np.floating]) -> str:
    """The first columns of a row in words, from its features."""
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


def _gains(found: Comparison, raw: RawTable, features: NDArray[np.floating]) -> Gains:
    first, ours = found.candidates[0], found.ours
    off = first.distance, ours.distance
    labels = found.labels

    def mistakes(places: NDArray[np.int64]) -> list[Mistake]:
        return [
            Mistake(
                f"row {found.held[i]}",
                described(raw, features[found.held[i]]),
                labels[found.truth[i]],
                (labels[first.guess[i]], labels[ours.guess[i]]),
            )
            for i in places
        ]

    header, rows = found.table()
    return Gains(
        answer=found.answer,
        header=header,
        rows=rows,
        notes=[
            f"{found.rows[0]} rows to learn from; {found.rows[1]} rows, on which nothing was "
            "chosen, to judge by. Each loss has eight settings, chosen by the mean distance in "
            "cross-validation.",
            "Changes are relative to cross-entropy's most probable labels, with 95 % intervals "
            "over the rows held out; “unclear” means that the interval includes 0.",
            f"The saved model is {found.best!r}.",
        ],
        names=(f"{first.loss}, {first.decision} label", f"{ours.loss}, {ours.decision} label"),
        metric=found.best.metric_,
        labels=labels,
        truth=found.truth,
        guesses=(first.guess, ours.guess),
        points=[
            Point(c.loss, c.decision, float(c.accuracy.mean()), float(c.distance.mean()))
            for c in found.candidates
        ],
        unit="row",
        mended=mistakes(most_mended(*off)),
        made=mistakes(most_mended(*off[::-1])),
    )
