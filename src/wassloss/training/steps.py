"""One training step after another: as torch runs them, or replayed as one CUDA graph.

In a graph, small models do not wait for kernel launches: gathering the batch, forward, loss,
backward and update are recorded once and replayed. Everything the graph reads has a fixed place on
the device: the examples, the rows of the next few hundred batches, the learning rate, the meter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import torch
from torch import Tensor, nn

from wassloss.training.batches import MemoryBatches
from wassloss.training.plan import TrainingPlan, set_learning_rate
from wassloss.training.run import DivergedError, Run

Loss: TypeAlias = Callable[..., Tensor]

BATCHES_AT_ONCE = 512  # whose rows are sent to the device together
WARM_UP_STEPS = 3  # kernels are compiled and optimisers create their state outside the recording


class EagerSteps:
    """Steps as torch runs them, through Fabric: any device, precision and number of processes."""

    def __init__(self, run: Run, loss_fn: Loss) -> None:
        wrapped: Any = run.fabric.setup(run.model, run.optimizer)
        self.model, self.optimizer = wrapped
        self.run, self.loss_fn = run, loss_fn

    def advance(self, start: int, stop: int) -> Iterator[int]:
        """Take the steps from `start` to `stop`; yields how many it has taken since it last did."""
        plan, meter = self.run.plan, self.run.meter
        for step in range(start, stop):
            set_learning_rate(self.optimizer, plan.learning_rate_at(step))
            features, *rest = self.run.batches.at(step)
            self.optimizer.zero_grad()
            loss = compute_loss(self.model, self.loss_fn, features, rest, step + 1, plan)
            meter.add(loss)
            if loss.device.type == "cpu":  # on a GPU, looking would mean waiting
                meter.check(plan)  # before the weights are spoilt
            self.run.fabric.backward(loss)
            self.optimizer.step()
            yield 1


def compute_loss(
    model: nn.Module, loss_fn: Loss, features: Any, rest: list[Any], step: int, plan: TrainingPlan
) -> Tensor:
    """The loss of a batch, a scalar; outputs that are not finite have an error of their own."""
    outputs = model(features)
    try:
        loss = loss_fn(outputs, *rest)
    except ValueError as error:
        # The losses of wassloss refuse such outputs themselves, but cannot say when it was.
        if isinstance(outputs, Tensor) and not outputs.isfinite().all():
            raise DivergedError.at(step, "the model's output", plan) from error
        raise
    if not isinstance(loss, Tensor) or loss.dim():
        shape = tuple(loss.shape) if isinstance(loss, Tensor) else type(loss).__name__
        raise ValueError(f'loss_fn must return one number (reduction="mean"), got {shape}')
    return loss


class GraphSteps:
    """Steps replayed from a CUDA graph, for a single process in full precision.

    The optimiser of the run is built with `capturable=True`.
    """

    def __init__(self, run: Run, loss_fn: Loss) -> None:
        self.run, self.model, self.loss_fn = run, run.model, loss_fn
        self.batches = _recordable(run)
        shape, device = (BATCHES_AT_ONCE, run.plan.batch_size), run.fabric.device
        self.rows = torch.zeros(shape, dtype=torch.int64, device=device)
        self.place = torch.zeros(1, dtype=torch.int64, device=device)  # of the next batch in rows
        self.graph: torch.cuda.CUDAGraph | None = None

    def advance(self, start: int, stop: int) -> Iterator[int]:
        """Take the steps from `start` to `stop`; yields how many it has taken since it last did."""
        if self.graph is None:
            self.graph = self._capture()
        lr, plan = None, self.run.plan
        for first in range(start, stop, BATCHES_AT_ONCE):
            count = min(BATCHES_AT_ONCE, stop - first)
            self.rows[:count].copy_(self.batches.sampler.rows(first, count))
            self.place.zero_()
            for step in range(first, first + count):
                if lr != plan.learning_rate_at(step):
                    lr = plan.learning_rate_at(step)
                    set_learning_rate(self.run.optimizer, lr)
                self.graph.replay()
            yield count

    def _capture(self) -> torch.cuda.CUDAGraph:
        """Record a step, leaving everything as it was."""
        device, every = self.rows.device, torch.arange(self.rows.numel(), device=self.rows.device)
        self.rows.copy_(every.view_as(self.rows) % len(self.batches.examples))
        set_learning_rate(self.run.optimizer, self.run.plan.base_learning_rate)
        before = {name: tensor.detach().clone() for name, tensor in self._tensors().items()}
        random_state = torch.cuda.get_rng_state(device)
        side = torch.cuda.Stream(device)
        side.wait_stream(torch.cuda.current_stream(device))
        with torch.cuda.stream(side):
            for _ in range(WARM_UP_STEPS):
                self._step()
        torch.cuda.current_stream(device).wait_stream(side)
        with torch.no_grad():
            for name, tensor in self._tensors().items():
                # What exists only now is the state of the optimiser, which begins at zero.
                tensor.copy_(before[name]) if name in before else tensor.zero_()
        torch.cuda.set_rng_state(random_state, device)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.device(device), torch.cuda.graph(graph):
            self._step()
        return graph

    def _step(self) -> None:
        rows = self.rows.index_select(0, self.place).squeeze(0)
        features, *rest = self.batches.examples.take(rows)
        # Without gradients, the recorded backward creates them in the graph's own memory, and each
        # replay overwrites them.
        self.run.optimizer.zero_grad(set_to_none=True)
        loss = compute_loss(self.model, self.loss_fn, features, rest, 1, self.run.plan)
        loss.backward()
        self.run.optimizer.step()
        self.run.meter.add(loss)
        self.place += 1

    def _tensors(self) -> dict[Any, Tensor]:
        """All that a step changes."""
        found: dict[Any, Any] = {"place": self.place}
        for kind, owner in (("model", self.model), ("meter", self.run.meter)):
            found |= {(kind, name): tensor for name, tensor in owner.state_dict().items()}
        for parameter, state in self.run.optimizer.state.items():
            found |= {(id(parameter), name): value for name, value in state.items()}
        return {name: value for name, value in found.items() if isinstance(value, Tensor)}


def _recordable(run: Run) -> MemoryBatches:
    """The batches of a run; an error if a CUDA graph cannot record its steps."""
    device, precision = run.fabric.device, run.fabric.strategy.precision.precision
    if device.type != "cuda":
        raise ValueError(f"cuda_graph needs a model on a CUDA device, got {device}")
    if run.fabric.world_size > 1:
        raise ValueError(f"cuda_graph is for a single process, got {run.fabric.world_size}")
    if precision not in ("32-true", "64-true"):
        raise ValueError(f'cuda_graph is for precision "32-true", got {precision!r}')
    if not isinstance(run.batches, MemoryBatches) or run.batches.home != device:
        raise ValueError(
            "cuda_graph needs data as tensors, (features, target), that fit on the device"
        )
    return run.batches
