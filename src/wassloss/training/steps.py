"""One training step after another: as torch runs them, or replayed as one CUDA graph.

In a graph, small models do not wait for kernel launches: gathering the batch, forward, loss,
backward and update are recorded once and replayed. Everything the graph reads has a fixed place on
the device: the examples, the rows of the next few hundred batches, the learning rate, the meter.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor, nn

from wassloss.training.batches import Batches, MemoryBatches
from wassloss.training.plan import TrainingPlan, set_learning_rate
from wassloss.training.run import DivergedError, LossMeter, Run

if TYPE_CHECKING:
    from lightning_fabric import Fabric

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
            features, *rest = self.run.batches.next()
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


def capture(
    step: Callable[[], None], tensors: Callable[[], Mapping[Any, Tensor]], device: torch.device
) -> torch.cuda.CUDAGraph:
    """Record a step, which works in place, as a CUDA graph, leaving everything as it was.

    `tensors` returns all that the step changes. What only exists after a first step is the state of
    an optimiser, which begins at zero.
    """
    before = {name: tensor.detach().clone() for name, tensor in tensors().items()}
    random_state = torch.cuda.get_rng_state(device)
    side = torch.cuda.Stream(device)
    side.wait_stream(torch.cuda.current_stream(device))
    with torch.cuda.stream(side):
        for _ in range(WARM_UP_STEPS):
            step()
    torch.cuda.current_stream(device).wait_stream(side)
    with torch.no_grad():
        for name, tensor in tensors().items():
            tensor.copy_(before[name]) if name in before else tensor.zero_()
    torch.cuda.set_rng_state(random_state, device)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.device(device), torch.cuda.graph(graph):
        step()
    return graph


class GraphSteps:
    """Steps replayed from a CUDA graph, for a single process in full precision."""

    def __init__(
        self,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        loss_fn: Loss,
        batches: MemoryBatches,
        plan: TrainingPlan,
        meter: LossMeter,
    ) -> None:
        self.model = model
        self.optimizer = optimizer  # built with capturable=True
        self.loss_fn = loss_fn
        self.batches = batches
        self.plan = plan
        self.meter = meter
        device = meter.total.device
        shape = (BATCHES_AT_ONCE, plan.batch_size)
        self.rows = torch.zeros(shape, dtype=torch.int64, device=device)
        self.place = torch.zeros(1, dtype=torch.int64, device=device)  # of the next batch in rows
        self.graph: torch.cuda.CUDAGraph | None = None

    def advance(self, start: int, stop: int) -> Iterator[int]:
        """Take the steps from `start` to `stop`; yields how many it has taken since it last did."""
        if self.graph is None:
            size, device = len(self.batches.examples), self.rows.device
            self.rows.copy_(
                torch.arange(self.rows.numel(), device=device).view_as(self.rows) % size
            )
            set_learning_rate(self.optimizer, self.plan.base_learning_rate)
            self.graph = capture(self._step, self._tensors, device)
        lr = None
        for first in range(start, stop, BATCHES_AT_ONCE):
            count = min(BATCHES_AT_ONCE, stop - first)
            self.rows[:count].copy_(self.batches.sampler.next_few(count))
            self.place.zero_()
            for step in range(first, first + count):
                if lr != self.plan.learning_rate_at(step):
                    lr = self.plan.learning_rate_at(step)
                    set_learning_rate(self.optimizer, lr)
                self.graph.replay()
            yield count

    def _step(self) -> None:
        rows = self.rows.index_select(0, self.place).squeeze(0)
        features, *rest = self.batches.examples.take(rows)
        # Without gradients, the recorded backward creates them in the graph's own memory, and each
        # replay overwrites them.
        self.optimizer.zero_grad(set_to_none=True)
        loss = compute_loss(self.model, self.loss_fn, features, rest, 1, self.plan)
        loss.backward()
        self.optimizer.step()
        self.meter.add(loss)
        self.place += 1

    def _tensors(self) -> dict[Any, Tensor]:
        tensors: dict[Any, Tensor] = {"place": self.place}
        for kind, owner in (("model", self.model), ("meter", self.meter)):
            tensors |= {(kind, name): tensor for name, tensor in owner.state_dict().items()}
        for parameter, state in self.optimizer.state.items():
            tensors |= {
                (id(parameter), name): value
                for name, value in state.items()
                if isinstance(value, Tensor)
            }
        return tensors


def check_graph(batches: Batches, fabric: Fabric) -> MemoryBatches:
    """Refuse what a CUDA graph cannot record here."""
    device, precision = fabric.device, fabric.strategy.precision.precision
    if device.type != "cuda":
        raise ValueError(f"cuda_graph needs a model on a CUDA device, got {device}")
    if fabric.world_size > 1:
        raise ValueError(f"cuda_graph is for a single process, got {fabric.world_size}")
    if precision not in ("32-true", "64-true"):
        raise ValueError(f'cuda_graph is for precision "32-true", got {precision!r}')
    if not isinstance(batches, MemoryBatches) or batches.home != device:
        raise ValueError(
            "cuda_graph needs data as tensors, (features, target), that fit on the device"
        )
    return batches
