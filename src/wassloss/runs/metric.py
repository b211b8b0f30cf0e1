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


def metric_for(
    settings: Settings,
    metric: GroundMetric | None,
    names: Sequence[str],
    listed: bool,
    own: GroundMetric | None,
) -> GroundMetric:
    """The given metric, or else the data's own or the one that its labels make.

    Names are never matched with labels of a line by an order that the data lack: they have one if
    their names are `listed`, not only used.
    """
    if metric is None and settings.metric not in MADE:
        if own is None:
            raise ValueError(
                f"{settings.data} comes without a ground metric: pass metric (--metric), a file of "
                "`wassloss metric build`, ordinal or discrete"
            )
        metric = with_cost(own, settings)
    any_order = isinstance(metric, Discrete) or (metric is None and settings.metric == "discrete")
    by_name = metric is not None and metric.labels is not None
    if numbers(names) is None and not (listed or any_order or by_name):
        raise ValueError(
            f"the order of the labels is not known, because {settings.data} only names them: pass "
            f"order, such as --order {','.join(names[:6])}{',…' if len(names) > 6 else ''}"
        )
    if metric is not None:
        return metric
    made = metric_of_labels(
        MADE[settings.metric or "discrete"], numbers(names) or names, np.float32, names
    )
    return with_cost(made, settings)


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


def label_ids(count: int) -> tuple[str, ...]:
    """The names of labels that are class ids."""
    return tuple(str(i) for i in range(count))
