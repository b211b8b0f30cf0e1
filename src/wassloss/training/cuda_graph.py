"""Training steps as one CUDA graph: a small model is not held up by the launches of its kernels.

Gathering the batch, forward, loss, backward and update are recorded once and replayed. Everything
the graph reads lies at a fixed place on the device: the examples, the rows of the next few hundred
batches, the learning rate, the loss meter.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import torch
from torch import Tensor, nn

from wassloss.training.batches import Batches, MemoryBatches
from wassloss.training.meter import LossMeter
from wassloss.training.optimizers import set_learning_rate
from wassloss.training.plan import TrainingPlan
from wassloss.training.steps import Loss, compute_loss

if TYPE_CHECKING:
    from lightning_fabric import Fabric

BATCHES_AT_ONCE = 512  # whose rows are sent to the device together
WARM_UP_STEPS = 3  # kernels are compiled, and the optimiser makes its state, outside the recording


class GraphSteps:
    """Steps that are replayed from a CUDA graph, of a single process in full precision."""

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
        if self.graph is None:
            self.graph = self._record()
        lr = None
        for first in range(start, stop, BATCHES_AT_ONCE):
            count = min(BATCHES_AT_ONCE, stop - first)
            self.rows[:count].copy_(self.batches.sampler.next_few(count))
            self.place.zero_()
            for iteration in range(first, first + count):
                if lr != self.plan.learning_rate(iteration):
                    lr = self.plan.learning_rate(iteration)
                    set_learning_rate(self.optimizer, lr)
                self.graph.replay()
            yield count

    def _record(self) -> torch.cuda.CUDAGraph:
        """Record a step, leaving weights, optimiser, meter and random numbers as they were."""
        before = self._snapshot()
        size = len(self.batches.examples)
        some = torch.arange(self.plan.batch_size, device=self.rows.device) % size
        self.rows.copy_(some.expand_as(self.rows))
        set_learning_rate(self.optimizer, self.plan.optimizer.lr)

        side = torch.cuda.Stream()
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(WARM_UP_STEPS):
                self.optimizer.zero_grad(set_to_none=True)
                self._step()
        torch.cuda.current_stream().wait_stream(side)
        self._restore(before)

        # Gradients are None here, so that the recorded backward makes them in the graph's own
        # memory and each replay overwrites them: there is nothing to set to zero.
        self.optimizer.zero_grad(set_to_none=True)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            self._step()
        self.place.zero_()
        return graph

    def _step(self) -> None:
        rows = self.rows.index_select(0, self.place).squeeze(0)
        features, *rest = self.batches.examples.take(rows)
        loss = compute_loss(self.model, self.loss_fn, features, rest, 1, self.plan)
        loss.backward()
        self.optimizer.step()
        self.meter.add(loss)
        self.place += 1

    def _tensors(self) -> dict[tuple[str, object, str], Tensor]:
        tensors: dict[tuple[str, object, str], Tensor] = {
            ("model", 0, name): tensor for name, tensor in self.model.state_dict().items()
        }
        tensors |= {("meter", 0, name): t for name, t in self.meter.state_dict().items()}
        for parameter, state in self.optimizer.state.items():
            tensors |= {
                ("optimizer", id(parameter), name): value
                for name, value in state.items()
                if isinstance(value, Tensor)
            }
        return tensors

    def _snapshot(self) -> tuple[dict[tuple[str, object, str], Tensor], Tensor]:
        kept = {key: tensor.clone() for key, tensor in self._tensors().items()}
        return kept, torch.cuda.get_rng_state(self.rows.device)

    @torch.no_grad()
    def _restore(self, before: tuple[dict[tuple[str, object, str], Tensor], Tensor]) -> None:
        kept, random_state = before
        for key, tensor in self._tensors().items():
            # What the warm-up made is the optimiser's state, which for each of ours begins at zero.
            if key in kept:
                tensor.copy_(kept[key])
            else:
                tensor.zero_()
        self.meter.first_bad.fill_(-1)
        torch.cuda.set_rng_state(random_state, self.rows.device)


def check_graph(batches: Batches, fabric: Fabric) -> MemoryBatches:
    """Refuse to record what a CUDA graph here cannot hold."""
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
