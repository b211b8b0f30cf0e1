"""Steps of many models of any kind as a CUDA graph: one launch for all models and losses."""

from __future__ import annotations

from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

from experiments.lab.many.general import GeneralSteps, take
from wassloss.training.cuda_graph import capture

STEPS_AT_ONCE = 256  # whose examples are sent to the device together
LANES = 16  # losses that the device may compute at the same time, for each fills a part of it


class GeneralGraphSteps(GeneralSteps):
    """The same steps, replayed; losses must be ones that a graph can hold, as in `train`."""

    capturable = True
    _graph: torch.cuda.CUDAGraph | None = None
    _rows: Tensor  # (steps, models, batch), where the graph reads them
    _lr: Tensor  # (steps, models)
    _place: Tensor  # (1,): the next step's in both
    _lanes: list[torch.cuda.Stream]
    _first: Tensor  # (): the first of these steps, counted as `bad` does

    def advance(self, rows: Tensor, order_of: Tensor, lr: Tensor) -> None:
        device = self.losses.device
        order_of = order_of.to(device)
        graph = self._graph
        if graph is None or self._rows.shape[2] != rows.shape[2]:
            graph = self._graph = self._record(rows.shape[2])
        self.bad.fill_(-1)
        for first in range(0, rows.shape[1], STEPS_AT_ONCE):
            block = rows[:, first : first + STEPS_AT_ONCE].to(device)
            count = block.shape[1]
            self._rows[:count].copy_(block.index_select(0, order_of).transpose(0, 1))
            self._lr[:count].copy_(lr[first : first + count])
            self._place.zero_()
            self._first.fill_(first)
            for _ in range(count):
                graph.replay()

    def _beside_others(self, number: int) -> AbstractContextManager[Any]:
        # Autograd goes back through each loss on the stream it came by.
        lane = self._lanes[number % LANES]
        lane.wait_stream(torch.cuda.current_stream(lane.device))
        return torch.cuda.stream(lane)

    def _wait_for_all(self) -> None:
        for lane in self._lanes[: len(self.shares)]:
            torch.cuda.current_stream(lane.device).wait_stream(lane)

    def _record(self, batch: int) -> torch.cuda.CUDAGraph:
        """Record a step, leaving weights, optimisers and losses as they were."""
        device = self.losses.device
        shape = (STEPS_AT_ONCE, len(self.models), batch)
        self._rows = torch.zeros(shape, dtype=torch.int64, device=device)
        self._lr = self.losses.new_zeros(shape[:2])
        self._place = torch.zeros(1, dtype=torch.int64, device=device)
        self._first = torch.zeros((), dtype=torch.int64, device=device)
        self._lanes = [torch.cuda.Stream(device) for _ in range(LANES)]
        own = {"place": self._place, "bad": self.bad}
        return capture(self._take_step, lambda: self.tensors() | own, device)

    def _take_step(self) -> None:
        rows = self._rows.index_select(0, self._place).squeeze(0)
        features, *rest = (take(column, rows) for column in self.columns)
        loss = self._loss(self._run(features), rest)
        self._differentiate(loss)
        found = loss.detach()
        first = ~found.isfinite() & (self.bad < 0)
        self.bad.copy_(torch.where(first, self._first + self._place, self.bad))
        self.losses += found
        self._update_by(self._lr.index_select(0, self._place).squeeze(0))
        self._place += 1
