"""Small training problems."""

from typing import Any

import torch
from torch import Tensor

import wassloss as wl

FEATURES, LABELS = 6, 5


def grades(count: int = 200, seed: int = 0) -> tuple[Tensor, Tensor]:
    """Features and class ids that a linear model can mostly separate."""
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(count, FEATURES, generator=generator)
    weights = torch.randn(FEATURES, LABELS, generator=torch.Generator().manual_seed(7))
    noise = torch.randn(count, LABELS, generator=generator)
    return x, (x @ weights + noise).argmax(1)


def tags(count: int = 200, seed: int = 0) -> tuple[Tensor, wl.SparseTarget]:
    """The same features with one to three labels per example."""
    x, ids = grades(count, seed)
    generator = torch.Generator().manual_seed(seed + 1)
    number = torch.randint(1, 4, (count, 1), generator=generator)
    indices = (ids.unsqueeze(1) + torch.arange(3)) % LABELS
    weights = (torch.arange(3) < number) / number
    return x, wl.SparseTarget(indices, weights.float())


def linear(seed: int = 0) -> wl.models.Linear:
    torch.manual_seed(seed)
    return wl.models.Linear(FEATURES, LABELS)


def perceptron(seed: int = 0) -> wl.models.MLP:
    torch.manual_seed(seed)
    return wl.models.MLP(FEATURES, [16], LABELS)


def wasserstein(**keywords: Any) -> wl.WassersteinLoss:
    return wl.WassersteinLoss(wl.ground.Ordinal(LABELS, power=2), kl_weight=0.2, **keywords)


def same(one: torch.nn.Module, other: torch.nn.Module) -> bool:
    """Whether two models have the same weights, bit for bit."""
    return all(
        torch.equal(a, b)
        for a, b in zip(one.state_dict().values(), other.state_dict().values(), strict=True)
    )
