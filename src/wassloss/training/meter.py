"""The loss of many steps, added up on the device, so that no step waits for a GPU."""

from __future__ import annotations

import torch
from torch import Tensor

from wassloss.training.plan import TrainingPlan


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

    Everything is a tensor on the device that changes in place, so that a CUDA graph can record it.
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

    def diverged_at(self) -> int | None:
        """The first step whose loss was not finite."""
        first = int(self.first_bad)
        return None if first < 0 else first

    def read(self) -> Tensor:
        """The mean since the last reading, a scalar tensor; starts a new one."""
        mean = self.total / self.count
        self.total.zero_()
        self.count.zero_()
        return mean

    def state_dict(self) -> dict[str, Tensor]:
        return {
            "total": self.total,
            "count": self.count,
            "step": self.step,
            "first_bad": self.first_bad,
        }

    def load_state_dict(self, state: dict[str, Tensor]) -> None:
        for name, tensor in self.state_dict().items():
            tensor.copy_(state[name])
