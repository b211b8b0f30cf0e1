"""Where batches come from: examples in memory, or any iterable of batches."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import numpy as np
import torch
from torch import Tensor

from wassloss._checks import check_count
from wassloss.targets import SparseTarget, Target, padded
from wassloss.training.plan import TrainingPlan
from wassloss.training.sparse_rows import SparseRows

if TYPE_CHECKING:
    from lightning_fabric import Fabric

Batch: TypeAlias = tuple[Any, ...]  # features, target, and further arguments of the loss
Data: TypeAlias = tuple[Target, ...] | list[Target] | Iterable[Batch]


def _is_in_memory(data: Data) -> TypeGuard[tuple[Target, ...]]:
    """Whether data are columns of examples rather than an iterable of batches."""
    return isinstance(data, tuple | list) and any(
        isinstance(column, Tensor | SparseTarget) for column in data
    )


class Examples:
    """Columns of equal length: features first, then the arguments of the loss.

    Sparse matrices become :class:`~wassloss.SparseTarget`, whose rows can be taken.

    >>> examples = Examples((torch.randn(5, 3), torch.tensor([0, 1, 2, 0, 1])))
    >>> features, target = examples.take(torch.tensor([4, 0]))
    >>> target
    tensor([1, 0])
    """

    def __init__(self, data: Data) -> None:
        if not _is_in_memory(data):
            raise TypeError(f"data must be (features, target), got {type(data).__name__}")
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

    def to(self, device: torch.device) -> Examples:
        """Move them to a device."""
        self.columns = tuple(column.to(device) for column in self.columns)
        return self

    def take(self, rows: Tensor | slice) -> Batch:
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


def _read(column: Target) -> Target:
    """A column whose rows can be taken."""
    if isinstance(column, SparseTarget):
        indices, weights = column.indices.detach(), column.weights.detach()
        if indices.shape != weights.shape:
            raise ValueError(
                f"data must have as many indices as weights, got {tuple(indices.shape)} and "
                f"{tuple(weights.shape)}"
            )
        return SparseTarget(indices, weights)
    if isinstance(column, SparseRows):
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


class MemoryBatches:
    """Batches of examples in memory: that of the device, if half of what is free holds them."""

    def __init__(self, examples: Examples, plan: TrainingPlan, fabric: Fabric) -> None:
        self.device = fabric.device
        size = sum(column.nbytes for column in examples.columns)
        fits = self.device.type != "cuda" or size <= torch.cuda.mem_get_info(self.device)[0] // 2
        self.home = self.device if fits else torch.device("cpu")
        self.examples, self.size = examples.to(self.home), len(examples)
        rank, world_size = fabric.global_rank, fabric.world_size
        self.sampler = Sampler(self.size, plan.batch_size, plan.seed, rank, world_size)

    def at(self, step: int) -> Batch:
        """The batch that follows `step` steps."""
        batch = self.examples.take(self.sampler.rows(step)[0].to(self.home))
        return tuple(column.to(self.device) for column in batch)


class IterableBatches:
    """Batches of an iterable, each `(features, target, …)`; it is iterated again when it ends.

    With several processes, it hands out the batches of its own process.
    """

    def __init__(self, given: Data, device: torch.device) -> None:
        if not isinstance(given, Iterable):
            raise TypeError(
                "data must be (features, target), or an iterable of such batches, got "
                f"{type(given).__name__}"
            )
        self.given, self.device, self.size = given, device, None
        self._batches = self._endless()

    def at(self, step: int) -> Batch:
        """The next batch, whatever the step."""
        return next(self._batches)

    def _endless(self) -> Iterator[Batch]:
        while True:
            empty = True
            for batch in self.given:
                empty = False
                if not isinstance(batch, tuple | list) or len(batch) < 2:
                    kind = type(batch).__name__
                    raise TypeError(f"data must yield (features, target), got {kind}")
                yield tuple(x.to(self.device) if hasattr(x, "to") else x for x in batch)
            if empty:
                raise ValueError(
                    "data must be iterable again and again, got no batch from it; a generator "
                    "can be iterated only once, a class with __iter__ any number of times"
                )


Batches: TypeAlias = MemoryBatches | IterableBatches


def batches_of(data: Data, plan: TrainingPlan, fabric: Fabric) -> Batches:
    """The batches of this process."""
    if _is_in_memory(data):
        return MemoryBatches(Examples(data), plan, fabric)
    return IterableBatches(data, fabric.device)
