"""Training steps replayed as one CUDA graph.

Small models then do not wait for kernel launches: gathering the batch, forward, loss, backward and
update are recorded once and replayed. Everything the graph reads has a fixed place on the device:
the examples, the rows of the next few hundred batches, the learning rate, the meter.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from wassloss.training.plan import set_learning_rate
from wassloss.training.run import Run

BATCHES_AT_ONCE = 512  # whose rows are sent to the device together
WARM_UP_STEPS = 3  # kernels are compiled and optimisers create their state outside the recording


class GraphRun(Run):
    """A run whose steps are replayed from a CUDA graph: a single process in full precision."""

    def _set_up(self) -> None:
        _check_recordable(self)
        self.optimizer = self.plan.build_optimizer(self.model.parameters(), capturable=True)
        self.called_model = self.model
        shape, device = (BATCHES_AT_ONCE, self.plan.batch_size), self.fabric.device
        self.rows = torch.zeros(shape, dtype=torch.int64, device=device)
        self.place = torch.zeros(1, dtype=torch.int64, device=device)  # of the next batch in rows
        self.graph: torch.cuda.CUDAGraph | None = None

    def advance(self, stop: int) -> Iterator[int]:
        if self.graph is None:
            self.graph = self._capture()
        lr = None
        for first in range(self.step, stop, BATCHES_AT_ONCE):
            count = min(BATCHES_AT_ONCE, stop - first)
            self.rows[:count].copy_(self.sampler.rows(first, count))
            self.place.zero_()
            for step in range(first, first + count):
                if lr != self.plan.learning_rate_at(step):
                    lr = self.plan.learning_rate_at(step)
                    set_learning_rate(self.optimizer, lr)
                self.graph.replay()
            yield count

    def _capture(self) -> torch.cuda.CUDAGraph:
        """Record a step, leaving everything as it was."""
        device, every = self.rows.device, torch.arange(self.rows.numel(), device=self.rows.device)
        self.rows.copy_(every.view_as(self.rows) % len(self.examples))
        set_learning_rate(self.optimizer, self.plan.base_learning_rate)
        before = {name: tensor.detach().clone() for name, tensor in self._tensors().items()}
        random_state = torch.cuda.get_rng_state(device)
        side = torch.cuda.Stream(device)
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):
            for _ in range(WARM_UP_STEPS):
                self._take_step()
        torch.cuda.current_stream(device).wait_stream(side)
        with torch.no_grad():
            for name, tensor in self._tensors().items():
                # What exists only now is the state of the optimiser, which begins at zero.
                tensor.copy_(before[name]) if name in before else tensor.zero_()
        torch.cuda.set_rng_state(random_state, device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(device), torch.cuda.graph(graph):
            self._take_step()
        return graph

    def _take_step(self) -> None:
        rows = self.rows.index_select(0, self.place).squeeze(0)
        batch = self.examples.take(rows)
        # Without gradients, the recorded backward creates them in the graph's own memory, and each
        # replay overwrites them.
        self.optimizer.zero_grad(set_to_none=True)
        loss = self._loss(batch, 1)
        loss.backward()
        self.optimizer.step()
        self.meter.add(loss)
        self.place += 1

    def _tensors(self) -> dict[Any, Tensor]:
        """All that a step changes."""
        found: dict[Any, Any] = {"place": self.place}
        for kind, owner in (("model", self.model), ("meter", self.meter)):
            found |= {(kind, name): tensor for name, tensor in owner.state_dict().items()}
        for parameter, state in self.optimizer.state.items():
            found |= {(id(parameter), name): value for name, value in state.items()}
        return {name: value for name, value in found.items() if isinstance(value, Tensor)}


def _check_recordable(run: Run) -> None:
    """Refuse a run whose steps a CUDA graph cannot record."""
    device, precision = run.fabric.device, run.fabric.strategy.precision.precision
    if device.type != "cuda":
        raise ValueError(f"cuda_graph needs a model on a CUDA device, got {device}")
    if run.fabric.world_size > 1:
        raise ValueError(f"cuda_graph is for a single process, got {run.fabric.world_size}")
    if precision not in ("32-true", "64-true"):
        raise ValueError(f'cuda_graph is for precision "32-true", got {precision!r}')
    if run.examples.device != device:
        raise ValueError("cuda_graph needs data that fit into half of the device's free memory")
