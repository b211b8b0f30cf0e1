"""The order in which each model sees the examples."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from experiments.lab.checks import check_seed


class Orders:
    """Shuffled epochs, one after the other, cut into batches.

    Models with the same seed share their order, which is drawn once.

    Attributes:
        order_of: index of each model's order, `(models,)`.
    """

    def __init__(self, size: int, batch_size: int, seeds: Sequence[int]) -> None:
        self.size, self.batch_size = size, batch_size
        unique = list(dict.fromkeys(check_seed("seeds", seed) for seed in seeds))
        self.order_of = torch.tensor([unique.index(int(seed)) for seed in seeds])
        self._seeds = unique
        self._epochs: list[tuple[int, Tensor]] = [(-1, torch.empty(0))] * len(unique)
        self._drawn = 0

    def __len__(self) -> int:
        return len(self._seeds)

    def next(self, batches: int) -> Tensor:
        """The rows of the next batches, `(orders, batches, batch_size)`."""
        start = self._drawn
        self._drawn += batches * self.batch_size
        rows = [self._rows(place, start, self._drawn) for place in range(len(self))]
        return torch.stack(rows).view(len(self), batches, self.batch_size)

    def _rows(self, place: int, start: int, stop: int) -> Tensor:
        parts = []
        while start < stop:
            epoch, first = divmod(start, self.size)
            parts.append(self._order(place, epoch)[first : first + stop - start])
            start += len(parts[-1])
        return torch.cat(parts)

    def _order(self, place: int, epoch: int) -> Tensor:
        kept, order = self._epochs[place]
        if kept != epoch:
            # Neighbouring seeds and epochs must give unrelated orders.
            mixed = np.random.SeedSequence([self._seeds[place], epoch])
            generator = torch.Generator()
            generator.manual_seed(int(mixed.generate_state(1, np.uint64)[0]) >> 1)
            order = torch.randperm(self.size, generator=generator)
            self._epochs[place] = epoch, order
        return order
