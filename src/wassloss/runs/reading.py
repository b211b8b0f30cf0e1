"""Data and ground metric of a run, found from its settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch

from wassloss import data as data_sets
from wassloss._precision import narrowed
from wassloss.data import Dataset
from wassloss.data.files import describe
from wassloss.data.labels import UnknownLabelError, numbers, places_in, shown
from wassloss.data.parquet import expanded
from wassloss.estimators.labels import metric_of_labels
from wassloss.ground import Discrete, GroundMetric, load, storage
from wassloss.runs.columns import columns_for
from wassloss.runs.features import BUILT_IN, padded_features
from wassloss.runs.inputs import Inputs, check_trainable
from wassloss.runs.settings import Settings
from wassloss.runs.streams import Peek, parts_of, peek, values_in
from wassloss.runs.trained import TrainedRun
from wassloss.targets import SparseTarget, is_dense

MADE = {"ordinal": "ordinal", "discrete": None}  # metrics that the labels make by themselves


def read_inputs(
    settings: Settings,
    metric: GroundMetric | None = None,
    feature_names: tuple[str, ...] | None = None,
) -> Inputs:
    """Data and metric, as the settings say.

    Args:
        settings: what to read.
        metric: in place of the settings' own: that of a run.
        feature_names: the columns to read as features; by default all that are.

    Raises:
        ValueError: a file cannot be read, or data and metric do not fit; one line says why.
    """
    if metric is None:
        metric = _metric_in_file(settings)
    if settings.stream or Path(settings.data).is_dir():
        return _streamed(settings, metric, feature_names)
    given = _read(settings, metric, feature_names)
    if metric is None:
        given, metric = _own_metric(settings, given)
    elif given.label_names is None and metric.labels and numbers(metric.labels):
        given = by_value(given)
    if given.label_names is not None:
        _check_order(settings, given.label_names, metric, _listed(settings))
    single = narrowed("features", given.features, torch.float32)
    given = dataclasses.replace(given, features=single, metric=None)
    given = given.with_metric(metric)
    if settings.validation and "validation" not in given.parts:
        check_trainable(given.parts)
        of = "train" if "train" in given.parts else None
        shares = {"train": 1 - settings.validation, "validation": settings.validation}
        given = given.split(shares, settings.seed, of=of)
    return Inputs(
        _named(metric, given.label_names),
        given,
        None,
        tuple(given.parts),
        given.features.shape[1],
        settings.batch_size,
        settings.seed,
        given.feature_names,
    )


def by_value(data: Dataset) -> Dataset:
    """Data whose labels are class ids, as data whose labels are the numbers that occur."""
    target = data.target
    if is_dense(target):  # a column for each label says that there is one
        return dataclasses.replace(data, label_names=_ids(data.label_count), metric=None)
    if isinstance(target, SparseTarget):
        used = target.weights > 0
        values = target.indices[used].unique()
        places = torch.searchsorted(values, target.indices.masked_fill(~used, int(values[0])))
        target = SparseTarget(places, target.weights)
    else:
        values, target = target.unique(return_inverse=True)
    names = tuple(str(value) for value in values.tolist())
    return dataclasses.replace(
        data, target=target, label_names=names, label_count=len(names), metric=None
    )


def _read(
    settings: Settings, metric: GroundMetric | None, feature_names: tuple[str, ...] | None
) -> Dataset:
    if settings.data in BUILT_IN:
        return BUILT_IN[settings.data]()
    names = settings.labels
    if names is None and metric is not None and describe(settings.data).labels is None:
        names = metric.labels  # for errors that say in which line there is another
    return data_sets.read(
        settings.data,
        label_names=names,
        label_column=settings.label_column,
        feature_names=feature_names,
    )


def _own_metric(settings: Settings, given: Dataset) -> tuple[Dataset, GroundMetric]:
    """A metric that is not in a file: the data's own, or one that the labels make."""
    if settings.metric in MADE:
        if given.label_names is None:
            given = by_value(given)
        names = given.label_names or ()
        _check_order(settings, names, None, _listed(settings))
        return given, _made_metric(settings, names)
    if given.metric is None:
        raise _no_metric(settings)
    return given, _with_cost(given.metric, settings)


def _metric_in_file(settings: Settings) -> GroundMetric | None:
    """The metric of the file that the settings name, if they do."""
    if settings.metric is None or settings.metric in MADE:
        return None
    metric = _with_cost(load(settings.metric), settings)
    listed = settings.labels
    return _named(metric, listed) if listed and len(listed) == metric.size else metric


def _made_metric(settings: Settings, names: Sequence[str]) -> GroundMetric:
    kind = MADE[settings.metric or "discrete"]
    return _with_cost(metric_of_labels(kind, numbers(names) or names, np.float32, names), settings)


def _with_cost(metric: GroundMetric, settings: Settings) -> GroundMetric:
    """The metric with the power and the scale of the settings, if they have any."""
    if settings.scale is not None:
        metric = metric.with_cost(scale=settings.scale)
    return metric if settings.power is None else metric.with_cost(power=settings.power)


def _named(metric: GroundMetric, names: Sequence[str] | None) -> GroundMetric:
    """The metric with the labels' names, if it has none of its own."""
    if metric.labels is not None or names is None:
        return metric
    arrays = storage.to_arrays(metric)
    return storage.from_arrays({**arrays, "labels": np.array(names, dtype=np.str_)})


def _no_metric(settings: Settings) -> ValueError:
    return ValueError(
        f"{settings.data} comes without a ground metric: pass metric (--metric), a file of "
        "`wassloss metric build`, ordinal or discrete"
    )


def _check_order(
    settings: Settings, names: tuple[str, ...], metric: GroundMetric | None, listed: bool
) -> None:
    """Refuse to match names by their order where a file only uses them: by what order?

    Args:
        settings: for the error, and for the metric that is to be made.
        names: of the labels.
        metric: that they are to be matched with; None where it is yet to be made.
        listed: whether the names come from a list, and so have an order.
    """
    made = metric is None and settings.metric == "discrete"
    any_order = made or isinstance(metric, Discrete)
    by_name = metric is not None and metric.labels is not None
    if not (listed or any_order or by_name or numbers(names) is not None):
        raise ValueError(
            f"the order of the labels is not known, for {settings.data} only names them: pass "
            "labels (--labels low,middle,high, or a file with one a line)"
        )


def _listed(settings: Settings) -> bool:
    """Whether the labels of a file come from a list rather than from the rows."""
    return (
        settings.labels is not None
        or settings.data in BUILT_IN
        or describe(settings.data).labels is not None
    )


def _streamed(
    settings: Settings, metric: GroundMetric | None, feature_names: tuple[str, ...] | None
) -> Inputs:
    if settings.standardize:
        raise ValueError("standardize needs data in memory: leave it out for a stream")
    first = peek(settings.data, settings.labels, settings.label_column, feature_names)
    parts = parts_of(settings.data)
    if settings.validation and "validation" not in parts:
        raise ValueError(
            "validation cannot be drawn from a stream: give the files a column 'part' with "
            "'train' and 'validation'"
        )
    if metric is None and settings.metric not in MADE:
        raise _no_metric(settings)
    names = first.label_names or _values(settings, first, metric)
    if names is not None:
        _check_order(settings, names, metric, listed=first.label_names is not None)
    if metric is None:
        if names is None and not first.label_count:
            raise ValueError(
                f"{settings.data} does not say how many labels there are: pass labels, or a "
                "metric file"
            )
        metric = _made_metric(settings, names or _ids(first.label_count))
    elif first.label_names is None and names is not None:
        names = places_in(names, metric).names  # the metric may have more than occur
    count = first.label_count if names is None else len(names)
    if count and metric.size != count:
        raise ValueError(f"metric must have {count} labels, as {settings.data}, got {metric!r}")
    if names is not None and metric.labels is not None and names != metric.labels:
        raise ValueError(
            f"metric must have the labels of {settings.data} in the same order to stream from it, "
            "but they differ"
        )
    return Inputs(
        _named(metric, names),
        None,
        settings.data,
        parts,
        first.features,
        settings.batch_size,
        settings.seed,
        first.feature_names,
        settings.label_column,
    )


def _values(settings: Settings, first: Peek, metric: GroundMetric | None) -> tuple[str, ...] | None:
    """The labels that occur in a stream, where labels are values; None where they are ids."""
    if first.dense:
        return None
    by_value = metric is None or bool(metric.labels and numbers(metric.labels))
    if first.ids and not by_value:
        return None
    return values_in(settings.data, settings.label_column)


def _ids(count: int) -> tuple[str, ...]:
    return tuple(str(i) for i in range(count))


def is_same(source: str, other: str) -> bool:
    """Whether two names are of the same data."""
    return Path(source).resolve() == Path(other).resolve()


def inputs_for(
    run: TrainedRun, source: str | None = None, label_column: str | None = None
) -> Inputs:
    """Data to judge a run by: its columns and its labels, in its order.

    Args:
        run: the run.
        source: other data than the run's own, as in the settings.
        label_column: of a table, where it is not that of the run's own data.

    Raises:
        ValueError: the data lack columns of the run, or have labels that it does not know.
    """
    settings = run.settings
    if source is None and settings.data not in BUILT_IN and not Path(settings.data).exists():
        raise FileNotFoundError(
            f"{settings.data}, which the run was trained on, is not there any more: say what to "
            "judge it on (DATA)"
        )
    chosen = settings.data if source is None else source
    if is_same(chosen, settings.data):
        inputs = _judging(run, chosen, label_column, own=True)
        if inputs.fingerprint() == run.config["data"]["fingerprint"]:
            return dataclasses.replace(inputs, own=True)
        if source is None:
            raise ValueError(
                f"{chosen} has changed since {run.path} was trained on it, so what was held out "
                "is not known any more: say what to judge it on (DATA)"
            )
    return _judging(run, chosen, label_column, own=False)


def _judging(run: TrainedRun, source: str, label_column: str | None, own: bool) -> Inputs:
    settings, wanted, labels = run.settings, None, run.settings.labels
    if source not in BUILT_IN:
        wanted, label_column = columns_for(run, source, label_column, labelled=True)
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
    metric = _named(run.metric, _ids(run.metric.size))  # by value: other data have other ids
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
