"""The report of `wassloss compare`."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from wassloss.data.raw_table import RawTable, read_raw_table
from wassloss.estimators import Comparison
from wassloss.report.gains import Gains, Mistake, Point, most_mended, write_gains

if TYPE_CHECKING:
    import pyarrow

_SHOWN = 4  # columns of a row


def write_comparison(found: Comparison, raw: RawTable, data: Path, path: Path) -> None:
    """Write the page about what was found in the table in `data`."""
    shown = [column.name for column in raw.columns[:_SHOWN]]
    write_gains(_gains(found, read_raw_table(data).select(shown)), path)


def _gains(found: Comparison, shown: pyarrow.Table) -> Gains:
    """What the page shows; `shown` has the columns that a mistake is shown by."""
    first, ours = found.candidates[0], found.ours
    off = first.distance, ours.distance
    labels = found.labels

    def mistakes(places: NDArray[np.int64]) -> list[Mistake]:
        rows = found.held[places]
        return [
            Mistake(
                f"row {row}",
                ", ".join(f"{k} {'missing' if v is None else v}" for k, v in values.items()),
                labels[found.truth[i]],
                (labels[first.guess[i]], labels[ours.guess[i]]),
            )
            for i, row, values in zip(places, rows, shown.take(rows).to_pylist(), strict=True)
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
