"""Training data larger than memory: Parquet files in shuffled batches, shared among processes.

The row groups of all files are shuffled and regarded as one long list of rows. Each process takes
one stretch of it, cuts that into windows of whole batches, and shuffles rows within their window.
So it reads its own row groups only, and finds its place again from the seed and the numbers of the
epoch and the batch.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import accumulate
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wassloss._checks import check_count, check_seed
from wassloss.data._arrow import import_pyarrow, one_line
from wassloss.data._stream_files import (
    Batch,
    Piece,
    StreamFile,
    batch_bounds,
    open_stream_file,
    pieces,
)
from wassloss.data.parquet import check_alike, expanded
from wassloss.data.ragged import from_lists, to_lists
from wassloss.data.raw_table import RawTable
from wassloss.data.table import Wanted
from wassloss.targets import SparseTarget

__all__ = ["Batch", "ParquetStream"]


class ParquetStream:
    """Batches of (features, target) from Parquet files, read while the model trains.

    One iteration over the stream is one epoch. Every row is seen once by one of the processes, and
    all processes make the same number of batches; only the last two batches may be smaller than
    ``batch_size``. After leaving a loop early, the next iteration continues with the next batch.
    Memory holds ``buffer_rows`` rows (twice while they are assembled), a few batches and one row
    group.

    Args:
        paths: one or more files, as docs/data.md describes them; a folder stands for the
            ``.parquet`` files in it, in the order of their names.
        batch_size: the number of rows in a batch of this process.
        part: the part to read, such as ``"train"``; required if the files have parts.
        buffer_rows: rows that are shuffled together; more rows mix better and take more memory.
        shuffle: whether to shuffle; otherwise rows come in the order of the files.
        seed: the seed of the shuffle.
        rank, world_size: the number of this process, and of all processes.
        prefetch: batches to prepare ahead in a thread; 0 reads in the caller's thread.
        label_names, label_column, feature_names: as in ``wassloss.data.read``.
        label_count: needed if neither the files nor ``label_names`` say it; labels are then ids.
        raw: what becomes of columns, as `Dataset.raw` says; by default they must hold numbers.
        transform: changes features once they are read, such as the means and scales of a model.

    >>> import tempfile, wassloss as wl
    >>> data = wl.data.Dataset(torch.rand(10, 3), torch.arange(10))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     wl.data.write(data, f"{folder}/ten.parquet")
    ...     stream = ParquetStream(f"{folder}/ten.parquet", batch_size=4)
    ...     [len(features) for features, target in stream]
    [4, 4, 2]
    """

    def __init__(
        self,
        paths: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
        batch_size: int,
        *,
        part: str | None = None,
        buffer_rows: int = 16_384,
        shuffle: bool = True,
        seed: int = 0,
        rank: int = 0,
        world_size: int = 1,
        prefetch: int = 2,
        label_names: tuple[str, ...] | None = None,
        label_column: str = "label",
        label_count: int = 0,
        feature_names: tuple[str, ...] | None = None,
        raw: RawTable | None = None,
        transform: Callable[[Tensor], Tensor] | None = None,
    ) -> None:
        self.batch_size = check_count("batch_size", batch_size)
        self.buffer_rows = check_count("buffer_rows", buffer_rows)
        self.world_size = check_count("world_size", world_size)
        if not 0 <= rank < world_size:
            raise ValueError(f"rank must be in 0..{world_size - 1}, got {rank}")
        if prefetch < 0:
            raise ValueError(f"prefetch must be at least 0, got {prefetch}")
        self.rank, self.shuffle, self.seed = rank, shuffle, check_seed("seed", seed)
        self.prefetch, self.part, self.transform = prefetch, part, transform
        wanted = Wanted(label_names, label_column, feature_names, raw=raw)
        self._files: list[StreamFile] = []
        for path in expanded(paths):
            self._files.append(open_stream_file(path, part, wanted))
            first, last = self._files[0], self._files[-1]
            check_alike(first.path, first.layout, last.path, last.layout)
            # Other files may have the features in another order.
            layout = first.layout
            names = layout.feature_names if layout.lists else layout.feature_columns
            wanted = wanted._replace(feature_names=names)
        self.label_names = first.layout.label_names
        self.label_count = first.layout.label_count or label_count
        if self.label_count < 1:
            raise ValueError(
                f"{first.path} does not say how many labels there are: pass label_names or "
                "label_count"
            )
        self.rows = sum(sum(file.rows) for file in self._files)
        if self.rows == 0:
            raise ValueError(f"part must be one that the files have, got {part!r}")
        self._bounds = batch_bounds(self.rows, self.batch_size, rank, world_size)
        self._window = max(1, self.buffer_rows // self.batch_size)  # batches
        self._epoch = self._batch = 0
        self._cached: tuple[tuple[int, int], Batch] | None = None

    def __len__(self) -> int:
        """Batches in an epoch, the same on every process."""
        return len(self._bounds) - 1

    def __iter__(self) -> Iterator[Batch]:
        batches = self._batches(self._epoch, self._batch)
        for batch in _prefetched(batches, self.prefetch) if self.prefetch else batches:
            # Count the batch before it is handed over: a state taken in the loop's body must
            # continue with the next one.
            self._batch += 1
            if self._batch == len(self):
                self._epoch, self._batch = self._epoch + 1, 0
            yield batch

    def state_dict(self) -> dict[str, Any]:
        """The position of the stream, from which ``load_state_dict`` continues."""
        return {"epoch": self._epoch, "batch": self._batch, "order": self._order()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue where another stream of the same files and settings stood."""
        order = state["order"]
        for name, value in self._order().items():
            if order.get(name) != value:
                raise ValueError(
                    f"state must come from a stream with the same {name}: it had "
                    f"{order.get(name)!r}, this one has {value!r}"
                )
        epoch, batch = int(state["epoch"]), int(state["batch"])
        if epoch < 0 or not 0 <= batch < len(self):
            raise ValueError(f"state must hold a batch in 0..{len(self) - 1}, got {batch}")
        self._epoch, self._batch = epoch, batch

    def _order(self) -> dict[str, Any]:
        """Everything that the order of the rows depends on, as plain values for JSON."""
        return {
            "rows": [list(file.rows) for file in self._files],
            "part": self.part,
            "seed": self.seed,
            "shuffle": self.shuffle,
            "batch_size": self.batch_size,
            "window": self._window,
            "world_size": self.world_size,
        }

    def _batches(self, epoch: int, first: int) -> Iterator[Batch]:
        groups = [(f, g, n) for f, file in enumerate(self._files) for g, n in enumerate(file.rows)]
        if self.shuffle:
            groups = [groups[i] for i in self._generator(epoch).permutation(len(groups))]
        ends = list(accumulate(rows for *_, rows in groups))
        for window in range(first // self._window, -(-len(self) // self._window)):
            batches = range(window * self._window, min(len(self), (window + 1) * self._window))
            low, high = self._bounds[batches.start], self._bounds[batches.stop]
            features, target = self._read(pieces(groups, ends, low, high))
            order = torch.arange(high - low)
            if self.shuffle:
                generator = self._generator(epoch, self.rank, window)
                order = torch.from_numpy(generator.permutation(high - low))
            for batch in batches:
                if batch >= first:
                    rows = order[self._bounds[batch] - low : self._bounds[batch + 1] - low]
                    yield features[rows], target[rows]
            del features, target  # before the next window is read, not after

    def _generator(self, *key: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, *key])

    def _read(self, own: list[Piece]) -> Batch:
        """The rows of some pieces, in order."""
        features, targets = [], []
        for piece in own:
            all_features, all_targets = self._row_group(piece)
            rows = torch.arange(piece.start, piece.stop)
            features.append(all_features[rows])
            targets.append(all_targets[rows])
        lists = [to_lists(target) for target in targets if isinstance(target, SparseTarget)]
        if lists:  # of different widths
            return torch.cat(features), from_lists(*map(np.concatenate, zip(*lists, strict=True)))
        return torch.cat(features), torch.cat(targets)  # type: ignore[arg-type]

    def _row_group(self, piece: Piece) -> Batch:
        """All rows of the piece's row group, which the next piece may be part of too."""
        key = piece[:2]
        if self._cached is None or self._cached[0] != key:
            self._cached = None  # before the next one is read, not after
            file = self._files[piece.file]
            try:
                read = file.read(piece.group, self.label_count, self.transform)
                self._cached = (key, read)
            except MemoryError:  # pyarrow's error is one too, and the file is not to blame
                raise
            except (import_pyarrow().ArrowException, ValueError, TypeError, OSError) as error:
                raise ValueError(
                    f"{file.path}, row group {piece.group}: {one_line(error)}"
                ) from error
        return self._cached[1]


def _prefetched(batches: Iterator[Batch], ahead: int) -> Iterator[Batch]:
    """The same batches, up to ``ahead`` of them prepared in a thread."""
    pool = ThreadPoolExecutor(1, "wassloss-prefetch")
    pending: deque[Future[Batch | None]] = deque()
    try:
        while True:
            try:
                while len(pending) < ahead:
                    pending.append(pool.submit(next, batches, None))
            except RuntimeError:  # no more threads, as when the interpreter is shutting down
                ahead = 0
            batch = pending.popleft().result() if pending else next(batches, None)
            if batch is None:
                return
            yield batch
            del batch  # do not hold it while waiting for the next one
    finally:
        pool.shutdown(cancel_futures=True)
