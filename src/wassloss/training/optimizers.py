"""Optimisers as descriptions, which a plan holds and a checkpoint names.

The penalty `c Σ‖θ‖²` has the gradient `2cθ`, and torch's `weight_decay=w` adds `wθ`: the paper's
0.0005 is a `weight_decay` of 0.001. :class:`AdamW` takes the same number as decoupled decay, which
is not the gradient of a penalty any more. Biases and other vectors are not penalised.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from wassloss._checks import check_number, check_strength


class OptimizerPlan(Protocol):
    """An optimiser's kind and numbers."""

    @property
    def lr(self) -> float: ...

    def build(
        self, parameters: Iterable[nn.Parameter], weight_penalty: float, capturable: bool = False
    ) -> torch.optim.Optimizer:
        """The torch optimiser; `capturable` for one whose step a CUDA graph can hold."""
        ...


@dataclass(frozen=True)
class SGD:
    """Stochastic gradient descent, with the paper's momentum."""

    lr: float = 0.1
    momentum: float = 0.7
    nesterov: bool = False

    def __post_init__(self) -> None:
        _check_lr(self.lr)
        _check_share("momentum", self.momentum)
        if self.nesterov and self.momentum == 0:
            raise ValueError("momentum must be positive where nesterov=True, got 0")

    def build(
        self, parameters: Iterable[nn.Parameter], weight_penalty: float, capturable: bool = False
    ) -> torch.optim.Optimizer:
        groups = _groups(parameters, weight_penalty)
        return torch.optim.SGD(
            groups,
            lr=_rate(self.lr, groups, capturable),
            momentum=self.momentum,
            nesterov=self.nesterov,
            fused=capturable or None,  # reads a learning rate on the device without a wait
        )


@dataclass(frozen=True)
class Adam:
    """Adam; the weight penalty is part of its gradient."""

    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8

    def __post_init__(self) -> None:
        _check_adam(self.lr, self.betas, self.eps)

    def build(
        self, parameters: Iterable[nn.Parameter], weight_penalty: float, capturable: bool = False
    ) -> torch.optim.Optimizer:
        groups = _groups(parameters, weight_penalty)
        lr = _rate(self.lr, groups, capturable)
        return torch.optim.Adam(
            groups, lr=lr, betas=self.betas, eps=self.eps, capturable=capturable
        )


@dataclass(frozen=True)
class AdamW:
    """Adam with decoupled decay of the weights: `θ ← θ − lr · 2 weight_penalty · θ`."""

    lr: float = 1e-3
    betas: tuple[float, float] = (0.9, 0.999)
    eps: float = 1e-8

    def __post_init__(self) -> None:
        _check_adam(self.lr, self.betas, self.eps)

    def build(
        self, parameters: Iterable[nn.Parameter], weight_penalty: float, capturable: bool = False
    ) -> torch.optim.Optimizer:
        groups = _groups(parameters, weight_penalty)
        lr = _rate(self.lr, groups, capturable)
        return torch.optim.AdamW(
            groups, lr=lr, betas=self.betas, eps=self.eps, capturable=capturable
        )


def penalized(parameter: nn.Parameter) -> bool:
    """Whether the weight penalty counts a parameter: matrices and beyond, not biases or scales."""
    return parameter.dim() >= 2


def set_learning_rate(optimizer: torch.optim.Optimizer, lr: float) -> None:
    """Change the learning rate, in place where a CUDA graph reads it."""
    for group in optimizer.param_groups:
        if isinstance(group["lr"], Tensor):
            group["lr"].fill_(lr)
        else:
            group["lr"] = lr


def _groups(parameters: Iterable[nn.Parameter], weight_penalty: float) -> list[dict[str, Any]]:
    trained = [parameter for parameter in parameters if parameter.requires_grad]
    weights = [parameter for parameter in trained if penalized(parameter)]
    others = [parameter for parameter in trained if not penalized(parameter)]
    groups = [
        {"params": weights, "weight_decay": 2 * weight_penalty},
        {"params": others, "weight_decay": 0.0},
    ]
    if not trained:
        raise ValueError("model must have parameters to train, got none that requires grad")
    return [group for group in groups if group["params"]]


def _rate(lr: float, groups: list[dict[str, Any]], capturable: bool) -> float | Tensor:
    return torch.tensor(lr, device=groups[0]["params"][0].device) if capturable else lr


def _check_lr(lr: float) -> None:
    if not check_strength("lr", lr) > 0:
        raise ValueError(f"lr must be positive, got {lr}")


def _check_share(name: str, value: float) -> None:
    if not 0 <= check_number(name, value) < 1:
        raise ValueError(f"{name} must be at least 0 and less than 1, got {value}")


def _check_adam(lr: float, betas: tuple[float, float], eps: float) -> None:
    _check_lr(lr)
    if len(betas) != 2:
        raise ValueError(f"betas must be two numbers, got {betas!r}")
    for beta in betas:
        _check_share("betas", beta)
    check_strength("eps", eps)
