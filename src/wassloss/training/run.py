"""A run in progress: its steps, and how it goes into a checkpoint and comes back."""

from __future__ import annotations

import platform
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, TypeAlias

import torch
from torch import Tensor, nn

from wassloss.training.batches import Batch, Examples, Sampler
from wassloss.training.checkpoints import Checkpoint, CheckpointError
from wassloss.training.plan import FREE_ON_RESUME, TrainingPlan, set_learning_rate

if TYPE_CHECKING:
    from lightning_fabric import Fabric

Loss: TypeAlias = Callable[..., Tensor]


class DivergedError(ArithmeticError):
    """Training left the finite numbers; the message says at which step."""

    @classmethod
    def at(cls, step: int, what: str, plan: TrainingPlan) -> DivergedError:
        """The error for a step of a plan."""
        lr = plan.learning_rate_at(step - 1)
        return cls(
            f"{what} is not finite at step {step}: lower the learning rate ({lr:g} there), or look "
            "for extreme values in the data; checkpoints are from before it"
        )


class LossMeter:
    """Sum and number of the losses since the last reading, and the first that was not finite.

    Everything is a tensor on the device that changes in place, so that no step waits for a GPU and
    a CUDA graph can record it.
    """

    def __init__(self, device: torch.device) -> None:
        wide = torch.float32 if device.type == "mps" else torch.float64
        self.total = torch.zeros((), dtype=wide, device=device)
        self.count = torch.zeros((), dtype=torch.int64, device=device)
        self.step = torch.zeros((), dtype=torch.int64, device=device)
        self.first_bad = torch.full((), -1, dtype=torch.int64, device=device)

    def add(self, loss: Tensor) -> None:
        """Count one step."""
        loss = loss.detach()
        self.step += 1
        first = ~loss.isfinite() & (self.first_bad < 0)
        self.first_bad.copy_(torch.where(first, self.step, self.first_bad))
        self.total += loss
        self.count += 1

    def check(self, plan: TrainingPlan) -> None:
        """Raise if a loss was not finite, naming the first such step."""
        if (first := int(self.first_bad)) >= 0:
            raise DivergedError.at(first, "the loss", plan)

    def read(self) -> Tensor:
        """The mean since the last reading, a scalar tensor; starts a new one."""
        mean = self.total / self.count
        self.total.zero_()
        self.count.zero_()
        return mean

    def state_dict(self) -> dict[str, Tensor]:
        return dict(vars(self))

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        for name, tensor in self.state_dict().items():
            tensor.copy_(state[name])


class Run:
    """A run in progress; it takes steps as torch runs them, on any device, in any precision.

    With several processes, gradients are averaged over them by Fabric.
    """

    def __init__(
        self,
        plan: TrainingPlan,
        fabric: Fabric,
        model: nn.Module,
        loss_fn: Loss,
        examples: Examples,
    ) -> None:
        self.plan, self.fabric, self.model, self.loss_fn = plan, fabric, model, loss_fn
        self.examples, self.meter = examples.near(fabric.device), LossMeter(fabric.device)
        rank, world_size = fabric.global_rank, fabric.world_size
        self.sampler = Sampler(len(examples), plan.batch_size, plan.seed, rank, world_size)
        self.step, self.seconds = 0, 0.0
        self._set_up()

    def _set_up(self) -> None:
        self.optimizer = self.plan.build_optimizer(self.model.parameters())
        wrapped: Any = self.fabric.setup(self.model, self.optimizer)
        self.called_model, self._stepped_optimizer = wrapped

    def advance(self, stop: int) -> Iterator[int]:
        """Take the steps up to `stop`; yields how many it has taken since it last did."""
        optimizer = self._stepped_optimizer
        for step in range(self.step, stop):
            set_learning_rate(optimizer, self.plan.learning_rate_at(step))
            optimizer.zero_grad()
            batch = self.examples.take(self.sampler.rows(step)[0].to(self.examples.device))
            batch = tuple(column.to(self.fabric.device) for column in batch)
            loss = self._loss(batch, step + 1)
            self.meter.add(loss)
            if loss.device.type == "cpu":  # on a GPU, looking would mean waiting
                self.meter.check(self.plan)  # before the weights are spoilt
            self.fabric.backward(loss)
            optimizer.step()
            yield 1

    def _loss(self, batch: Batch, step: int) -> Tensor:
        """The loss of a batch, a scalar; outputs that are not finite have an error of their own."""
        outputs = self.called_model(batch[0])
        try:
            loss = self.loss_fn(outputs, *batch[1:])
        except ValueError as error:
            # The losses of wassloss refuse such outputs themselves, but cannot say when it was.
            if isinstance(outputs, Tensor) and not outputs.isfinite().all():
                raise DivergedError.at(step, "the model's output", self.plan) from error
            raise
        if not isinstance(loss, Tensor) or loss.dim():
            shape = tuple(loss.shape) if isinstance(loss, Tensor) else type(loss).__name__
            raise ValueError(f'loss_fn must return one number (reduction="mean"), got {shape}')
        return loss

    def due(self, every: int) -> bool:
        """Whether something that happens every few steps, and at the end, happens now."""
        return self.step % every == 0 or self.step >= self.plan.steps

    def checkpoint(self) -> Checkpoint:
        """The run as it is; every process has to ask, though one is enough to write it."""
        own = {name: tensor.cpu() for name, tensor in self.meter.state_dict().items()}
        own["cpu_random"] = torch.get_rng_state()
        if self.fabric.device.type == "cuda":
            own["cuda_random"] = torch.cuda.get_rng_state(self.fabric.device)
        processes: list[Any] = [own] * self.fabric.world_size
        if self.fabric.world_size > 1:
            torch.distributed.all_gather_object(processes, own)
        parts: dict[str, dict[str, Any]] = {"model": self.model.state_dict()}
        others = [name for name, t in parts["model"].items() if not isinstance(t, Tensor)]
        if others:
            raise TypeError(f"model must hold its state in tensors to be saved, got {others}")
        for index, values in self.optimizer.state_dict()["state"].items():
            parts[f"optimizer.{index}"] = values
        parts |= {f"process.{rank}": of_rank for rank, of_rank in enumerate(processes)}
        tensors = {
            f"{part}.{name}": value
            for part, values in parts.items()
            for name, value in values.items()
            if isinstance(value, Tensor)  # optimisers also have None
        }
        state = {
            "plan": self.plan.config(),
            "examples": len(self.examples),
            "processes": self.fabric.world_size,
            "precision": self.fabric.strategy.precision.state_dict(),
            "seconds": self.seconds,
            "versions": versions(),
        }
        return Checkpoint(self.step, tensors, state)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Continue from a checkpoint, if plan, model, data and processes are the run's own."""
        state = checkpoint.state
        own = {"processes": self.fabric.world_size, "examples": len(self.examples)}
        saved = {**state, **state["plan"]}
        for name, value in (own | self.plan.config()).items():
            if name not in FREE_ON_RESUME and saved.get(name) != value:
                raise ValueError(
                    f"{name} must be the run's own {saved.get(name)!r} to resume it, got {value!r}"
                )
        try:
            self.model.load_state_dict(checkpoint.part("model"))
        except RuntimeError as error:
            reason = " ".join(str(error).split())
            raise CheckpointError(f"the checkpoint is of another model: {reason}") from error
        groups = self.optimizer.state_dict()["param_groups"]
        parts = {i: checkpoint.part(f"optimizer.{i}") for group in groups for i in group["params"]}
        values = {index: tensors for index, tensors in parts.items() if tensors}
        self.optimizer.load_state_dict({"state": values, "param_groups": groups})
        self.fabric.strategy.precision.load_state_dict(state["precision"])
        self.step, self.seconds = checkpoint.step, state["seconds"]
        process = checkpoint.part(f"process.{self.fabric.global_rank}")
        self.meter.load_state_dict(process)
        torch.set_rng_state(process["cpu_random"])
        if self.fabric.device.type == "cuda" and "cuda_random" in process:  # not if it was on a CPU
            torch.cuda.set_rng_state(process["cuda_random"], self.fabric.device)


def versions() -> dict[str, str]:
    """What a run was made with."""
    from wassloss import __version__

    return {
        "wassloss": __version__,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "platform": platform.platform(),
    }
