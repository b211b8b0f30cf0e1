"""Where batches come from: examples in memory, or a stream.

A stream is an iterable of batches `(features, target, …)`; one pass over it is an epoch. To be
resumed, it needs the two methods of torchdata's loaders: `state_dict()`, a dictionary that JSON can
hold and that says which batches it has handed out, and `load_state_dict(state)`, after which the
next iteration begins with the batch that follows. With several processes, a stream hands out the
batches of its own process.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any, TypeAlias

import numpy as np
import torch
from torch import Tensor

from wassloss._checks import check_count
from wassloss.training.examples import Batch, Data, Examples, to_device


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
