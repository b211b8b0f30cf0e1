"""What a training run does, in numbers: everything its outcome depends on except the data."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from wassloss._checks import check_choice, check_count, check_number, check_seed, check_strength

SCHEDULES = ("constant", "cosine")
OPTIMIZERS = {"sgd": 0.1, "adam": 0.01, "adamw": 0.01}  # with their default learning rates

# What may differ when a run is resumed; a change of anything else would make it another run.
FREE_ON_RESUME = frozenset({"steps", "log_every", "evaluate_every", "checkpoint_every"})


@dataclass(frozen=True, kw_only=True)
class TrainingPlan:
    """How :func:`~wassloss.training.train` trains; the default is the paper's Algorithm 2.

    Attributes:
        steps: how many optimiser steps to take.
        batch_size: examples per step, in each process.
        optimizer: ``"sgd"``, ``"adam"`` or ``"adamw"``, those of `torch.optim`.
        learning_rate: by default 0.1 for SGD and 0.01 for Adam and AdamW.
        momentum: of SGD.
        weight_decay: as in `torch.optim`, but not on biases and other vectors. SGD and Adam
            minimise the mean loss plus `½ weight_decay Σ‖θ‖²`, so the paper's 0.0005 Σ‖θ‖² is
            0.001; AdamW decays the weights separately from the gradient.
        schedule: ``"constant"``, or ``"cosine"``: the learning rate falls to 0 at the last step.
        seed: of the order of the examples and of the model's own randomness, such as dropout.
        log_every, evaluate_every: steps between lines of the log, and between scores.
        checkpoint_every: steps between checkpoints, of which there is always one at the end. The
            last two are kept.

    >>> plan = TrainingPlan(steps=100, optimizer="adamw", schedule="cosine")
    >>> [round(plan.learning_rate_at(step), 4) for step in (0, 50, 100)]
    [0.01, 0.005, 0.0]
    """

    steps: int = 100_000
    batch_size: int = 100
    optimizer: str = "sgd"
    learning_rate: float | None = None
    momentum: float = 0.7
    weight_decay: float = 0.001
    schedule: str = "constant"
    seed: int = 0
    log_every: int = 100
    evaluate_every: int = 1000
    checkpoint_every: int = 1000

    def __post_init__(self) -> None:
        for name in ("batch_size", *sorted(FREE_ON_RESUME)):
            check_count(name, getattr(self, name))
        check_choice("optimizer", self.optimizer, tuple(OPTIMIZERS))
        check_choice("schedule", self.schedule, SCHEDULES)
        rate = self.learning_rate
        if rate is not None and not check_strength("learning_rate", rate) > 0:
            raise ValueError(f"learning_rate must be positive, got {rate}")
        check_strength("weight_decay", self.weight_decay)
        if not 0 <= check_number("momentum", self.momentum) < 1:
            raise ValueError(f"momentum must be at least 0 and less than 1, got {self.momentum}")
        object.__setattr__(self, "seed", check_seed("seed", self.seed))  # a plain int, for JSON

    @property
    def base_learning_rate(self) -> float:
        """What the schedule multiplies."""
        return OPTIMIZERS[self.optimizer] if self.learning_rate is None else self.learning_rate

    def learning_rate_at(self, step: int) -> float:
        """The learning rate of the step that follows `step` steps.

        A function of the step alone: a resumed run needs no state of a scheduler, and a CUDA graph
        never waits for one to read a learning rate back from the device.
        """
        if self.schedule == "constant":
            return self.base_learning_rate
        return self.base_learning_rate * (1 + math.cos(math.pi * (step / self.steps))) / 2

    def build_optimizer(
        self, parameters: Iterable[nn.Parameter], capturable: bool = False
    ) -> torch.optim.Optimizer:
        """The torch optimiser; `capturable` for one whose step a CUDA graph can record."""
        trained = trainable(parameters)
        groups: list[dict[str, Any]] = [
            {"params": [p for p in trained if decays(p)], "weight_decay": self.weight_decay},
            {"params": [p for p in trained if not decays(p)], "weight_decay": 0.0},
        ]
        groups = [group for group in groups if group["params"]]
        lr: float | Tensor = self.base_learning_rate
        if capturable:  # a CUDA graph reads the learning rate from the device
            lr = torch.tensor(lr, device=trained[0].device)
        if self.optimizer == "sgd":
            # A fused optimiser reads such a learning rate without waiting for it.
            return torch.optim.SGD(groups, lr=lr, momentum=self.momentum, fused=capturable or None)
        kind = torch.optim.Adam if self.optimizer == "adam" else torch.optim.AdamW
        return kind(groups, lr=lr, capturable=capturable)

    def config(self) -> dict[str, Any]:
        """The plan as a dictionary that JSON can hold."""
        return asdict(self) | {"learning_rate": self.base_learning_rate}


def set_learning_rate(optimizer: torch.optim.Optimizer, lr: float) -> None:
    """Change the learning rate, in place if a CUDA graph reads it."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(lr)
        else:
            group["lr"] = lr


def decays(parameter: Tensor) -> bool:
    """Whether weight decay applies to a parameter: to matrices, not to biases or scales."""
    return parameter.dim() >= 2


def trainable(parameters: Iterable[nn.Parameter]) -> list[nn.Parameter]:
    """The parameters to train, of which there must be some."""
    found = [parameter for parameter in parameters if parameter.requires_grad]
    if not found:
        raise ValueError("model must have parameters to train, got none that requires grad")
    return found
