"""What a run learns from: data and ground metric, brought together."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from wassloss.data import Dataset
from wassloss.data._inputs import KNOWN_PARTS
from wassloss.data.labels import numbers
from wassloss.data.raw_table import RawTable
from wassloss.data.streaming import Batch
from wassloss.estimators.labels import Labels
from wassloss.estimators.model_file import rows_at_once
from wassloss.ground import GroundMetric
from wassloss.runs.settings import Settings
from wassloss.targets import SparseTarget, is_class_ids


@dataclass(frozen=True)
class Inputs:
    """Data and metric of a run, their labels in the same order.

    Attributes:
        metric: with the labels' names, if they are known.
        data: the examples.
        own: whether these are the data that a run was trained on, unchanged since.
    """

    metric: GroundMetric
    data: Dataset
    own: bool = False

    @property
    def features(self) -> int:
        """How many an example has."""
        return self.data.features.shape[1]

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the parts of the data."""
        return tuple(self.data.parts)

    @property
    def train_part(self) -> str | None:
        """The part to train on; None for all."""
        return "train" if "train" in self.parts else None

    def table(self, settings: Settings) -> RawTable:
        """What becomes of the columns of a table like this one, read as the settings say."""
        found = self.data.raw or RawTable.of_numbers(self.data.feature_names, self.features)
        group = [] if settings.group is None else [settings.group]
        ignored = (*settings.drop, *group)
        return replace(found, label_column=settings.label_column, ignored=ignored)

    def labels(self) -> Labels:
        """The label of each class, which is a number if all of them are."""
        every = labels_of(self.metric)
        order = np.arange(len(every))
        if is_class_ids(self.data.target):  # in sorted order, as in scikit-learn
            order = np.argsort(every, kind="stable")
        return Labels(self.metric, every[order], order)

    def classes(self) -> NDArray[Any]:
        """The class of each example."""
        target: Any = self.data.target
        if not is_class_ids(target):
            raise ValueError(
                "data must have one label per example to be compared: `wassloss train` takes "
                "several"
            )
        found: NDArray[Any] = labels_of(self.metric)[target]
        return found

    def held_out(self) -> str:
        """The part to judge a model by: ``"test"``, or else ``"validation"``."""
        for name in ("test", "validation"):
            if name in self.parts:
                return name
        others = f"name another ({', '.join(self.parts)}) with --part, " if self.parts else ""
        raise ValueError(
            f"the data have no part 'test' or 'validation' that was held out: {others}give other "
            "DATA, or hold some out with `wassloss train --test 0.2`"
        )

    def batches(self, part: str | None) -> Iterator[Batch]:
        """The examples of a part, or all of them, in order and in pieces."""
        features, target = self.examples(part)
        for rows in torch.arange(len(features)).split(rows_at_once(self.metric.size)):
            yield features[rows], target[rows]

    def examples(self, part: str | None) -> Batch:
        """The examples of a part, or all of them, as one batch."""
        chosen = self.data if part is None else self.data.part(part)
        return chosen.features, chosen.target

    def fingerprint(self) -> str:
        """What changes with the training examples."""
        features, target = self.examples(self.train_part)
        own = [target.indices, target.weights] if isinstance(target, SparseTarget) else [target]
        digest = hashlib.sha256()
        for column in (features, *own):
            digest.update(repr((tuple(column.shape), column.dtype)).encode())
            digest.update(np.ascontiguousarray(column.numpy()).tobytes())
        return digest.hexdigest()


def labels_of(metric: GroundMetric) -> NDArray[Any]:
    """The labels of a metric in its order: numbers if all of them are, ids without names."""
    if metric.labels is None:
        return np.arange(metric.size)
    values = numbers(metric.labels)
    distinct = values is not None and len(set(values)) == len(values)
    return np.array(values if distinct else metric.labels)


def check_trainable(parts: Iterable[str]) -> None:
    """Refuse parts that do not include one to train on."""
    found = list(parts)
    if found and "train" not in found:
        raise ValueError(
            f"data with parts must have a part named train, got {', '.join(found)}: rename one of "
            "them, or leave parts out to train on everything; if the column 'part' says something "
            "else, rename it"
        )


def warn_of_unused(parts: Iterable[str]) -> None:
    """Name the parts that a run neither trains on, nor watches, nor scores."""
    unused = [name for name in parts if name not in KNOWN_PARTS]
    if unused:
        subject, verb = ("part", "is") if len(unused) == 1 else ("parts", "are")
        warnings.warn(
            f"the {subject} {', '.join(unused)} {verb} not used: train is trained on, validation "
            "watched, test scored",
            stacklevel=3,
        )
