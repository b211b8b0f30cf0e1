"""The ground metric of a run: in a file, with the data, or made by the labels."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from wassloss.data.labels import numbers
from wassloss.estimators.labels import metric_of_labels
from wassloss.ground import Discrete, GroundMetric, load, storage
from wassloss.runs.settings import Settings

MADE = {"ordinal": "ordinal", "discrete": None}  # metrics that the labels make by themselves


def metric_in_file(settings: Settings) -> GroundMetric | None:
    """The metric of the file that the settings name, if they do."""
    if settings.metric is None or settings.metric in MADE:
        return None
    metric = with_cost(load(settings.metric), settings)
    listed = settings.order
    return named(metric, listed) if listed and len(listed) == metric.size else metric


def made_metric(settings: Settings, names: Sequence[str]) -> GroundMetric:
    """The metric that the labels make: ``"ordinal"`` or ``"discrete"``."""
    kind = MADE[settings.metric or "discrete"]
    return with_cost(metric_of_labels(kind, numbers(names) or names, np.float32, names), settings)


def with_cost(metric: GroundMetric, settings: Settings) -> GroundMetric:
    """The metric with the power and the scale of the settings, if they have any."""
    if settings.scale is not None:
        metric = metric.with_cost(scale=settings.scale)
    return metric if settings.power is None else metric.with_cost(power=settings.power)


def named(metric: GroundMetric, names: Sequence[str] | None) -> GroundMetric:
    """The metric with the labels' names, if it has none of its own."""
    if metric.labels is not None or names is None:
        return metric
    arrays = storage.to_arrays(metric)
    return storage.from_arrays({**arrays, "labels": np.array(names, dtype=np.str_)})


def no_metric(settings: Settings) -> ValueError:
    """The error for data without a metric."""
    return ValueError(
        f"{settings.data} comes without a ground metric: pass metric (--metric), a file of "
        "`wassloss metric build`, ordinal or discrete"
    )


def check_order(
    settings: Settings, names: tuple[str, ...], metric: GroundMetric | None, listed: bool
) -> None:
    """Refuse to match names with a metric, made or yet to be made, by an order that data lack.

    Data have an order if their names are `listed`, not only used.
    """
    made = metric is None and settings.metric == "discrete"
    any_order = made or isinstance(metric, Discrete)
    by_name = metric is not None and metric.labels is not None
    if not (listed or any_order or by_name or numbers(names) is not None):
        raise ValueError(
            f"the order of the labels is not known, because {settings.data} only names them: pass "
            f"order, such as --order {','.join(names[:6])}{',…' if len(names) > 6 else ''}"
        )


def label_ids(count: int) -> tuple[str, ...]:
    """The names of labels that are class ids."""
    return tuple(str(i) for i in range(count))
