"""The order of the examples: an endless sequence of shuffled epochs, cut into batches."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor

from wassloss._checks import check_count


class Sampler:
    """Which examples each step sees: every one once per epoch, in an order drawn from the seed.

    Batches are cut from consecutive epochs without a gap, so all have the same size. With several
    processes, each takes its part of a batch `world_size` times as large: together they see the
    examples that a single process with that batch size would.

    Args:
        size: number of examples.
        batch_size: examples per batch, in each process.
        seed: the order depends on it and on nothing else.
        rank, world_size: which process this is, out of how many.

    >>> sampler = Sampler(size=5, batch_size=2, seed=0)
    >>> torch.cat([sampler.next() for _ in range(5)]).view(2, 5).sort().values
    tensor([[0, 1, 2, 3, 4],
            [0, 1, 2, 3, 4]])
    """

    def __init__(
        self, size: int, batch_size: int, seed: int, rank: int = 0, world_size: int = 1
    ) -> None:
        self.size = check_count("size", size)
        self.batch_size = check_count("batch_size", batch_size)
        self.seed = seed
        self.rank = rank
        self.world_size = world_size
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
        rows = parts[0] if len(parts) == 1 else torch.cat(parts)
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
