"""Replay steps on a GPU from a CUDA graph: one launch for a step of all models."""

from __future__ import annotations

import warnings
from contextlib import AbstractContextManager
from typing import Any

import torch
from torch import Tensor

from experiments.lab.many.general import GeneralSteps
from experiments.lab.many.linear import LinearSteps
from wassloss import ConvergenceWarning

STEPS_AT_ONCE = 256  # number of steps whose examples are sent to the device together
LANES = 16  # number of losses that may run concurrently, as each fills only part of the device
WARM_UP_STEPS = 3  # kernels are compiled before the capture


class Captured:
    """Runs another object's steps in a CUDA graph, which their losses must support."""

    def __init__(self, steps: LinearSteps | GeneralSteps) -> None:
        self.steps, self.models, self.bad = steps, steps.models, steps.bad
        self._graph: torch.cuda.CUDAGraph | None = None
        self._rows = torch.empty(0)  # (steps, models, batch), where the graph reads them
        # Index of the next step within the rows, and the number of the first one.
        self._place = torch.zeros(1, dtype=torch.int64, device=self.bad.device)
        self._first = torch.zeros(1, dtype=torch.int64, device=self.bad.device)

    def advance(self, rows: Tensor, order_of: Tensor) -> None:
        device = self.bad.device
        order_of = order_of.to(device)
        if self._graph is None:
            shape = (STEPS_AT_ONCE, len(self.models), rows.shape[2])
            self._rows = torch.zeros(shape, dtype=torch.int64, device=device)
            self._graph = self._record()
        self.bad.fill_(-1)
        for first in range(0, rows.shape[1], STEPS_AT_ONCE):
            block = rows[:, first : first + STEPS_AT_ONCE].to(device)
            self._rows[: block.shape[1]] = block.index_select(0, order_of).transpose(0, 1)
            self._place.zero_()
            self._first.fill_(first)
            for _ in range(block.shape[1]):
                self._graph.replay()

    def _record(self) -> torch.cuda.CUDAGraph:
        """Capture a step, leaving weights and momentum unchanged."""
        before = [tensor.clone() for tensor in self.steps.state()]
        side = torch.cuda.Stream(self.bad.device)
        side.wait_stream(torch.cuda.current_stream(self.bad.device))
        with torch.cuda.stream(side), warnings.catch_warnings():
            # Outside a graph losses warn; inside they count, and `train_many` reports the count.
            warnings.simplefilter("ignore", ConvergenceWarning)
            for _ in range(WARM_UP_STEPS):
                self._step()
        torch.cuda.current_stream(self.bad.device).wait_stream(side)
        for tensor, old in zip(self.steps.state(), before, strict=True):
            tensor.detach().copy_(old)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(self.bad.device), torch.cuda.graph(graph):
            self._step()
        return graph

    def _step(self) -> None:
        rows = self._rows.index_select(0, self._place).squeeze(0)
        self.steps.step(rows, self._first + self._place)
        self._place += 1

    def write_back(self) -> None:
        self.steps.write_back()


class LaneSteps(GeneralSteps):
    """General steps whose losses run on separate streams, which autograd follows."""

    _lanes: list[torch.cuda.Stream]

    def beside_others(self, number: int) -> AbstractContextManager[Any]:
        if not hasattr(self, "_lanes"):
            self._lanes = [torch.cuda.Stream(self.bad.device) for _ in range(LANES)]
        lane = self._lanes[number % LANES]
        lane.wait_stream(torch.cuda.current_stream(lane.device))
        return torch.cuda.stream(lane)

    def wait_for_all(self) -> None:
        for lane in self._lanes[: len(self.losses)]:
            torch.cuda.current_stream(lane.device).wait_stream(lane)
