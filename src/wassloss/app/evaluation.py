"""Judging a run: the data to judge it by, and its scores, example by example.

With a score for each example, runs can be compared on the same ones.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wassloss.data import Dataset
from wassloss.data.files import read_wanted
from wassloss.data.fingerprints import Fingerprints, Overlap
from wassloss.data.table import Wanted
from wassloss.estimators.base import rows_at_once
from wassloss.ground import GroundMetric
from wassloss.runs.directory import TrainedRun
from wassloss.runs.task import fingerprint
from wassloss.scores.by_kind import kind_of, shown_for


@dataclass(frozen=True)
class ExampleScores:
    """Scores of each example.

    Attributes:
        kind: of the target, as :func:`wassloss.scores.by_kind.kind_of` calls it.
        count: of the examples.
        values: scores by name, `(examples,)`, or `()` for those that are no means; NaN if an
            example has none.
    """

    kind: str
    count: int
    values: dict[str, NDArray[np.float64]]

    def mean(self, name: str) -> float:
        """Over the examples that have the score; NaN if none has it."""
        known = self._known(name)
        return float(known.mean()) if len(known) else float("nan")

    def standard_error(self, name: str) -> float:
        """Of the mean, for independent examples; NaN if the score is no mean."""
        known = self._known(name)
        return float(known.std(ddof=1) / len(known) ** 0.5) if len(known) > 1 else float("nan")

    def to_json(self) -> dict[str, Any]:
        """Means and their standard errors, or None."""

        def numbers(of: Any) -> dict[str, float | None]:
            return {name: None if np.isnan(v := of(name)) else v for name in self.values}

        return {
            "examples": self.count,
            "scores": numbers(self.mean),
            "standard_errors": numbers(self.standard_error),
        }

    def _known(self, name: str) -> NDArray[np.float64]:
        values = self.values[name]
        return values[~np.isnan(values)]


def evaluate(run: TrainedRun, data: Dataset) -> ExampleScores:
    """Score a run on data with labels in the order of its metric."""
    return example_scores(run.model._outputs(data.features.numpy()), data.target, run.model.metric_)


@torch.no_grad()
def example_scores(logits: Tensor, target: Any, metric: GroundMetric) -> ExampleScores:
    """All scores for targets of their kind, some examples at a time, to bound the memory."""
    kind, values = kind_of(target, metric), {}
    pieces = torch.arange(len(logits)).split(rows_at_once(metric.size))
    for name, score in shown_for(kind, metric).items():
        if score.pooled:
            found = score.function(logits, target, metric)
        else:
            found = torch.cat([score.function(logits[p], target[p], metric) for p in pieces])
        values[name] = found.double().numpy()
    return ExampleScores(kind, len(logits), values)


class Judging(NamedTuple):
    """What a run is judged by: some rows of a source, read with its columns; of which part."""

    data: Dataset
    part: str | None
    source: str
    rows: Tensor
    wanted: Wanted

    def features_for(self, run: TrainedRun) -> NDArray[Any]:
        """The features of the same rows for another run, which may encode columns otherwise."""
        if self.data.raw is None or run.columns.columns == self.data.raw.columns:
            return self.data.features.numpy()
        wanted = self.wanted._replace(raw=run.columns, drop=run.columns.ignored)
        return read_wanted(self.source, wanted).features[self.rows].numpy()


def trained_on(run: TrainedRun, features: NDArray[Any]) -> Overlap | None:
    """How many of these rows, encoded for a run, it was trained on; None if it does not know."""
    known: Fingerprints | None = getattr(run.model, "trained_on_", None)
    return None if known is None else known.overlap(features)


def data_for(
    run: TrainedRun,
    source: str | None = None,
    part: str | None = None,
    label_column: str | None = None,
) -> Judging:
    """Data to judge a run by, with its columns and labels in its order.

    Args:
        run: the run.
        source: other data than the run's own.
        part: by default what was held out, or None, all examples, for other data without parts.
        label_column: of a table, if it is not that of the run's own data.

    Raises:
        ValueError: the data lack columns of the run, or have labels that it does not know.
    """
    task = run.task
    if source is None and task is None:
        raise ValueError(
            f"{run.path} holds a model that was fitted to all its rows: say what to judge it on "
            "(DATA)"
        )
    own = task is not None and (
        source is None or Path(source).resolve() == Path(task.data).resolve()
    )
    wanted = Wanted.like(run.columns, label_column, label_names=run.labels)
    if task is None or not own:
        data = read_wanted(str(source), wanted)
    else:
        data = read_wanted(task.data, wanted._replace(group=task.group))
        divided = task.divided(data)
        own = fingerprint(divided) == run.config["fingerprints"]["training data"]
        if not own and source is None:
            raise ValueError(
                f"{task.data} has changed since {run.path} was trained on it, so what was held "
                "out is no longer known: say what to judge it on (DATA)"
            )
        data = divided if own else data
    if part is None and (data.parts or source is None):
        part = next((name for name in ("test", "validation") if name in data.parts), None)
        if part is None:
            others = f"name another ({', '.join(data.parts)}) with --part, " if data.parts else ""
            raise ValueError(
                f"the data have no part 'test' or 'validation' that was held out: {others}give "
                "other DATA, or hold some out with `wassloss train --test 0.2`"
            )
    rows = torch.arange(len(data)) if part is None else data._rows_of(part)
    judged = data if part is None else data.part(part)
    return Judging(judged, part, str(source or (task and task.data)), rows, wanted)
