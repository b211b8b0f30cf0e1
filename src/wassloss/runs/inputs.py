"""What a run learns from: data and ground metric, brought together."""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch

from wassloss._precision import narrowed
from wassloss.data import Dataset, ParquetStream
from wassloss.data._parts import KNOWN_PARTS, part_name
from wassloss.data.streaming import Batch
from wassloss.estimators.model_file import rows_at_once
from wassloss.ground import GroundMetric
from wassloss.targets import SparseTarget


@dataclass(frozen=True)
class Inputs:
    """Data and metric of a run, their labels in the same order.

    Attributes:
        metric: with the labels' names, if they are known.
        data: in memory; None if they are streamed.
        stream_paths: the folder or file to stream from; None if data are in memory.
        parts: names of the parts of the data.
        features: how many an example has.
        feature_names: their names, if the data have any.
        label_column: of a table that is streamed.
        own: whether these are the data that a run was trained on, unchanged since.
    """

    metric: GroundMetric
    data: Dataset | None
    stream_paths: str | None
    parts: tuple[str, ...]
    features: int
    batch_size: int
    seed: int
    feature_names: tuple[str, ...] | None = None
    label_column: str | None = None
    own: bool = False

    def training(self, rank: int = 0, world_size: int = 1) -> Batch | SinglePrecision:
        """The examples to train on, as `wassloss.train` takes them."""
        part = "train" if "train" in self.parts else None
        if self.data is not None:
            chosen = self.data.part(part) if part else self.data
            return chosen.features, chosen.target
        return SinglePrecision(self._stream(part, rank=rank, world_size=world_size))

    def held_out(self) -> str:
        """The part to judge a model by: ``"test"``, or else ``"validation"``."""
        for name in ("test", "validation"):
            if name in self.parts:
                return name
        others = f"name another ({', '.join(self.parts)}) with --part, " if self.parts else ""
        raise ValueError(
            f"the data have no part 'test' or 'validation' that was held out: {others}give other "
            "DATA, or hold some out with `wassloss train --validation 0.2`"
        )

    def batches(self, part: str | None) -> Iterator[Batch]:
        """The examples of a part, or all of them, in order and in pieces."""
        part = None if part is None else part_name(part)
        if part is not None and part not in self.parts:
            known = ", ".join(self.parts) or "none"
            raise ValueError(f"part must be one of the data's parts ({known}), got {part!r}")
        if self.data is None:
            yield from SinglePrecision(self._stream(part, shuffle=False))
            return
        chosen = self.data.part(part) if part else self.data
        step = rows_at_once(self.metric.size)
        for start in range(0, len(chosen), step):
            rows = chosen.take(slice(start, start + step))
            yield rows.features, rows.target

    def in_memory(self, part: str) -> Batch:
        """A part as one batch, also if data are streamed, for scores while training."""
        if self.data is not None:
            chosen = self.data.part(part)
            return chosen.features, chosen.target
        stream = self._stream(part, shuffle=False)
        stream = self._stream(part, shuffle=False, batch_size=stream.rows)
        return next(iter(SinglePrecision(stream)))

    def fingerprint(self) -> str:
        """What changes with the training examples; for streams, see the stream's own state."""
        if self.data is None:
            return "streamed"
        chosen = self.data.part("train") if "train" in self.parts else self.data
        target = chosen.target
        columns = [chosen.features]
        columns += (
            [target.indices, target.weights] if isinstance(target, SparseTarget) else [target]
        )
        digest = hashlib.sha256()
        for column in columns:
            digest.update(repr((tuple(column.shape), column.dtype)).encode())
            digest.update(np.ascontiguousarray(column.numpy()).tobytes())
        return digest.hexdigest()

    def _stream(
        self,
        part: str | None,
        shuffle: bool = True,
        batch_size: int | None = None,
        rank: int = 0,
        world_size: int = 1,
    ) -> ParquetStream:
        return ParquetStream(
            self.stream_paths or "",
            batch_size or (self.batch_size if shuffle else rows_at_once(self.metric.size)),
            part=part,
            shuffle=shuffle,
            seed=self.seed,
            rank=rank,
            world_size=world_size,
            label_names=self.metric.labels,
            label_count=self.metric.size,
            label_column=self.label_column or "label",
            feature_names=self.feature_names,
            prefetch=2 if shuffle else 0,
        )


class SinglePrecision:
    """A stream whose features come in the precision of the models, whatever that of the files."""

    def __init__(self, stream: ParquetStream) -> None:
        self.stream = stream

    def __iter__(self) -> Iterator[Batch]:
        for features, target in self.stream:
            yield narrowed("features", features, torch.float32, shuffled=True), target

    def state_dict(self) -> dict[str, Any]:
        return self.stream.state_dict()

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.stream.load_state_dict(state)


def check_trainable(parts: Iterable[str]) -> None:
    """Refuse parts that do not include one to train on."""
    found = list(parts)
    if found and "train" not in found:
        raise ValueError(
            f"data with parts must have a part named train, got {', '.join(found)}: rename one of "
            "them, or leave parts out to train on everything"
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
