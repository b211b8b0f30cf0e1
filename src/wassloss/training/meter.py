"""The loss of many steps, added up on the device: nobody waits for a GPU after each one."""

from __future__ import annotations

import torch
from torch import Tensor

from wassloss.training.plan import TrainingPlan


class DivergedError(ArithmeticError):
    """Training left the finite numbers; the message says at which iteration."""

    @classmethod
    def at(cls, iteration: int, what: str, plan: TrainingPlan) -> DivergedError:
        """The error for an iteration of a plan."""
        lr = plan.learning_rate(iteration - 1)
        return cls(
            f"{what} is not finite at iteration {iteration}: lower the learning rate ({lr:g} "
            "there), or look for extreme values in the data; checkpoints are from before it"
        )


class LossMeter:
    """Sum and number of the losses since the last reading, and the first that was not finite.

    Everything is a tensor on the device that changes in place, so that a CUDA graph can do it.
    """

    def __init__(self, device: torch.device) -> None:
        wide = torch.float32 if device.type == "mps" else torch.float64
        self.total = torch.zeros((), dtype=wide, device=device)
        self.steps = torch.zeros((), dtype=torch.int64, device=device)
        self.iteration = torch.zeros((), dtype=torch.int64, device=device)
        self.first_bad = torch.full((), -1, dtype=torch.int64, device=device)

    def add(self, loss: Tensor) -> None:
        """Count one step."""
        loss = loss.detach()
        self.iteration += 1
        first = ~loss.isfinite() & (self.first_bad < 0)
        self.first_bad.copy_(torch.where(first, self.iteration, self.first_bad))
        self.total += loss
        self.steps += 1

    def diverged_at(self) -> int | None:
        """The first iteration whose loss was not finite."""
        first = int(self.first_bad)
        return None if first < 0 else first

    def read(self) -> Tensor:
        """The mean since the last reading, a scalar tensor; begins a new one."""
        mean = self.total / self.steps
        self.total.zero_()
        self.steps.zero_()
        return mean

    def state_dict(self) -> dict[str, Tensor]:
        return {"total": self.total, "steps": self.steps, "iteration": self.iteration}

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        for name, tensor in self.state_dict().items():
            tensor.copy_(state[name])
        self.first_bad.fill_(-1)
