"""Predictions in files: CSV, JSON lines or Parquet, as the suffix says."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from wassloss._files import replacing
from wassloss.data._arrow import import_pyarrow

FORMATS = (".csv", ".jsonl", ".parquet")


class Prediction(NamedTuple):
    """Labels of one row, best first, and how probable the model holds each."""

    row: int
    labels: list[str]
    probabilities: list[float]


def write_predictions(predictions: Sequence[Prediction], path: Path) -> None:
    """Write them, all or nothing."""
    with replacing(path) as temporary:
        if path.suffix.lower() == ".csv":
            temporary.write_text(csv_text(predictions), encoding="utf-8")
        elif path.suffix.lower() == ".jsonl":
            lines = (json.dumps(p._asdict(), ensure_ascii=False) + "\n" for p in predictions)
            temporary.write_text("".join(lines), encoding="utf-8")
        else:
            pa = import_pyarrow()
            pa.parquet.write_table(
                pa.Table.from_pylist([p._asdict() for p in predictions]), temporary
            )


def csv_text(predictions: Sequence[Prediction]) -> str:
    """A column for the row's number, then a label and its probability in turn."""
    text = io.StringIO()
    writer = csv.writer(text, lineterminator="\n")
    k = len(predictions[0].labels) if predictions else 0
    pairs = [f"{what}_{place}" for place in range(1, k + 1) for what in ("label", "probability")]
    writer.writerow(["row", *pairs])
    for prediction in predictions:
        cells = [str(prediction.row)]
        for label, chance in zip(prediction.labels, prediction.probabilities, strict=True):
            cells += [label, f"{chance:.6g}"]
        writer.writerow(cells)
    return text.getvalue()
