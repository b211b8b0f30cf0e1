"""One training step after another: forward, loss, backward, update."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor, nn

from wassloss.training.batches import Batches
from wassloss.training.meter import DivergedError, LossMeter
from wassloss.training.plan import TrainingPlan, set_learning_rate

if TYPE_CHECKING:
    from lightning_fabric import Fabric

Loss: TypeAlias = Callable[..., Tensor]


class EagerSteps:
    """Steps as torch runs them, through Fabric: any device, precision and number of processes."""

    def __init__(
        self,
        fabric: Fabric,
        model: nn.Module,
        optimizer: torch.optim.Optimizer,
        loss_fn: Loss,
        batches: Batches,
        plan: TrainingPlan,
        meter: LossMeter,
    ) -> None:
        wrapped: Any = fabric.setup(model, optimizer)
        self.model, self.optimizer = wrapped
        self.fabric = fabric
        self.loss_fn = loss_fn
        self.batches = batches
        self.plan = plan
        self.meter = meter

    def advance(self, start: int, stop: int) -> Iterator[int]:
        """Take the steps from `start` to `stop`; yields how many it has taken since it last did."""
        for step in range(start, stop):
            set_learning_rate(self.optimizer, self.plan.learning_rate_at(step))
            features, *rest = self.batches.next()
            self.optimizer.zero_grad()
            loss = compute_loss(self.model, self.loss_fn, features, rest, step + 1, self.plan)
            self.meter.add(loss)
            # On a CPU, stop before the weights are spoilt; on a GPU, looking would mean waiting.
            if loss.device.type == "cpu" and self.meter.diverged_at():
                raise DivergedError.at(step + 1, "the loss", self.plan)
            self.fabric.backward(loss)
            self.optimizer.step()
            yield 1


def compute_loss(
    model: nn.Module,
    loss_fn: Loss,
    features: Any,
    rest: list[Any],
    step: int,
    plan: TrainingPlan,
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
