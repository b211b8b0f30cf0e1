"""Judging a run: the data to judge it by, and its scores, example by example.

With a score for each example, runs can be compared on the same ones.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wassloss import scores
from wassloss._precision import narrowed
from wassloss.data._inputs import part_name
from wassloss.data.files import BUILT_IN, feature_batches, lists_labels
from wassloss.data.labels import UnknownLabelError, shown
from wassloss.data.streaming import Batch
from wassloss.estimators.frames import wanted_like
from wassloss.estimators.model_file import rows_at_once
from wassloss.ground import GroundMetric
from wassloss.runs.inputs import Inputs
from wassloss.runs.reading import read_inputs
from wassloss.runs.settings import Settings
from wassloss.runs.trained import TrainedRun
from wassloss.scores.by_kind import SCORES, kind_of, shown_for

CURVE = 20  # guesses up to which the top-k cost is computed


@dataclass(frozen=True)
class ExampleScores:
    """Scores of each example.

    Attributes:
        kind: of the target, as :func:`wassloss.scores.by_kind.kind_of` calls it.
        curve: the top-k cost for k = 1, 2, …, `(examples, k)`.
        values: the others by name, `(examples,)`; NaN if an example has none.
        pooled: those of all examples together, which are no means.
    """

    kind: str
    curve: NDArray[np.float64]
    values: dict[str, NDArray[np.float64]]
    pooled: dict[str, float] = field(default_factory=dict)

    def __len__(self) -> int:
        return len(self.curve)

    @property
    def names(self) -> list[str]:
        """Of all scores but the curve, in the order in which they are shown."""
        return [name for name in SCORES if name in self.values or name in self.pooled]

    def mean(self, name: str) -> float:
        """Over the examples that have the score, or of all together; NaN if none has it."""
        if name in self.pooled:
            return self.pooled[name]
        known = self._known(name)
        return float(known.mean()) if len(known) else float("nan")

    def standard_error(self, name: str) -> float:
        """Of the mean, for independent examples; NaN if the score is no mean."""
        known = self._known(name)
        return float(known.std(ddof=1) / len(known) ** 0.5) if len(known) > 1 else float("nan")

    def to_json(self) -> dict[str, Any]:
        """Means and their standard errors, or None."""

        def numbers(of: Any) -> dict[str, float | None]:
            return {name: None if np.isnan(v := of(name)) else v for name in self.names}

        return {
            "examples": len(self),
            "scores": numbers(self.mean),
            "standard_errors": numbers(self.standard_error),
            "top_k_cost": self.curve.mean(0).tolist(),
        }

    def _known(self, name: str) -> NDArray[np.float64]:
        values = self.values.get(name, np.empty(0))
        return values[~np.isnan(values)]


@torch.no_grad()
def evaluate(
    run: TrainedRun, batches: Iterable[Batch], metric: GroundMetric | None = None
) -> ExampleScores:
    """Score a run on batches of (features, target), with labels in the run's order.

    Distances are those of `metric`, by default the run's own.
    """
    metric = run.metric if metric is None else metric
    return example_scores(_answers(run, batches), metric)


def _answers(run: TrainedRun, batches: Iterable[Batch]) -> Iterator[tuple[Tensor, Any]]:
    for x, target in batches:
        _check_width(run, x)
        yield run.logits(x), target


@torch.no_grad()
def example_scores(answers: Iterable[tuple[Tensor, Any]], metric: GroundMetric) -> ExampleScores:
    """All scores of batches of (logits, target)."""
    ks = range(1, min(CURVE, metric.size) + 1)
    kind, curves = "", list[Tensor]()
    pieces: dict[str, list[NDArray[np.float64]]] = {}
    sums: dict[str, Any] = {}
    for logits, target in answers:
        kind = kind or kind_of(target, metric)
        curves.append(scores.top_k_cost(logits, target, metric, k=ks, reduction="none"))
        for name, score in shown_for(kind, metric).items():
            if score.pooled:
                sums[name] = sums.get(name, 0) + score.sums(logits, target, metric)
            else:
                values = score.function(logits, target, metric)
                pieces.setdefault(name, []).append(values.double().numpy())
    if not curves:
        raise ValueError("data must hold examples, got none")
    return ExampleScores(
        kind,
        torch.cat(curves).double().numpy(),
        {name: np.concatenate(each) for name, each in pieces.items()},
        {name: SCORES[name].answer(total) for name, total in sums.items()},
    )


def inputs_for(
    run: TrainedRun,
    source: str | None = None,
    part: str | None = None,
    label_column: str | None = None,
) -> tuple[Inputs, str | None]:
    """Data to judge a run by, with its columns and labels in its order, and which part of them.

    Args:
        run: the run.
        source: other data than the run's own, as in the settings.
        part: by default what was held out, or None, all examples, for other data without parts.
        label_column: of a table, if it is not that of the run's own data.

    Raises:
        ValueError: the data lack columns of the run, or have labels that it does not know.
    """
    trained_on = "" if run.settings is None else run.settings.data
    if source is None and run.settings is None:
        raise ValueError(
            f"{run.path} holds a model that was fitted to all its rows: say what to judge it on "
            "(DATA)"
        )
    if source is None and trained_on not in BUILT_IN and not Path(trained_on).exists():
        raise FileNotFoundError(
            f"{trained_on}, which the run was trained on, no longer exists: say what to judge it "
            "on (DATA)"
        )
    chosen = trained_on if source is None else source
    own = bool(trained_on) and Path(chosen).resolve() == Path(trained_on).resolve()
    inputs = _read(run, chosen, label_column, own)
    if own and inputs.fingerprint() != run.config["data"]["fingerprint"]:
        if source is None:
            raise ValueError(
                f"{chosen} has changed since {run.path} was trained on it, so what was held out "
                "is no longer known: say what to judge it on (DATA)"
            )
        own, inputs = False, _read(run, chosen, label_column, own=False)
    if part is None and (inputs.parts or source is None):
        part = inputs.held_out()
    return replace(inputs, own=own), None if part is None else part_name(part)


def _read(run: TrainedRun, source: str, label_column: str | None, own: bool) -> Inputs:
    other, order = Settings(source), None
    if run.settings is not None:
        order = run.settings.order
        if own:  # the very examples that were held out
            kept = ("test", "validation", "group", "seed")
            other = replace(other, **{name: getattr(run.settings, name) for name in kept})
    if lists_labels(source) == "names":
        order = None  # matched by name, in whatever order they are listed
    wanted = wanted_like(run.columns, label_column)
    wanted = wanted._replace(label_names=order, group=other.group)
    try:
        return read_inputs(other, run.metric, wanted)
    except ValueError as error:
        unknown = error if isinstance(error, UnknownLabelError) else error.__cause__
        if not isinstance(unknown, UnknownLabelError):
            raise
        at = f", {unknown.place}" if unknown.place else ""
        raise ValueError(
            f"{source}{at}: the label {unknown.label!r} is none of the {run.metric.size} that "
            f"{run.path} was trained on: {shown(run.metric.labels or ())}"
        ) from error


def features_to_predict(
    run: TrainedRun, source: str, part: str | None = None, label_column: str | None = None
) -> Iterator[tuple[list[int], Tensor]]:
    """Row numbers and features as a run takes them, a piece at a time.

    The source is a file, a folder of Parquet files, or a built-in data set.
    """
    wanted = wanted_like(run.columns, label_column)
    for numbers, features in feature_batches(source, rows_at_once(run.metric.size), part, wanted):
        _check_width(run, features)
        narrowed("features", features, torch.float32, numbers)
        yield numbers, features


def _check_width(run: TrainedRun, features: Tensor) -> None:
    if features.shape[1] != run.features:
        raise ValueError(
            f"data must have {run.features} features, as {run.path} was trained on, got "
            f"{features.shape[1]}"
        )
