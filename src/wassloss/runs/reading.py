"""Data and ground metric of a run, found from its settings."""

from __future__ import annotations

import dataclasses

import torch

from wassloss._precision import narrowed
from wassloss.data import Dataset
from wassloss.data.files import lists_labels, read_wanted
from wassloss.data.labels import numbers
from wassloss.data.table import Wanted
from wassloss.estimators.splitting import held_out
from wassloss.ground import GroundMetric
from wassloss.runs.inputs import Inputs, check_trainable
from wassloss.runs.metric import MADE, label_ids, metric_for, metric_in_file, named
from wassloss.runs.settings import Settings
from wassloss.targets import SparseTarget, is_class_ids, is_dense


def wanted_by(settings: Settings) -> Wanted:
    """What to read of a file."""
    asked = settings.label_column, settings.features, settings.drop, settings.group
    return Wanted(settings.order, *asked, missing=settings.missing)


def read_inputs(
    settings: Settings, metric: GroundMetric | None = None, wanted: Wanted | None = None
) -> Inputs:
    """Data and metric, as the settings say.

    The metric of a run takes the place of the settings' own, and so does what to read.
    """
    wanted = wanted or wanted_by(settings)
    if metric is None:
        metric = metric_in_file(settings)
    listed = wanted.label_names is not None or lists_labels(settings.data) is not None
    if not listed and metric is not None:
        wanted = wanted._replace(label_names=metric.labels)  # for errors that name the line
    given = read_wanted(settings.data, wanted)
    by_value = settings.metric in MADE if metric is None else _by_value(metric)
    if given.label_names is None and by_value:
        given = _named_by_value(given)
    metric = metric_for(settings, metric, given.label_names or (), listed, given.metric)
    narrowed("features", given.features, torch.float32)  # if standardised, then in full precision
    given = dataclasses.replace(given, metric=None).with_metric(metric)
    inputs = Inputs(named(metric, given.label_names), given)
    for part in ("test", "validation"):
        share = getattr(settings, part)
        if share and part not in inputs.parts:
            inputs = _drawn(inputs, part, share, settings.seed)
    return inputs


def _drawn(inputs: Inputs, part: str, share: float, seed: int) -> Inputs:
    """The same data with a part that is held out of those to train on."""
    check_trainable(inputs.parts)
    data = inputs.data
    rows = data.parts["train"] if data.parts else torch.arange(len(data))
    classes = inputs.classes()[rows.numpy()] if is_class_ids(data.target) else None
    groups = None if data.groups is None else data.groups[rows].numpy()
    train, held = (torch.from_numpy(r) for r in held_out(classes, len(rows), share, groups, seed))
    parts = {**data.parts, "train": rows[train], part: rows[held]}
    return dataclasses.replace(inputs, data=dataclasses.replace(data, parts=parts))


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
