"""Per-example scores of a model, and the choice of rows to score it on.

Scores are per example so that models can be compared on the same examples.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wassloss.app.examples import Examples, ReadOptions, read_examples
from wassloss.app.fingerprints import Overlap
from wassloss.app.model import TableModel
from wassloss.app.score_kinds import kind_of, shown_for
from wassloss.app.splitting import divided
from wassloss.app.tables import Table, read_table
from wassloss.ground import GroundMetric

_ROWS, _ENTRIES = 4096, 2**24  # most examples, and most examples times labels, scored at once


@dataclass(frozen=True)
class ExampleScores:
    """Per-example scores.

    Attributes:
        kind: the kind of target, from :func:`wassloss.app.score_kinds.kind_of`.
        count: the number of examples.
        values: scores by name, `(examples,)`, with NaN where undefined; or `()` for scores that
            are not means over examples.
    """

    kind: str
    count: int
    values: dict[str, NDArray[np.float64]]

    def mean(self, name: str) -> float:
        """The mean over the examples where the score is defined; NaN if there are none."""
        known = self._known(name)
        return float(known.mean()) if len(known) else float("nan")

    def standard_error(self, name: str) -> float:
        """The standard error of the mean of independent examples; NaN if it is not a mean."""
        known = self._known(name)
        return float(known.std(ddof=1) / len(known) ** 0.5) if len(known) > 1 else float("nan")

    def to_json(self) -> dict[str, Any]:
        """Means and standard errors, with None for NaN."""

        def numbers(of: Any) -> dict[str, float | None]:
            return {name: None if np.isnan(v := of(name)) else v for name in self.values}

        return {
            "examples": self.count,
            "scores": numbers(self.mean),
            "standard_errors": numbers(self.standard_error),
        }

    def _known(self, name: str) -> NDArray[np.float64]:
        values = np.atleast_1d(self.values[name])
        return values[~np.isnan(values)]


def evaluate(model: TableModel, examples: Examples) -> ExampleScores:
    """Score a model on examples with labels in the order of its metric."""
    return example_scores(model.logits(examples.table), examples.target, model.metric_)


@torch.no_grad()
def example_scores(logits: Tensor, target: Any, metric: GroundMetric) -> ExampleScores:
    """All scores for this kind of target, computed in chunks to bound memory."""
    kind, values = kind_of(target, metric), {}
    many = max(1, min(_ROWS, _ENTRIES // metric.size))
    pieces = torch.arange(len(logits)).split(many)
    for name, score in shown_for(kind, metric).items():
        if score.pooled:
            found = score.function(logits, target, metric)
        else:
            found = torch.cat([score.function(logits[p], target[p], metric) for p in pieces])
        values[name] = found.double().numpy()
    return ExampleScores(kind, len(logits), values)


class Judging(NamedTuple):
    """The examples to score a model on, with their part and the table they come from.

    `overlap` counts those that the model was trained on; None if it has no fingerprints.
    """

    examples: Examples
    part: str | None
    source: str
    overlap: Overlap | None


def judge(
    model: TableModel,
    source: str | None = None,
    part: str | None = None,
    label_column: str | None = None,
) -> Judging:
    """Read the examples to score a model on, with labels in its order.

    Args:
        model: a model loaded from a file.
        source: a table; by default the held-out rows of the model's own table.
        part: the part to use; by default the held-out part, or all examples of another table that
            has no parts.
        label_column: the column of the labels; by default that of the model's own table.

    Raises:
        ValueError: the table lacks columns, has labels that the model does not know, or changed
            after the model was trained on it.
    """
    trained = model.origin if model.origin.get("made_by") == "train" else None
    if source is None and trained is None:
        raise ValueError(
            f"{_where(model)} was fitted to all its rows: pass other data to score it on (DATA)"
        )
    path = str(trained["data"] if source is None and trained else source)
    examples = _examples(model, read_table(path), label_column)
    if trained is not None and _same(path, trained["data"]):
        held = _held_out(model, examples)
        if held is None and source is None:
            raise ValueError(
                f"{path} has changed since {_where(model)} was trained on it, so the held-out rows "
                "are no longer known: pass the data to score it on (DATA)"
            )
        examples = replace(examples, parts=held or examples.parts)
    if part is None and (examples.parts or source is None):
        part = _usual_part(examples)
    if part is not None:
        if part not in examples.parts:
            known = ", ".join(examples.parts) or "none"
            raise ValueError(f"part must be a part of the data ({known}), got {part!r}")
        examples = examples.take(examples.parts[part])
    return Judging(examples, part, path, model.overlap(examples.table))


def _held_out(model: TableModel, examples: Examples) -> dict[str, NDArray[np.int64]] | None:
    """The parts of a model's own table; None if the table has changed since training."""
    parts = divided(examples, model.origin["test"], model.origin["seed"])
    rows = parts.get("train", np.arange(len(examples)))
    known, seen = model.trained_on, model.overlap(examples.take(rows).table)
    if known is None or seen is None or not seen.seen == len(rows) == known.rows:
        return None
    return parts


def _usual_part(examples: Examples) -> str:
    """The part that was held out."""
    for part in ("test", "validation"):
        if part in examples.parts:
            return part
    named = ", ".join(examples.parts)
    others = f"name another ({named}) with --part, " if named else ""
    raise ValueError(
        f"the data have no held-out part 'test' or 'validation': {others}pass other DATA, "
        "or hold some out with `wassloss train --test 0.2`"
    )


def _where(model: TableModel) -> str:
    return "this model" if model.path is None else str(model.path)


def judge_on_same(model: TableModel, other: Judging) -> Judging:
    """Read the rows on which another model is scored, with the columns that this model takes."""
    examples = _examples(model, read_table(other.source))
    rows = np.flatnonzero(np.isin(examples.rows, other.examples.rows))
    if len(rows) != len(other.examples):
        raise ValueError(f"{other.source} has rows that have a label for only one of the models")
    examples = examples.take(rows)
    return other._replace(examples=examples, overlap=model.overlap(examples.table))


def _examples(model: TableModel, table: Table, label_column: str | None = None) -> Examples:
    """The examples of a table with a model's columns, and labels in its order."""
    origin, names = model.origin, set(table.frame.columns)
    given = ReadOptions(**_tuples(origin.get("options", {})))
    label = origin.get("label_column")
    options = ReadOptions(
        label_column=label_column or (label if label in names else None),
        drop=tuple(name for name in given.drop if name in names),
        group=given.group if given.group in names else None,
        order=model.labels,
    )
    taken = () if model.encoder is None else model.encoder.columns
    return read_examples(table, options, taken)


def _same(source: str, other: str) -> bool:
    return source == other or Path(source).resolve() == Path(other).resolve()


def _tuples(options: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(v) if isinstance(v, list) else v for name, v in options.items()}
