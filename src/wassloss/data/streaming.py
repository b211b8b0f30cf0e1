"""Training data larger than memory: Parquet files in shuffled batches, shared among processes.

The order of an epoch is a function of the seed and the epoch alone:

1. All row groups of all files are shuffled and thought of as one long list of rows.
2. Each process takes one stretch of that list, the same length give or take a row.
3. A stretch is cut into windows of whole batches, and rows are shuffled within their window.

So a process reads only its own row groups, holds one window and one row group, and finds its place
again from the number of the epoch and of the batch.
"""

from __future__ import annotations

import dataclasses
import os
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from wassloss._checks import check_count, check_seed
from wassloss.data._layout import import_pyarrow, one_line
from wassloss.data._prefetch import prefetched
from wassloss.data._sources import check_alike, expanded, open_source
from wassloss.data._windows import Piece, RowGroups, batch_ends, stretch
from wassloss.targets import SparseTarget, Target, read_target, take_rows

Batch = tuple[Tensor, Target]


class ParquetStream:
    """Batches of (features, target) from Parquet files, read while the model trains.

    Iterating once is one epoch. Every row is seen once by one of the processes, and all of them
    make the same number of batches; only the last two may be smaller than ``batch_size``. Leaving
    a loop early and iterating again goes on with the next batch.

    Memory holds a window of ``buffer_rows`` rows, twice while it is put together, a few batches and
    one row group, whatever the size of the files.

    Args:
        paths: one file or several, with the columns that :mod:`wassloss.data.parquet` describes;
            a folder stands for the ``.parquet`` files in it, in the order of their names.
        batch_size: rows in a batch of this process.
        part: the part to read, such as ``"train"``; must be given where the files have parts.
        buffer_rows: rows that are shuffled together; more mix better and take more memory.
        shuffle: whether to; otherwise the order of the files.
        seed: of the shuffle.
        rank, world_size: which of how many processes this is.
        drop_last: leave out the rows that do not fill a batch on every process.
        prefetch: batches to prepare ahead in a thread; 0 reads in the caller's.
        label_names, label_column, feature_names: as in ``wassloss.data.read``.
        label_count: where neither the files nor ``label_names`` say; labels are then ids.

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
        drop_last: bool = False,
        prefetch: int = 2,
        label_names: tuple[str, ...] | None = None,
        label_column: str = "label",
        label_count: int = 0,
        feature_names: tuple[str, ...] | None = None,
    ) -> None:
        self.batch_size = check_count("batch_size", batch_size)
        self.buffer_rows = check_count("buffer_rows", buffer_rows)
        self.world_size = check_count("world_size", world_size)
        if not 0 <= rank < world_size:
            raise ValueError(f"rank must be in 0..{world_size - 1}, got {rank}")
        if prefetch < 0:
            raise ValueError(f"prefetch must be at least 0, got {prefetch}")
        self.rank, self.shuffle, self.seed = rank, shuffle, check_seed("seed", seed)
        self.drop_last, self.prefetch = drop_last, prefetch
        self.part = part
        names = None if label_names is None else tuple(label_names)
        wanted = None if feature_names is None else tuple(feature_names)
        first, *others = expanded(paths)
        file, layout = open_source(first, names, label_column, part, wanted)
        self._files, self._layouts = [file], [layout]
        for path in others:  # whose columns may come in another order
            file, other = open_source(path, names, label_column, part, layout.feature_names)
            check_alike(layout, other, self._files[0].path, file.path)
            self._files.append(file)
            self._layouts.append(other)
        self._layout = layout
        self.label_names = self._layout.label_names
        self.label_count = self._layout.label_count or label_count
        if self.label_count < 1:
            raise ValueError(
                f"{self._files[0].path} does not say how many labels there are: pass label_names "
                "or label_count"
            )
        if self.label_names is None:
            self._layouts = [dataclasses.replace(each, ids=True) for each in self._layouts]
        self.rows = sum(sum(file.rows) for file in self._files)
        if self.rows == 0:
            raise ValueError(f"part must be one that the files have, got {part!r}")
        self._first, end = stretch(self.rows, self.batch_size, rank, world_size, drop_last)
        own = end - self._first
        most = own if drop_last else -(-self.rows // world_size)  # rows of any process
        self._ends = batch_ends(own, self.batch_size, -(-most // self.batch_size))
        self._window = max(1, self.buffer_rows // self.batch_size)  # batches
        self._epoch = self._batch = 0
        self._cached: tuple[Piece, Batch] | None = None

    def __len__(self) -> int:
        """Batches in an epoch, the same on every process."""
        return len(self._ends)

    def __iter__(self) -> Iterator[Batch]:
        batches = self._batches(self._epoch, self._batch)
        for batch in prefetched(batches, self.prefetch) if self.prefetch else batches:
            # Counted before it is handed over: a state taken in the loop's body is the next one's.
            self._batch += 1
            if self._batch == len(self):
                self._epoch, self._batch = self._epoch + 1, 0
            yield batch

    @property
    def epoch(self) -> int:
        """Epochs finished."""
        return self._epoch

    def state_dict(self) -> dict[str, Any]:
        """Where the stream stands: what ``load_state_dict`` needs to go on with the next batch."""
        return {"epoch": self._epoch, "batch": self._batch, "order": self._order()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Go on where another stream of the same files and settings stood."""
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
        """All that the order of the rows depends on; plain values, for JSON."""
        return {
            "rows": [list(file.rows) for file in self._files],
            "part": self.part,
            "seed": self.seed,
            "shuffle": self.shuffle,
            "batch_size": self.batch_size,
            "window": self._window,
            "world_size": self.world_size,
            "drop_last": self.drop_last,
        }

    def _batches(self, epoch: int, first: int) -> Iterator[Batch]:
        groups = [(f, g, n) for f, file in enumerate(self._files) for g, n in enumerate(file.rows)]
        if self.shuffle:
            order = self._generator(epoch).permutation(len(groups))
            groups = [groups[i] for i in order]
        in_order = RowGroups(groups)
        starts = [0, *self._ends]
        for window in range(first // self._window, -(-len(self) // self._window)):
            batches = range(window * self._window, min(len(self), (window + 1) * self._window))
            low, high = starts[batches.start], starts[batches.stop]
            pieces = in_order.pieces(self._first + low, self._first + high)
            features, target = self._read(pieces)
            rows = torch.arange(high - low)
            if self.shuffle:
                # The stretch is the rank's own, so its number keeps the ranks' orders apart.
                generator = self._generator(epoch, self.rank, window)
                rows = torch.from_numpy(generator.permutation(high - low))
            for batch in batches:
                if batch >= first:
                    own = rows[starts[batch] - low : starts[batch + 1] - low]
                    yield features[own], take_rows(target, own)
            del features, target  # before the next window is read, not after

    def _generator(self, *key: int) -> np.random.Generator:
        return np.random.default_rng([self.seed, *key])

    def _read(self, pieces: list[Piece]) -> Batch:
        """The rows of some pieces, in their order."""
        parts = []
        for piece in pieces:
            features, target = self._row_group(piece)
            own = torch.arange(piece.start, piece.stop)
            parts.append((features[own], take_rows(target, own)))
        features = torch.cat([features for features, _ in parts])
        return features, _joined([target for _, target in parts])

    def _row_group(self, piece: Piece) -> Batch:
        """All rows of the piece's row group, which its neighbour may ask for next."""
        key = Piece(piece.file, piece.group, 0, 0)
        if self._cached is None or self._cached[0] != key:
            self._cached = None  # before the next one is read, not after
            self._cached = (key, self._decoded(piece.file, piece.group))
        return self._cached[1]

    def _decoded(self, number: int, group: int) -> Batch:
        pa = import_pyarrow()
        file, layout = self._files[number], self._layouts[number]
        try:
            with pa.parquet.ParquetFile(file.path, metadata=file.metadata) as opened:
                table = opened.read_row_group(group, layout.columns, use_threads=False)
            if file.masks is not None:
                bits = np.unpackbits(file.masks[group], count=table.num_rows)
                table = table.filter(pa.array(bits.astype(bool)))
            features, target, _ = layout.decode(table)
            read_target(target, self.label_count, torch.Size([len(features)]), torch.empty(0))
        except MemoryError:  # which pyarrow's is, too; the file is not to blame
            raise
        except (pa.ArrowException, ValueError, TypeError, OSError) as error:
            raise ValueError(f"{file.path}, row group {group}: {one_line(error)}") from error
        return features, target


def _joined(targets: list[Target]) -> Target:
    sparse = [target for target in targets if isinstance(target, SparseTarget)]
    if not sparse:
        return torch.cat([target for target in targets if isinstance(target, Tensor)])
    width = max(target.indices.shape[1] for target in sparse)

    def padded(rows: Tensor) -> Tensor:
        return torch.nn.functional.pad(rows, (0, width - rows.shape[1]))

    return SparseTarget(
        torch.cat([padded(target.indices) for target in sparse]),
        torch.cat([padded(target.weights) for target in sparse]),
    )
