"""Parquet files that are streamed: what they say of themselves, and how a run reads them."""

from __future__ import annotations

from typing import NamedTuple

from wassloss.data._arrow import named_errors
from wassloss.data.labels import found_labels, numbers, places_in
from wassloss.data.layout import find_layout
from wassloss.data.parquet import expanded, label_values, open_file, part_names
from wassloss.ground import GroundMetric
from wassloss.runs.inputs import Inputs
from wassloss.runs.metric import MADE, check_order, label_ids, made_metric, named, no_metric
from wassloss.runs.settings import Settings


def read_streamed(
    settings: Settings, metric: GroundMetric | None, feature_names: tuple[str, ...] | None
) -> Inputs:
    """Data that are streamed, and their metric: that of a run, of a file, or made by the labels."""
    if settings.standardize:
        raise ValueError("standardize needs data in memory: leave it out for a stream")
    first = _peek(settings.data, settings.labels, settings.label_column, feature_names)
    parts = _parts_of(settings.data)
    if settings.validation and "validation" not in parts:
        raise ValueError(
            "validation cannot be drawn from a stream: give the files a column 'part' with "
            "'train' and 'validation'"
        )
    if metric is None and settings.metric not in MADE:
        raise no_metric(settings)
    names = first.label_names or _values(settings, first, metric)
    if names is not None:
        check_order(settings, names, metric, listed=first.label_names is not None)
    if metric is None:
        if names is None and not first.label_count:
            raise ValueError(
                f"{settings.data} does not say how many labels there are: pass labels, or a "
                "metric file"
            )
        metric = made_metric(settings, names or label_ids(first.label_count))
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
        named(metric, names),
        None,
        settings.data,
        parts,
        first.features,
        settings.batch_size,
        settings.seed,
        first.feature_names,
        settings.label_column,
    )


def _values(
    settings: Settings, first: _Peek, metric: GroundMetric | None
) -> tuple[str, ...] | None:
    """The labels that occur in a stream, if labels are values; None if they are ids."""
    if first.dense:
        return None
    by_value = metric is None or bool(metric.labels and numbers(metric.labels))
    if first.ids and not by_value:
        return None
    return _values_in(settings.data, settings.label_column)


class _Peek(NamedTuple):
    """What one file says."""

    features: int
    feature_names: tuple[str, ...] | None
    label_count: int  # 0 if it does not say
    label_names: tuple[str, ...] | None
    ids: bool  # whether whole numbers are ids of labels, rather than values
    dense: bool  # whether there is a weight for every label


def _peek(
    source: str,
    label_names: tuple[str, ...] | None,
    label_column: str | None = None,
    feature_names: tuple[str, ...] | None = None,
) -> _Peek:
    """Features and labels, from the first file and its first row."""
    path = expanded(source)[0]
    with named_errors(path):
        file = open_file(path)
        layout = find_layout(file.physical_schema, label_names, label_column, feature_names)
        width = len(layout.feature_names or ())
        if layout.feature_names is None:
            row = file.head(1, columns=["features"])
            if not row.num_rows:
                raise ValueError("it has no rows")
            width = len(row["features"][0])
    return _Peek(
        width,
        layout.feature_names,
        layout.label_count,
        layout.label_names,
        layout.ids,
        dense=layout.target_column == "weights",
    )


def _values_in(source: str, label_column: str | None = None) -> tuple[str, ...]:
    """The labels that occur in the files, in their order."""
    found: dict[str, None] = {}
    for path in expanded(source):
        found |= dict.fromkeys(label_values(path, label_column))
    return found_labels(list(found)).names


def _parts_of(source: str) -> tuple[str, ...]:
    """The names of the parts that the files have, in the order of their first rows."""
    return tuple(dict.fromkeys(name for path in expanded(source) for name in part_names(path)))
