"""Fit a model to a table, and score it on the held-out rows."""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy import sparse

from wassloss.app._messages import warn
from wassloss.app.encoding import Encoder
from wassloss.app.evaluation import ExampleScores, evaluate
from wassloss.app.examples import PARTS, Examples, ReadOptions, read_examples
from wassloss.app.fingerprints import Fingerprints
from wassloss.app.labels import numbers
from wassloss.app.metrics import Metric, read_metric
from wassloss.app.model import TableModel
from wassloss.app.splitting import check_known, divided
from wassloss.app.tables import Table
from wassloss.estimators import WassersteinClassifier
from wassloss.ground import Discrete, GroundMetric


@dataclass(frozen=True)
class Fitted:
    """A model that was fitted to a table.

    Attributes:
        model: the model, fitted to the rows that were not held out.
        scores: its scores on the parts ``"validation"`` and ``"test"``, if there are any.
        seconds: the duration of the fit.
    """

    model: TableModel
    scores: dict[str, ExampleScores]
    seconds: float


class Task(NamedTuple):
    """Examples, with the arguments `metric` and `classes` of `WassersteinClassifier`."""

    examples: Examples
    metric: GroundMetric | str | None
    classes: NDArray[Any] | None


def fit_table(
    table: Table,
    metric: Metric | str = None,
    *,
    options: ReadOptions | None = None,
    params: Mapping[str, Any] | None = None,
    test: float = 0.0,
    seed: int = 0,
    device: str = "cpu",
) -> Fitted:
    """Fit `WassersteinClassifier(**params)` to a table.

    Args:
        table: from :func:`~wassloss.app.tables.read_table` or `Table.of`.
        metric: a ground metric, anything that :func:`~wassloss.app.metrics.read_metric` reads, or
            None for that of a built-in table.
        options: how to read the columns.
        params: parameters of the classifier, except metric, classes, device and random_state.
        test: the share of examples to hold out, if there is no part ``"test"``.
        seed: random seed for the split and the model.
        device: where to train.

    Raises:
        ValueError: an argument is out of range, or table and metric do not match.

    >>> import pandas as pd
    >>> frame = pd.DataFrame({"size": range(40), "fur": 20 * ["long", "short"]})
    >>> frame["label"] = frame["size"] // 20
    >>> fitted = fit_table(Table.of(frame.sample(frac=1, random_state=0)), "ordinal", test=0.25)
    >>> fitted.model.labels, fitted.scores["test"].count
    (('0', '1'), 10)
    """
    options = options or ReadOptions()
    if not 0 <= test < 1:
        raise ValueError(f"test must be at least 0 and less than 1, got {test}")
    if not 0 <= seed < 2**32:
        raise ValueError(f"seed must be in 0..2**32 - 1, as in scikit-learn, got {seed}")
    task = read_task(table, metric, options)
    params = dict(params or {})
    classifier = WassersteinClassifier(
        task.metric, classes=task.classes, random_state=seed, device=device, **params
    )
    examples = replace(task.examples, parts=divided(task.examples, test, seed))
    train = examples.parts.get("train", np.arange(len(examples)))
    if options.order is None and "test" in examples.parts:
        check_classes(task, train, examples.parts["test"])
    unused = [name for name in examples.parts if name not in PARTS]
    if unused and "train" in examples.parts:
        warn(
            f"unused parts: {', '.join(unused)}; the model is trained on train, and scored on test "
            "and validation"
        )
    began = time.monotonic()
    encoder = Encoder.fit(
        examples.table, train, strict=options.missing == "error", ignored=examples.ignored
    )
    own = examples.take(train)
    features = encoder.transform(own.table)
    classifier.fit(features, own.y)
    classifier.device = "cpu"
    classifier.model_.cpu()
    origin = {
        "made_by": "train",
        "data": str(Path(table.source).resolve()) if Path(table.source).exists() else table.source,
        "options": asdict(options),
        "label_column": examples.label_column,
        "test": test,
        "seed": seed,
        "metric": repr(task.metric),
        "settings": {name: _plain(value) for name, value in params.items()},
    }
    model = TableModel(classifier, encoder, Fingerprints.of(features), origin)
    seconds = time.monotonic() - began
    scores: dict[str, ExampleScores] = {
        part: evaluate(model, in_order_of(model, examples.take(examples.parts[part])))
        for part in ("validation", "test")
        if part in examples.parts
    }
    return Fitted(model, scores, seconds)


def read_task(table: Table, metric: Metric | str, options: ReadOptions) -> Task:
    """The examples of a table, with labels in the order of the metric if it names them.

    Raises:
        ValueError: the order of the labels is unknown, or there is no metric.
    """
    ground = table.metric if metric is None else read_metric(metric, options.order)
    if ground is None:
        raise ValueError(
            f"{table.source} has no ground metric of its own: pass metric (--metric), which is "
            "ordinal, discrete or a file"
        )
    fixed = None if isinstance(ground, str) else ground
    names = options.order if fixed is None or fixed.labels is None else fixed.labels
    examples = read_examples(table, replace(options, order=names))
    any_order = ground == "discrete" or isinstance(fixed, Discrete)
    if names is None and not any_order and numbers(examples.labels) is None:
        first = ",".join(examples.labels[:6])
        raise ValueError(
            f"the order of the labels is unknown, because {table.source} only names them: pass "
            f"order, such as --order {first}{',…' if len(examples.labels) > 6 else ''}"
        )
    by_id = fixed is not None and names is None  # labels are ids of a metric without names
    if by_id and examples.ids is None:
        every = tuple(str(i) for i in range(fixed.size))  # type: ignore[union-attr]
        examples = read_examples(table, replace(options, order=every))
    made = None if ground == "discrete" else ground
    return Task(examples, made, None if by_id else examples.classes)


def check_classes(task: Task, train: NDArray[np.int64], held: NDArray[np.int64]) -> None:
    """Refuse a class that only held-out rows have, if the metric is built from the classes."""
    examples = task.examples
    made = task.metric is None or isinstance(task.metric, str)
    if made and examples.ids is not None:
        check_known(examples.y[train], examples.y[held])


def in_order_of(model: TableModel, examples: Examples) -> Examples:
    """The same examples, with labels in the order of a model's metric."""
    if examples.labels == model.labels:
        return examples
    place = {name: i for i, name in enumerate(model.labels)}
    order = np.array([place[name] for name in examples.labels])
    if examples.ids is not None:
        return replace(examples, ids=order[examples.ids], labels=model.labels)
    own: Any = examples.weights
    entries = own.data, order[own.indices], own.indptr
    weights = sparse.csr_array(entries, shape=(len(examples), len(model.labels)))
    return replace(examples, weights=weights, labels=model.labels)


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else value
