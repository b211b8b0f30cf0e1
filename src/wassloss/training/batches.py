"""Examples in memory, and the order in which a run takes them."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from wassloss._checks import check_count
from wassloss.sets import SetTarget
from wassloss.targets import SparseTarget, TargetOrSets, padded
from wassloss.training.sparse_rows import SparseRows

Batch: TypeAlias = tuple[Any, ...]  # features, target, and further arguments of the loss
Data: TypeAlias = tuple[TargetOrSets, ...] | list[TargetOrSets]


class Examples:
    """Columns of equal length: features first, then the arguments of the loss.

    Sparse matrices become :class:`~wassloss.SparseTarget`, whose rows can be taken.

    >>> examples = Examples((torch.randn(5, 3), torch.tensor([0, 1, 2, 0, 1])))
    >>> features, target = examples.take(torch.tensor([4, 0]))
    >>> target
    tensor([1, 0])
    """

    def __init__(self, data: Data) -> None:
        if not isinstance(data, tuple | list):
            raise TypeError(
                f"data must be (features, target), in memory, got {type(data).__name__}; for a "
                "DataLoader, call the loss in a loop of your own"
            )
        if len(data) < 2:
            raise ValueError(f"data must be (features, target), got {len(data)} of them")
        self.columns = tuple(_read(column) for column in data)
        sizes = [len(column) for column in self.columns]
        if len(set(sizes)) > 1:
            raise ValueError(f"data must have as many features as targets, got {sizes}")
        if not sizes[0]:
            raise ValueError("data must hold examples, got none")
        features = self.columns[0]
        if isinstance(features, Tensor) and not features.isfinite().all():
            index = tuple((~features.isfinite()).nonzero()[0].tolist())
            place = f"row {index[0]}" + (f", column {index[1]}" if len(index) == 2 else "")
            got = features[index].item()
            raise ValueError(f"data must have finite features, got {got} in {place}")

    def __len__(self) -> int:
        return len(self.columns[0])

    def near(self, device: torch.device) -> Examples:
        """Move them to a device, or to the CPU if half of the device's free memory is too small."""
        size = sum(column.nbytes for column in self.columns)
        fits = device.type != "cuda" or size <= torch.cuda.mem_get_info(device)[0] // 2
        self.device = device if fits else torch.device("cpu")
        self.columns = tuple(column.to(self.device) for column in self.columns)
        return self

    def take(self, rows: Tensor) -> Batch:
        """Some of the examples, as a batch; sparse targets as wide as the fullest of them."""
        return tuple(_narrowed(column[rows]) for column in self.columns)


def _narrowed(column: Any) -> Any:
    """A sparse target without the places that no row uses; a GPU would have to be waited for."""
    if not isinstance(column, SparseTarget) or column.weights.dim() != 2:
        return column
    if not column.weights.is_cpu or column.weights[:, -1].any():
        return column
    used = column.weights.any(0).nonzero()
    return column[:, : int(used[-1]) + 1 if len(used) else 1]


def _read(column: TargetOrSets) -> TargetOrSets:
    """A column whose rows can be taken."""
    if isinstance(column, SparseTarget):
        indices, weights = column.indices.detach(), column.weights.detach()
        if indices.shape != weights.shape:
            raise ValueError(
                f"data must have as many indices as weights, got {tuple(indices.shape)} and "
                f"{tuple(weights.shape)}"
            )
        return SparseTarget(indices, weights)
    if isinstance(column, SparseRows | SetTarget):
        return column
    if not isinstance(column, Tensor):
        raise TypeError(
            f"data must hold tensors, or a SparseTarget, got {type(column).__name__}; make "
            "arrays tensors with torch.as_tensor"
        )
    if column.layout == torch.strided:
        return column.detach() if column.dim() else column.new_empty(0)
    coo = column.detach().to_sparse_coo().coalesce()
    rows, labels = coo.indices()
    return padded(rows, labels, coo.values(), len(column))


class Sampler:
    """Which of `size` examples each step sees: all once per epoch, in an order drawn from the seed.

    Batches are cut from consecutive epochs without a gap, so all have the same size, and a resumed
    run needs to know its step alone. Process `rank` of `world_size` takes its part of a batch
    `world_size` times as large: together they see the examples that a single process with that
    batch size would.

    >>> sampler = Sampler(size=5, batch_size=2, seed=0)
    >>> sampler.rows(step=0, batches=5).reshape(2, 5).sort().values
    tensor([[0, 1, 2, 3, 4],
            [0, 1, 2, 3, 4]])
    """

    def __init__(
        self, size: int, batch_size: int, seed: int, rank: int = 0, world_size: int = 1
    ) -> None:
        self.size, self.batch_size = size, check_count("batch_size", batch_size)
        self.seed, self.rank, self.world_size = seed, rank, world_size
        self._epoch, self._order = -1, torch.empty(0, dtype=torch.int64)

    def rows(self, step: int, batches: int = 1) -> Tensor:
        """The rows of the batches that follow `step` steps, `(batches, batch_size)`."""
        start, stop = (n * self.world_size * self.batch_size for n in (step, step + batches))
        parts = []
        while start < stop:
            epoch, first = divmod(start, self.size)
            parts.append(self._order_of(epoch)[first : first + stop - start])
            start += len(parts[-1])
        rows = torch.cat(parts)
        return rows.view(batches, self.world_size, self.batch_size)[:, self.rank]

    def _order_of(self, epoch: int) -> Tensor:
        if epoch != self._epoch:
            # Mixed, so that neighbouring seeds and epochs get unrelated orders.
            mixed = np.random.SeedSequence([self.seed, epoch]).generate_state(1, np.uint64)
            generator = torch.Generator().manual_seed(int(mixed[0]) >> 1)
            self._epoch, self._order = epoch, torch.randperm(self.size, generator=generator)
        return self._order
