"""Data and ground metric of a run, found from its settings."""

from __future__ import annotations

import dataclasses
from functools import partial
from pathlib import Path

import torch

from wassloss._precision import narrowed
from wassloss.data import Dataset, ParquetStream
from wassloss.data.files import lists_labels, read_wanted
from wassloss.data.labels import numbers, places_in
from wassloss.data.parquet import label_values, layout_of, part_names
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
    if settings.stream or Path(settings.data).is_dir():
        return _streamed(settings, metric, wanted)
    listed = wanted.label_names is not None or lists_labels(settings.data) is not None
    if not listed and metric is not None:
        wanted = wanted._replace(label_names=metric.labels)  # for errors that name the line
    given = read_wanted(settings.data, wanted)
    by_value = settings.metric in MADE if metric is None else _by_value(metric)
    if given.label_names is None and by_value:
        given = _named_by_value(given)
    metric = metric_for(settings, metric, given.label_names, listed, given.metric)
    narrowed("features", given.features, torch.float32)  # if standardised, then in full precision
    given = dataclasses.replace(given, metric=None).with_metric(metric)
    inputs = Inputs(
        named(metric, given.label_names),
        given,
        ParquetStream,
        given.features.shape[1],
        given.feature_names,
        given.raw,
    )
    for part in ("test", "validation"):
        share = getattr(settings, part)
        if share and part not in inputs.parts:
            inputs = _drawn(inputs, part, share, settings.seed)
    return inputs


def _drawn(inputs: Inputs, part: str, share: float, seed: int) -> Inputs:
    """The same data with a part that is held out of those to train on."""
    check_trainable(inputs.parts)
    data = inputs.in_file()
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


def _streamed(settings: Settings, metric: GroundMetric | None, wanted: Wanted) -> Inputs:
    """Data that are streamed, and their metric: that of a run, of a file, or made by the labels."""
    source = settings.data
    layout, width = layout_of(source, wanted)
    parts = part_names(source)
    for part in ("test", "validation"):
        if getattr(settings, part) and part not in parts:
            raise ValueError(
                f"{part} cannot be drawn from a stream: give the files a column 'part' with "
                f"'train' and '{part}'"
            )
    names, count = layout.label_names, layout.label_count
    listed = names is not None
    by_value = metric is None or _by_value(metric) or not layout.ids
    if names is None and by_value and layout.target_column != "weights":
        names = label_values(source, layout.target_column)
    given, metric = metric, metric_for(settings, metric, names, listed, count=count)
    if given is not None and not listed and names is not None:
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
        label_column=layout.target_column or "label",
        feature_names=layout.feature_names if layout.lists else layout.feature_columns,
        raw=wanted.raw,
    )
    feature_names = layout.feature_names if layout.raw is None else layout.raw.feature_names
    return Inputs(metric, None, stream, width, feature_names, layout.raw, parts)
