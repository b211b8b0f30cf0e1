"""Data and ground metric of a run, found from its settings."""

from __future__ import annotations

import dataclasses
from functools import partial
from pathlib import Path

import torch

from wassloss import data as data_sets
from wassloss._precision import narrowed
from wassloss.data import Dataset, ParquetStream
from wassloss.data.files import describe
from wassloss.data.labels import numbers, places_in
from wassloss.data.parquet import label_values, layout_of, part_names
from wassloss.data.table import Wanted
from wassloss.ground import GroundMetric
from wassloss.runs.features import BUILT_IN
from wassloss.runs.inputs import Inputs, check_trainable
from wassloss.runs.metric import (
    MADE,
    check_order,
    label_ids,
    made_metric,
    metric_in_file,
    named,
    no_metric,
    with_cost,
)
from wassloss.runs.settings import Settings
from wassloss.targets import SparseTarget, is_dense

_Names = tuple[str, ...] | None


def read_inputs(
    settings: Settings, metric: GroundMetric | None = None, feature_names: _Names = None
) -> Inputs:
    """Data and metric, as the settings say.

    The metric and the names of the features of a run take the place of the settings' own.
    """
    if metric is None:
        metric = metric_in_file(settings)
    if settings.stream or Path(settings.data).is_dir():
        return _streamed(settings, metric, feature_names)
    listed = settings.labels is not None or settings.data in BUILT_IN
    listed = listed or describe(settings.data).labels is not None
    given = _read(settings, metric, feature_names, listed)
    by_value = settings.metric in MADE if metric is None else _by_value(metric)
    if given.label_names is None and by_value:
        given = _named_by_value(given)
    if metric is None and settings.metric not in MADE:
        if given.metric is None:
            raise no_metric(settings)
        metric = with_cost(given.metric, settings)
    if given.label_names is not None:
        check_order(settings, given.label_names, metric, listed)
    if metric is None:
        metric = made_metric(settings, given.label_names or ())
    single = narrowed("features", given.features, torch.float32)
    given = dataclasses.replace(given, features=single, metric=None).with_metric(metric)
    if settings.validation and "validation" not in given.parts:
        check_trainable(given.parts)
        shares = {"train": 1 - settings.validation, "validation": settings.validation}
        given = given.split(shares, settings.seed, of="train" if given.parts else None)
    return Inputs(
        named(metric, given.label_names),
        given,
        ParquetStream,
        tuple(given.parts),
        given.features.shape[1],
        given.feature_names,
    )


def _read(
    settings: Settings, metric: GroundMetric | None, feature_names: _Names, listed: bool
) -> Dataset:
    if settings.data in BUILT_IN:
        return BUILT_IN[settings.data]()
    names = settings.labels
    if not listed and metric is not None:
        names = metric.labels  # for errors that say in which line there is another
    return data_sets.read(
        settings.data,
        label_names=names,
        label_column=settings.label_column,
        feature_names=feature_names,
    )


def _by_value(metric: GroundMetric) -> bool:
    """Whether the labels of a metric are numbers, with which whole numbers in data are compared."""
    return bool(metric.labels and numbers(metric.labels))


def _named_by_value(data: Dataset) -> Dataset:
    """Data whose labels are class ids, as data whose labels are the numbers that occur."""
    target = data.target
    if is_dense(target):  # a column for each label says that there is one
        return dataclasses.replace(data, label_names=label_ids(data.label_count), metric=None)
    if isinstance(target, SparseTarget):
        used = target.weights > 0
        padded = target.indices.masked_fill(~used, int(target.indices[used][0]))
        values, ids = padded.unique(return_inverse=True)
        target = SparseTarget(ids, target.weights)
    else:
        values, target = target.unique(return_inverse=True)
    names = tuple(str(value) for value in values.tolist())
    return dataclasses.replace(
        data, target=target, label_names=names, label_count=len(names), metric=None
    )


def _streamed(settings: Settings, metric: GroundMetric | None, feature_names: _Names) -> Inputs:
    """Data that are streamed, and their metric: that of a run, of a file, or made by the labels."""
    source = settings.data
    if settings.standardize:
        raise ValueError("standardize needs data in memory: leave it out for a stream")
    wanted = Wanted(settings.labels, settings.label_column, feature_names)
    layout, width = layout_of(source, wanted)
    parts = part_names(source)
    if settings.validation and "validation" not in parts:
        raise ValueError(
            "validation cannot be drawn from a stream: give the files a column 'part' with "
            "'train' and 'validation'"
        )
    if metric is None and settings.metric not in MADE:
        raise no_metric(settings)
    names, count = layout.label_names, layout.label_count
    by_value = metric is None or _by_value(metric) or not layout.ids
    if names is None and by_value and layout.target_column != "weights":
        names = label_values(source, settings.label_column)
    if names is not None:
        check_order(settings, names, metric, listed=layout.label_names is not None)
    if metric is None:
        if names is None and not count:
            raise ValueError(
                f"{source} does not say how many labels there are: pass labels, or a metric file"
            )
        metric = made_metric(settings, names or label_ids(count))
    elif layout.label_names is None and names is not None:
        names = places_in(names, metric).names  # the metric may have more than occur
    count = count if names is None else len(names)
    if count and metric.size != count:
        raise ValueError(f"metric must have {count} labels, as {source}, got {metric!r}")
    if names is not None and metric.labels is not None and names != metric.labels:
        raise ValueError(
            f"metric must have the labels of {source} in the same order to stream from it, but "
            "they differ"
        )
    metric = named(metric, names)
    stream = partial(
        ParquetStream,
        source,
        batch_size=settings.batch_size,
        seed=settings.seed,
        label_names=metric.labels,
        label_count=metric.size,
        label_column=settings.label_column or "label",
        feature_names=layout.feature_names,
        dtype=torch.float32,
    )
    return Inputs(metric, None, stream, parts, width, layout.feature_names)
