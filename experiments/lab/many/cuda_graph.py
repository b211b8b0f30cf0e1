"""Closed-form steps as a CUDA graph: a block of them is one launch."""

from __future__ import annotations

import torch
from torch import Tensor

from experiments.lab.many.closed_form import LinearSteps
from wassloss.training.cuda_graph import capture

STEPS_AT_ONCE = 20  # in a graph; the default plan's 100 between lines of the log are five of them


class GraphSteps(LinearSteps):
    """The same steps, replayed on a GPU; what is left over of a block is taken one by one."""

    _graph: torch.cuda.CUDAGraph | None = None
    _rows: Tensor  # (steps, models, batch), where the graph reads them
    _lr: Tensor  # (steps, models)
    _first: Tensor  # of the steps, counted as `bad` does

    def advance(self, rows: Tensor, order_of: Tensor, lr: Tensor) -> None:
        device = self.theta.device
        rows, order_of = rows.to(device), order_of.to(device)
        lr = lr.to(device, self.theta.dtype)
        batch = rows.shape[2]
        if self._graph is None or self._rows.shape[2] != batch:
            self._record(batch)
        self.bad.fill_(-1)
        steps, t = rows.shape[1], 0
        while self._graph is not None and t + STEPS_AT_ONCE <= steps:
            block = rows[:, t : t + STEPS_AT_ONCE].index_select(0, order_of)
            self._rows.copy_(block.transpose(0, 1))
            self._lr.copy_(lr[t : t + STEPS_AT_ONCE])
            self._first.fill_(t)
            self._graph.replay()
            t += STEPS_AT_ONCE
        for left in range(t, steps):
            self.step(rows[:, left].index_select(0, order_of), lr[left], left)

    def _record(self, batch: int) -> None:
        """Record a block of steps, leaving weights, momentum and losses as they were."""
        models, device = self.problem.models, self.theta.device
        shape = (STEPS_AT_ONCE, models, batch)
        self._rows = torch.zeros(shape, dtype=torch.int64, device=device)
        self._lr = self.theta.new_zeros(STEPS_AT_ONCE, models)
        self._first = torch.zeros((), dtype=torch.int64, device=device)

        def block() -> None:
            for t in range(STEPS_AT_ONCE):
                self.step(self._rows[t], self._lr[t], self._first + t)

        self._graph = capture(block, lambda: self.tensors() | {"bad": self.bad}, device)
