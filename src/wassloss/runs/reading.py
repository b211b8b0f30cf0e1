"""Data and ground metric of a run, found from its settings."""

from __future__ import annotations

import dataclasses
from pathlib import Path

import torch

from wassloss import data as data_sets
from wassloss._precision import narrowed
from wassloss.data import Dataset
from wassloss.data.files import describe
from wassloss.data.labels import numbers
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
from wassloss.runs.streams import read_streamed
from wassloss.targets import SparseTarget, is_dense


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
        metric = metric_in_file(settings)
    if settings.stream or Path(settings.data).is_dir():
        return read_streamed(settings, metric, feature_names)
    given = _read(settings, metric, feature_names)
    if metric is None:
        given, metric = _own_metric(settings, given)
    elif given.label_names is None and metric.labels and numbers(metric.labels):
        given = _by_value(given)
    if given.label_names is not None:
        check_order(settings, given.label_names, metric, _listed(settings))
    single = narrowed("features", given.features, torch.float32)
    given = dataclasses.replace(given, features=single, metric=None)
    given = given.with_metric(metric)
    if settings.validation and "validation" not in given.parts:
        check_trainable(given.parts)
        of = "train" if "train" in given.parts else None
        shares = {"train": 1 - settings.validation, "validation": settings.validation}
        given = given.split(shares, settings.seed, of=of)
    return Inputs(
        named(metric, given.label_names),
        given,
        None,
        tuple(given.parts),
        given.features.shape[1],
        settings.batch_size,
        settings.seed,
        given.feature_names,
    )


def _by_value(data: Dataset) -> Dataset:
    """Data whose labels are class ids, as data whose labels are the numbers that occur."""
    target = data.target
    if is_dense(target):  # a column for each label says that there is one
        return dataclasses.replace(data, label_names=label_ids(data.label_count), metric=None)
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
            given = _by_value(given)
        names = given.label_names or ()
        check_order(settings, names, None, _listed(settings))
        return given, made_metric(settings, names)
    if given.metric is None:
        raise no_metric(settings)
    return given, with_cost(given.metric, settings)


def _listed(settings: Settings) -> bool:
    """Whether the labels of a file come from a list rather than from the rows."""
    return (
        settings.labels is not None
        or settings.data in BUILT_IN
        or describe(settings.data).labels is not None
    )
