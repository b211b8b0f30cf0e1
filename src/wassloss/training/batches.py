"""Where batches come from: examples in memory, or a stream.

A stream is an iterable of batches `(features, target, …)`; one pass over it is an epoch. To be
resumed, it needs the two methods of torchdata's loaders: `state_dict()`, which says in JSON which
batches it has handed out, and `load_state_dict(state)`, after which the next iteration begins with
the batch that follows. With several processes, it hands out the batches of its own process.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

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


def is_in_memory(data: Data) -> bool:
    """Whether data are columns of examples rather than a stream of batches."""
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

    def __init__(self, data: Data, name: str = "data") -> None:
        if not isinstance(data, tuple | list) or not is_in_memory(data):
            raise TypeError(f"{name} must be (features, target), got {type(data).__name__}")
        if len(data) < 2:
            raise ValueError(f"{name} must be (features, target), got {len(data)} of them")
        self.columns = tuple(_read(name, column) for column in data)
        sizes = [len(rows) if rows.dim() else 0 for rows, *_ in map(_tensors, self.columns)]
        if len(set(sizes)) > 1:
            raise ValueError(f"{name} must have as many features as targets, got {sizes}")
        if not sizes[0]:
            raise ValueError(f"{name} must hold examples, got none")
        self._size, features = sizes[0], self.columns[0]
        if isinstance(features, Tensor) and not features.isfinite().all():
            index = tuple((~features.isfinite()).nonzero()[0].tolist())
            place = f"row {index[0]}" + (f", column {index[1]}" if len(index) == 2 else "")
            got = features[index].item()
            raise ValueError(f"{name} must have finite features, got {got} in {place}")

    def __len__(self) -> int:
        return self._size

    @property
    def nbytes(self) -> int:
        """Their size in memory."""
        return sum(tensor.nbytes for column in self.columns for tensor in _tensors(column))

    def to(self, device: torch.device) -> Examples:
        """Move them to a device."""
        self.columns = tuple(to_device(column, device) for column in self.columns)
        return self

    def take(self, rows: Tensor | slice) -> Batch:
        """Some of the examples, as a batch; sparse targets as wide as the fullest of them."""
        taken = [_changed(column, lambda tensor: tensor[rows]) for column in self.columns]
        return tuple(_narrowed(column) for column in taken)


def to_device(column: Any, device: torch.device) -> Any:
    """A tensor or a sparse target on a device; anything else as it is."""
    return _changed(column, lambda tensor: tensor.to(device))


def _narrowed(column: Any) -> Any:
    """A sparse target without the places that no row uses; a GPU would have to be waited for."""
    if not isinstance(column, SparseTarget) or column.weights.dim() != 2:
        return column
    if not column.weights.is_cpu or column.weights[:, -1].any():
        return column
    used = column.weights.any(0).nonzero()
    width = int(used[-1]) + 1 if len(used) else 1
    return _changed(column, lambda tensor: tensor[:, :width])


def _changed(column: Any, change: Callable[[Any], Any]) -> Any:
    if isinstance(column, SparseTarget):
        return SparseTarget(change(column.indices), change(column.weights))
    return change(column) if isinstance(column, Tensor | SparseRows) else column


def _tensors(column: Target) -> tuple[Tensor, ...]:
    return (column.indices, column.weights) if isinstance(column, SparseTarget) else (column,)


def _read(name: str, column: Target) -> Target:
    """A column whose rows can be taken."""
    if isinstance(column, SparseTarget):
        if column.indices.shape != column.weights.shape:
            raise ValueError(
                f"{name} must have as many indices as weights, got "
                f"{tuple(column.indices.shape)} and {tuple(column.weights.shape)}"
            )
    elif isinstance(column, SparseRows):
        return column
    elif not isinstance(column, Tensor):
        raise TypeError(
            f"{name} must hold tensors, or a SparseTarget, got {type(column).__name__}; make "
            "arrays tensors with torch.as_tensor"
        )
    elif column.layout != torch.strided:
        coo = column.detach().to_sparse_coo().coalesce()
        rows, columns = coo.indices()
        return padded(rows, columns, coo.values(), len(column))
    detached: Target = _changed(column, Tensor.detach)
    return detached


class Sampler:
    """Which of `size` examples each step sees: all once per epoch, in an order drawn from the seed.

    Batches are cut from consecutive epochs without a gap, so all have the same size. Process `rank`
    of `world_size` takes its part of a batch `world_size` times as large: together they see the
    examples that a single process with that batch size would.

    >>> sampler = Sampler(size=5, batch_size=2, seed=0)
    >>> torch.cat([sampler.next() for _ in range(5)]).view(2, 5).sort().values
    tensor([[0, 1, 2, 3, 4],
            [0, 1, 2, 3, 4]])
    """

    def __init__(
        self, size: int, batch_size: int, seed: int, rank: int = 0, world_size: int = 1
    ) -> None:
        self.size, self.batch_size = (
            check_count("size", size),
            check_count("batch_size", batch_size),
        )
        self.seed, self.rank, self.world_size = seed, rank, world_size
        self._drawn = 0  # by all processes together, over all epochs
        self._epoch, self._order = -1, torch.empty(0, dtype=torch.int64)

    def next(self) -> Tensor:
        """The rows of the next batch, `(batch_size,)`."""
        return self.next_few(1)[0]

    def next_few(self, batches: int) -> Tensor:
        """The rows of the next batches, `(batches, batch_size)`."""
        start = self._drawn
        self._drawn += batches * self.world_size * self.batch_size
        parts = []
        while start < self._drawn:
            epoch, first = divmod(start, self.size)
            parts.append(self._order_of(epoch)[first : first + self._drawn - start])
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

    def state_dict(self) -> dict[str, Any]:
        return {"drawn": self._drawn, "size": self.size, "seed": self.seed}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        if state["size"] != self.size or state["seed"] != self.seed:
            raise ValueError(
                f"data must be the run's own {state['size']} examples, drawn with seed "
                f"{state['seed']}, to resume it, got {self.size} with seed {self.seed}"
            )
        self._drawn = state["drawn"]


class MemoryBatches:
    """Batches of examples in memory: that of the device, if half of what is free holds them."""

    def __init__(self, examples: Examples, sampler: Sampler, device: torch.device) -> None:
        cuda = device.type == "cuda"
        fits = not cuda or examples.nbytes <= torch.cuda.mem_get_info(device)[0] // 2
        self.home = device if fits else torch.device("cpu")
        self.examples = examples.to(self.home)
        self.sampler = sampler
        self.device = device
        self.state_dict, self.load_state_dict = sampler.state_dict, sampler.load_state_dict

    def next(self) -> Batch:
        batch = self.examples.take(self.sampler.next().to(self.home))
        return tuple(to_device(column, self.device) for column in batch)


class StreamBatches:
    """Batches of a stream, which is iterated again when it ends."""

    def __init__(self, stream: Data, device: torch.device) -> None:
        if not isinstance(stream, Iterable):
            raise TypeError(
                "data must be (features, target), or an iterable of such batches, got "
                f"{type(stream).__name__}"
            )
        self.stream: Any = stream
        self.device = device
        self._batches = self._endless()

    def next(self) -> Batch:
        batch = next(self._batches)
        if not isinstance(batch, tuple | list) or len(batch) < 2:
            raise TypeError(f"data must yield (features, target), got {type(batch).__name__}")
        return tuple(to_device(column, self.device) for column in batch)

    def _endless(self) -> Iterator[Batch]:
        was_empty = False  # allowed once: a resumed stream may stand at the end of an epoch
        while True:
            empty = True
            for batch in self.stream:
                empty = False
                yield batch
            if empty and was_empty:
                raise ValueError(
                    "data must be iterable again and again, got no batch from it; a generator "
                    "can be iterated only once, a class with __iter__ any number of times"
                )
            was_empty = empty

    def state_dict(self) -> dict[str, Any]:
        """Where the stream stands; a run with checkpoints asks before its first step."""
        if not hasattr(self.stream, "state_dict") or not hasattr(self.stream, "load_state_dict"):
            raise TypeError(
                "data must have state_dict and load_state_dict for a run with checkpoints, got "
                f"{type(self.stream).__name__}; or leave out directory"
            )
        try:
            return dict(json.loads(json.dumps(self.stream.state_dict())))
        except (TypeError, ValueError) as error:
            raise TypeError(f"data.state_dict() must be what JSON can hold: {error}") from error

    def load_state_dict(self, state: dict[str, Any]) -> None:
        self.stream.load_state_dict(state)
        self._batches = self._endless()


Batches: TypeAlias = MemoryBatches | StreamBatches


def batches_of(data: Data, plan: TrainingPlan, fabric: Fabric) -> Batches:
    """The batches of this process."""
    if not is_in_memory(data):
        return StreamBatches(data, fabric.device)
    examples, rank, size = Examples(data), fabric.global_rank, fabric.world_size
    sampler = Sampler(len(examples), plan.batch_size, plan.seed, rank, size)
    return MemoryBatches(examples, sampler, fabric.device)
