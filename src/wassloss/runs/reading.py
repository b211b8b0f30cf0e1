"""Data and ground metric of a run, found from its settings."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from pathlib import Path

import numpy as np
import torch

from wassloss import data as data_sets
from wassloss._precision import narrowed
from wassloss.data import Dataset
from wassloss.ground import Discrete, GroundMetric, Ordinal, load, storage
from wassloss.runs.features import BUILT_IN, padded_features
from wassloss.runs.inputs import Inputs
from wassloss.runs.parts import check_trainable
from wassloss.runs.settings import Settings
from wassloss.runs.streams import parts_of, peek

_BY_COUNT: dict[str, Callable[..., GroundMetric]] = {"ordinal": Ordinal, "discrete": Discrete}


_TO_TRAIN = "pass labels (--labels low,middle,high, or a file with one a line)"
_TO_JUDGE = "the labels of the run have no names: write their numbers into the file instead"


def read_inputs(
    settings: Settings, metric: GroundMetric | None = None, unordered: str = _TO_TRAIN
) -> Inputs:
    """Data and metric, as the settings say; `metric` stands in for the settings' own.

    `unordered` is what to say of labels whose order is not known.

    Raises:
        ValueError: a file cannot be read, or data and metric do not fit; one line says why.
    """
    if metric is None and settings.metric is not None and settings.metric not in _BY_COUNT:
        metric = _with_cost(load(settings.metric), settings)
    if settings.stream or Path(settings.data).is_dir():
        return _streamed(settings, metric)
    given = _read(settings, metric)
    if metric is None:
        metric = _metric(settings, given.metric, given.label_count, given.label_names)
    _check_order(settings, given, metric, unordered)
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
    )


def _read(settings: Settings, metric: GroundMetric | None) -> Dataset:
    if settings.data in BUILT_IN:
        return BUILT_IN[settings.data]()
    names = settings.labels
    if names is None and metric is not None and _suffix(settings) == ".csv":
        names = metric.labels  # a CSV file has none of its own, and may call labels 1, 2, 3
    return data_sets.read(settings.data, label_names=names, label_column=settings.label_column)


def _check_order(settings: Settings, data: Dataset, metric: GroundMetric, advice: str) -> None:
    """Refuse to match labels by number where a file only names them: by what order?"""
    if data.label_names is None or settings.labels is not None or isinstance(metric, Discrete):
        return
    said = metric.labels is not None and settings.metric != "ordinal"
    if said or not _names_found_in_rows(settings):
        return
    raise ValueError(
        f"the order of the labels is not known, because {settings.data} only names them: {advice}"
    )


def _names_found_in_rows(settings: Settings) -> bool:
    """Whether names come from the rows, in alphabetical order, rather than from a list."""
    if _suffix(settings) in (".parquet", ".pq"):
        return peek(settings.data, None).label_names is None
    return _suffix(settings) == ".csv"


def _suffix(settings: Settings) -> str:
    return Path(settings.data).suffix.lower()


def _streamed(settings: Settings, metric: GroundMetric | None) -> Inputs:
    if settings.standardize:
        raise ValueError("standardize needs data in memory: leave it out for a stream")
    first = peek(settings.data, settings.labels)
    parts = parts_of(settings.data)
    if settings.validation and "validation" not in parts:
        raise ValueError(
            "validation cannot be drawn from a stream: give the files a column 'part' with "
            "'train' and 'validation'"
        )
    names, count = first.label_names, first.label_count
    if metric is None:
        if settings.metric is not None and not count:
            raise ValueError(
                f"{settings.data} does not say how many labels there are: pass labels, or a "
                "metric file"
            )
        metric = _metric(settings, None, count, names)
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
    )


def _metric(
    settings: Settings, own: GroundMetric | None, count: int, names: tuple[str, ...] | None
) -> GroundMetric:
    """A metric that is not in a file: the data's own, or one that the number of labels makes."""
    if settings.metric is not None:
        return _with_cost(_BY_COUNT[settings.metric](count, labels=names), settings)
    if own is None:
        raise ValueError(
            f"{settings.data} comes without a ground metric: pass metric (--metric), a file of "
            "`wassloss metric build`, ordinal or discrete"
        )
    return _with_cost(own, settings)


def _with_cost(metric: GroundMetric, settings: Settings) -> GroundMetric:
    if settings.scale is not None:
        metric = metric.with_cost(scale=settings.scale)
    return metric if settings.power is None else metric.with_cost(power=settings.power)


def _named(metric: GroundMetric, names: tuple[str, ...] | None) -> GroundMetric:
    """The metric with the labels' names, where only the data had them."""
    if metric.labels is not None or names is None:
        return metric
    arrays = storage.to_arrays(metric)
    return storage.from_arrays({**arrays, "labels": np.array(names, dtype=np.str_)})


def is_same(source: str, other: str) -> bool:
    """Whether two names are of the same data."""
    return Path(source).resolve() == Path(other).resolve()


def inputs_for(
    settings: Settings,
    metric: GroundMetric,
    features: int,
    source: str | None = None,
    label_column: str | None = None,
) -> Inputs:
    """Data to judge a run by, their labels in the order of its metric.

    Args:
        settings: of the run.
        metric: of the run.
        features: that its model takes.
        source: other data than the run's own, as in the settings.
        label_column: of a table, where it is not that of the settings.
    """
    if source is None and settings.data not in BUILT_IN and not Path(settings.data).exists():
        raise FileNotFoundError(
            f"{settings.data}, which the run was trained on, is not there any more: say what to "
            "judge it on (DATA)"
        )
    own = source is None or is_same(source, settings.data)
    other = Settings(
        settings.data if source is None else source,
        labels=settings.labels,
        label_column=label_column or settings.label_column,
        seed=settings.seed,
        validation=settings.validation if own else 0.0,  # the very examples that were held out
        stream=settings.stream and own,
    )
    inputs = read_inputs(other, metric, _TO_JUDGE)
    if inputs.data is None:
        return inputs
    wide = padded_features(inputs.data.features, features, other.data)
    data = dataclasses.replace(inputs.data, features=wide)
    return dataclasses.replace(inputs, data=data, features=wide.shape[1])
