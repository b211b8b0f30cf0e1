"""The ground metric of a run: in a file, with the data, or made from the labels."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from wassloss.data.labels import numbers
from wassloss.ground import Discrete, GroundMetric, Ordinal, load, storage
from wassloss.runs.settings import Settings

MADE = ("ordinal", "discrete")  # which the labels alone make


def metric_in_file(settings: Settings) -> GroundMetric | None:
    """The metric of the file that the settings name, if they do."""
    if settings.metric is None or settings.metric in MADE:
        return None
    metric = with_cost(load(settings.metric), settings)
    listed = settings.labels
    return named(metric, listed) if listed and len(listed) == metric.size else metric


def made_metric(settings: Settings, names: Sequence[str]) -> GroundMetric:
    """``"ordinal"``: labels that are numbers at their values, others one apart; ``"discrete"``."""
    if settings.metric == "discrete":
        return with_cost(Discrete(len(names), labels=names), settings)
    values = numbers(names)
    positions = len(names) if values is None else _positions(values, names)
    return with_cost(Ordinal(positions, labels=names), settings)


def with_cost(metric: GroundMetric, settings: Settings) -> GroundMetric:
    """The metric with the power and the scale of the settings, where they say."""
    if settings.scale is not None:
        metric = metric.with_cost(scale=settings.scale)
    return metric if settings.power is None else metric.with_cost(power=settings.power)


def named(metric: GroundMetric, names: Sequence[str] | None) -> GroundMetric:
    """The metric with the labels' names, where it has none of its own."""
    if metric.labels is not None or names is None:
        return metric
    arrays = storage.to_arrays(metric)
    return storage.from_arrays({**arrays, "labels": np.array(names, dtype=np.str_)})


def _positions(values: list[int | float], names: Sequence[str]) -> list[float]:
    """Places on a line that single precision can tell apart.

    Numbers that are large next to their differences, such as times in seconds, are counted from
    the smallest: only differences matter, and those stay exact.
    """
    low, high = min(values), max(values)
    exact = all(float(np.float32(value)) == value for value in values)
    far = max(abs(low), abs(high)) > 2 * (high - low)
    places = [float(value - low if far and not exact else value) for value in values]
    order = sorted(range(len(places)), key=places.__getitem__)
    for one, other in pairwise(order):
        if np.float32(places[one]) == np.float32(places[other]):
            raise ValueError(
                f"the labels {names[one]!r} and {names[other]!r} are too close to each other for "
                f"labels up to {high} to be numbers on a line: pass a metric file"
            )
    return places
