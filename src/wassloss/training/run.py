"""A run in progress: where it is, and how that goes into a checkpoint and comes back."""

from __future__ import annotations

import platform
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor, nn

from wassloss.models import describe
from wassloss.training.batches import Batches
from wassloss.training.checkpoints import Checkpoint, weights_that_fit
from wassloss.training.plan import TrainingPlan

if TYPE_CHECKING:
    from lightning_fabric import Fabric


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


@dataclass
class Run:
    """Everything about a run that changes from one step to the next."""

    plan: TrainingPlan
    fabric: Fabric
    model: nn.Module
    optimizer: torch.optim.Optimizer
    batches: Batches
    meter: LossMeter
    step: int = 0
    seconds: float = 0.0
    score: float | None = None
    best_score: float | None = None
    best_step: int | None = None
    waited: int = 0  # scores since the best
    best_weights: dict[str, Tensor] = field(default_factory=dict)  # if they may be needed

    @property
    def stopped_early(self) -> bool:
        return self.plan.patience is not None and self.waited >= self.plan.patience

    @property
    def finished(self) -> bool:
        return self.step >= self.plan.steps or self.stopped_early

    def due(self, every: int) -> bool:
        """Whether something that happens every few steps, and at the end, happens now."""
        return self.step % every == 0 or self.finished

    def checkpoint(self) -> Checkpoint:
        """The run as it is; every process has to ask, though one is enough to write it."""
        random = {"cpu": torch.get_rng_state()}
        if self.fabric.device.type == "cuda":
            random["cuda"] = torch.cuda.get_rng_state(self.fabric.device)
        meter = {name: tensor.cpu() for name, tensor in self.meter.state_dict().items()}
        processes: list[Any] = [(self.batches.state_dict(), random, meter)]
        if self.fabric.world_size > 1:
            own, processes = processes[0], [None] * self.fabric.world_size
            torch.distributed.all_gather_object(processes, own)
        parts: dict[str, dict[str, Any]] = {"model": self.model.state_dict()}
        others = [name for name, t in parts["model"].items() if not isinstance(t, Tensor)]
        if others:
            raise TypeError(f"model must hold its state in tensors to be saved, got {others}")
        parts["best"] = self.best_weights
        for index, values in self.optimizer.state_dict()["state"].items():
            parts[f"optimizer.{index}"] = values
        for rank, (_, random, meter) in enumerate(processes):
            parts |= {f"random.{rank}": random, f"meter.{rank}": meter}
        tensors = {
            f"{part}.{name}": value
            for part, values in parts.items()
            for name, value in values.items()
            if isinstance(value, Tensor)  # optimisers also have None
        }
        state = {
            "plan": self.plan.config(),
            "model": describe(self.model),
            "data": [data for data, _, _ in processes],
            "precision": self.fabric.strategy.precision.state_dict(),
            "seconds": self.seconds,
            "score": self.score,
            "best": {"score": self.best_score, "step": self.best_step, "waited": self.waited},
            "versions": versions(),
        }
        return Checkpoint(self.step, tensors, state)

    def restore(self, checkpoint: Checkpoint) -> None:
        """Continue from a checkpoint, if plan, model, data and processes are the run's own."""
        state, rank = checkpoint.state, self.fabric.global_rank
        self.plan.check_continues(state["plan"])
        if len(state["data"]) != self.fabric.world_size:
            raise ValueError(
                f"a run of {len(state['data'])} processes must be resumed with as many, got "
                f"{self.fabric.world_size}"
            )
        with weights_that_fit():
            self.model.load_state_dict(checkpoint.part("model"))
        groups = self.optimizer.state_dict()["param_groups"]
        parts = {i: checkpoint.part(f"optimizer.{i}") for group in groups for i in group["params"]}
        values = {index: tensors for index, tensors in parts.items() if tensors}
        self.optimizer.load_state_dict({"state": values, "param_groups": groups})
        self.fabric.strategy.precision.load_state_dict(state["precision"])
        self.batches.load_state_dict(state["data"][rank])
        self.meter.load_state_dict(checkpoint.part(f"meter.{rank}"))
        self.step, self.seconds, self.score = checkpoint.step, state["seconds"], state["score"]
        best, self.best_weights = state["best"], checkpoint.part("best")
        self.best_score, self.best_step, self.waited = best["score"], best["step"], best["waited"]
        random = checkpoint.part(f"random.{rank}")
        torch.set_rng_state(random["cpu"])
        if self.fabric.device.type == "cuda" and "cuda" in random:  # it may have been on a CPU
            torch.cuda.set_rng_state(random["cuda"], self.fabric.device)


def versions() -> dict[str, str]:
    """What a run was made with."""
    from wassloss import __version__

    return {
        "wassloss": __version__,
        "torch": str(torch.__version__),
        "python": platform.python_version(),
        "platform": platform.platform(),
    }
