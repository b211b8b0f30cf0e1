"""What a run learns from: data and ground metric, found from the settings and brought together."""

from __future__ import annotations

import dataclasses
import hashlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from wassloss import data as data_sets
from wassloss._files import read_npz, write_npz
from wassloss.data import Dataset, ParquetStream
from wassloss.data.streaming import Batch
from wassloss.ground import Discrete, GroundMetric, Ordinal, load, storage
from wassloss.runs.settings import Settings
from wassloss.runs.streams import SinglePrecision, parts_of, peek
from wassloss.targets import SparseTarget

_BY_COUNT: dict[str, Callable[..., GroundMetric]] = {"ordinal": Ordinal, "discrete": Discrete}
BUILT_IN: dict[str, Callable[[], Dataset]] = {"clipart": data_sets.clipart}
ROWS_AT_ONCE = 4096  # of held-out examples that go through a model together, at most
_ENTRIES_AT_ONCE = 2**24  # of (examples, labels)


@dataclass(frozen=True)
class Standardization:
    """What features are shifted and divided by."""

    mean: Tensor
    scale: Tensor

    @classmethod
    def of(cls, features: Tensor) -> Standardization:
        """Mean and standard deviation of each feature; one that never changes is only shifted."""
        wide = features.double()
        scale = wide.std(0, correction=0)
        return cls(wide.mean(0).to(features), torch.where(scale > 0, scale, 1.0).to(features))

    def __call__(self, features: Tensor) -> Tensor:
        return (features - self.mean) / self.scale

    def save(self, path: Path) -> None:
        write_npz(path, {"mean": self.mean.numpy(), "scale": self.scale.numpy()})

    @classmethod
    def load(cls, path: Path) -> Standardization:
        arrays = read_npz(path)
        if {"mean", "scale"} - arrays.keys():
            raise ValueError(f"{path} must hold mean and scale, got {sorted(arrays)}")
        return cls(torch.from_numpy(arrays["mean"]), torch.from_numpy(arrays["scale"]))


@dataclass(frozen=True)
class Inputs:
    """Data and metric of a run, their labels in the same order.

    Attributes:
        metric: with the labels' names, where they are known.
        data: in memory; None where they are streamed.
        stream_paths: the folder or file to stream from; None where data are in memory.
        parts: what the data can be asked for.
        features: how many an example has.
    """

    metric: GroundMetric
    data: Dataset | None
    stream_paths: str | None
    parts: tuple[str, ...]
    features: int
    batch_size: int
    seed: int

    def training(self, rank: int = 0, world_size: int = 1) -> Batch | SinglePrecision:
        """The examples to train on, as :func:`wassloss.train` takes them."""
        part = "train" if "train" in self.parts else None
        if self.data is not None:
            chosen = self.data.part(part) if part else self.data
            return chosen.features, chosen.target
        return SinglePrecision(self._stream(part, rank=rank, world_size=world_size))

    def held_out(self) -> str:
        """The part that tells most about a model: ``"test"``, or else ``"validation"``."""
        for name in ("test", "validation"):
            if name in self.parts:
                return name
        raise ValueError(
            "the data have no part 'test' or 'validation' that was held out: give other data "
            "(--data), or train with --validation 0.2"
        )

    def batches(self, part: str | None) -> Iterator[Batch]:
        """The examples of a part, or all of them, in order and in pieces."""
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
        """A part as one batch, also where data are streamed: for scores while training."""
        if self.data is not None:
            chosen = self.data.part(part)
            return chosen.features, chosen.target
        stream = self._stream(part, shuffle=False)
        stream = self._stream(part, shuffle=False, batch_size=stream.rows)
        return next(iter(SinglePrecision(stream)))

    def fingerprint(self) -> str:
        """What changes with the training examples; for streams, the stream's own state tells."""
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
            prefetch=2 if shuffle else 0,
        )


def rows_at_once(labels: int) -> int:
    """How many examples to predict for together, in bounded memory whatever the labels."""
    return max(1, min(ROWS_AT_ONCE, _ENTRIES_AT_ONCE // labels))


def read_inputs(settings: Settings, metric: GroundMetric | None = None) -> Inputs:
    """Data and metric, as the settings say; `metric` stands in for the settings' own.

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
    _check_order(settings, given, metric)
    given = dataclasses.replace(given, features=given.features.float(), metric=None)
    given = given.with_metric(metric)
    if settings.validation and "validation" not in given.parts:
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


def _check_order(settings: Settings, data: Dataset, metric: GroundMetric) -> None:
    """Refuse to match labels by number where a file only names them: by what order?"""
    if data.label_names is None or settings.labels is not None or isinstance(metric, Discrete):
        return
    said = metric.labels is not None and settings.metric != "ordinal"
    if said or not _names_found_in_rows(settings):
        return
    raise ValueError(
        f"the order of the labels is not known, for {settings.data} only names them: pass labels "
        "(--labels low,middle,high, or a file with one a line)"
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


def padded_features(features: Tensor, width: int, source: str) -> Tensor:
    """As wide as a model takes them: an SVMlight file does not say how many features there are."""
    missing = width - features.shape[1]
    if missing > 0 and Path(source).suffix.lower() in (".svm", ".svmlight", ".libsvm"):
        return torch.nn.functional.pad(features, (0, missing))
    return features


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
            "judge it on (evaluate RUN DATA, report --data DATA)"
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
    inputs = read_inputs(other, metric)
    if inputs.data is None:
        return inputs
    wide = padded_features(inputs.data.features, features, other.data)
    data = dataclasses.replace(inputs.data, features=wide)
    return dataclasses.replace(inputs, data=data, features=wide.shape[1])
