"""Data to judge a run by, with its columns and labels in its order."""

from __future__ import annotations

import dataclasses
from pathlib import Path

from wassloss.data.files import describe
from wassloss.data.labels import UnknownLabelError, shown
from wassloss.data.parquet import expanded
from wassloss.runs.features import BUILT_IN, columns_for, padded_features
from wassloss.runs.inputs import Inputs
from wassloss.runs.metric import label_ids, named
from wassloss.runs.reading import read_inputs
from wassloss.runs.settings import Settings
from wassloss.runs.trained import TrainedRun


def inputs_for(
    run: TrainedRun, source: str | None = None, label_column: str | None = None
) -> Inputs:
    """Data to judge a run by: its columns and its labels, in its order.

    Args:
        run: the run.
        source: other data than the run's own, as in the settings.
        label_column: of a table, if it is not that of the run's own data.

    Raises:
        ValueError: the data lack columns of the run, or have labels that it does not know.
    """
    settings = run.settings
    if source is None and settings.data not in BUILT_IN and not Path(settings.data).exists():
        raise FileNotFoundError(
            f"{settings.data}, which the run was trained on, no longer exists: say what to "
            "judge it on (DATA)"
        )
    chosen = settings.data if source is None else source
    if Path(chosen).resolve() == Path(settings.data).resolve():
        inputs = _judging(run, chosen, label_column, own=True)
        if inputs.fingerprint() == run.config["data"]["fingerprint"]:
            return dataclasses.replace(inputs, own=True)
        if source is None:
            raise ValueError(
                f"{chosen} has changed since {run.path} was trained on it, so what was held out "
                "is no longer known: say what to judge it on (DATA)"
            )
    return _judging(run, chosen, label_column, own=False)


def _judging(run: TrainedRun, source: str, label_column: str | None, own: bool) -> Inputs:
    settings, wanted, labels = run.settings, None, run.settings.labels
    if source not in BUILT_IN:
        _, label_column, wanted, _ = columns_for(run, source, label_column, labelled=True)
        if describe(expanded(source)[0]).labels == "names":
            labels = None  # matched by name, in whatever order they are listed
    other = Settings(
        source,
        labels=labels,
        label_column=label_column,
        seed=settings.seed,
        validation=settings.validation if own else 0.0,  # the very examples that were held out
        stream=settings.stream and own,
    )
    metric = named(run.metric, label_ids(run.metric.size))  # by value: other data have other ids
    try:
        inputs = read_inputs(other, metric, wanted)
    except ValueError as error:
        unknown = error if isinstance(error, UnknownLabelError) else error.__cause__
        if not isinstance(unknown, UnknownLabelError):
            raise
        at = f", {unknown.place}" if unknown.place else ""
        raise ValueError(
            f"{source}{at}: the label {unknown.label!r} is none of the {run.metric.size} that "
            f"{run.path} was trained on: {shown(run.labels)}"
        ) from error
    if inputs.data is None:
        return inputs
    wide = padded_features(inputs.data.features, run.features, source)
    data = dataclasses.replace(inputs.data, features=wide)
    return dataclasses.replace(inputs, data=data, features=wide.shape[1])
