"""What a run learns from: data and ground metric, brought together."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from wassloss.data import Dataset, ParquetStream
from wassloss.data._inputs import KNOWN_PARTS
from wassloss.data.labels import numbers
from wassloss.data.raw_table import RawTable
from wassloss.data.streaming import Batch
from wassloss.estimators.model_file import rows_at_once
from wassloss.ground import GroundMetric
from wassloss.targets import SparseTarget, is_class_ids, take_rows


@dataclass(frozen=True)
class Inputs:
    """Data and metric of a run, their labels in the same order.

    Attributes:
        metric: with the labels' names, if they are known.
        data: in memory; None if they are streamed.
        stream: opens a stream of data that are not in memory, with the ``part`` and other
            arguments of `ParquetStream` that differ from the run's own.
        features: how many an example has.
        feature_names: their names, if the data have any.
        raw: what became of the columns of a table.
        streamed_parts: names of the parts of data that are streamed.
        own: whether these are the data that a run was trained on, unchanged since.
    """

    metric: GroundMetric
    data: Dataset | None
    stream: Callable[..., ParquetStream]
    features: int
    feature_names: tuple[str, ...] | None = None
    raw: RawTable | None = None
    streamed_parts: tuple[str, ...] = ()
    own: bool = False

    @property
    def parts(self) -> tuple[str, ...]:
        """Names of the parts of the data."""
        return self.streamed_parts if self.data is None else tuple(self.data.parts)

    @property
    def columns(self) -> RawTable:
        """What becomes of the columns of a table."""
        return self.raw or RawTable.of_numbers(self.feature_names, self.features)

    @property
    def train_part(self) -> str | None:
        """The part to train on; None for all."""
        return "train" if "train" in self.parts else None

    def in_file(self) -> Dataset:
        """The data in memory, for what a stream cannot do."""
        if self.data is None:
            raise ValueError("data must be a file that is not streamed")
        return self.data

    def classes(self) -> NDArray[Any]:
        """The label of each example, as a number if all labels are; for class ids in memory."""
        target: Any = self.in_file().target
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
        step = rows_at_once(self.metric.size)
        if self.data is None:
            yield from self.stream(part=part, batch_size=step, shuffle=False, prefetch=0)
            return
        features, target = self.in_memory(part)
        for rows in torch.arange(len(features)).split(step):
            yield features[rows], take_rows(target, rows)

    def in_memory(self, part: str | None) -> Batch:
        """A part as one batch, also if data are streamed, for scores while training."""
        if self.data is None:
            rows = self.stream(part=part).rows
            return next(iter(self.stream(part=part, batch_size=rows, shuffle=False, prefetch=0)))
        chosen = self.data if part is None else self.data.part(part)
        return chosen.features, chosen.target

    def fingerprint(self) -> str:
        """What changes with the training examples; for streams, see the stream's own state."""
        if self.data is None:
            return "streamed"
        features, target = self.in_memory(self.train_part)
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
    return np.array(numbers(metric.labels) or metric.labels)


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
