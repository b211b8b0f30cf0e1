"""What a user pays for the loss: beside `CrossEntropyLoss`, alone and in a whole training step."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from functools import partial

import torch
from contenders import Attempt, Contender
from problems import Work, random_target
from torch import Tensor

import wassloss as wl

FEATURES = 1280
BATCHES = 8  # different ones in turn, lest a step be trained to the end on one
PASSES = 10  # in one timed run: a training loop does not wait for the device after each
BASELINE = "CrossEntropyLoss"

Loss = Callable[[Tensor, object], Tensor]


def one_hot(work: Work, iterations: int, *, make_loss: Callable[[Work], Loss]) -> Attempt:
    """Ten times forward and backward of the loss alone, with class ids."""
    loss_fn, ids = make_loss(work), work.target.indices[:, 0]
    logits = work.h.log().requires_grad_()

    def run() -> None:
        for _ in range(PASSES):
            logits.grad = None
            loss_fn(logits, ids).backward()

    return Attempt(run, lambda _: None)


def step(
    work: Work, iterations: int, *, make_loss: Callable[[Work], Loss], sparse: bool
) -> Attempt:
    """Ten steps of Adam on a linear model, with a few tags for targets."""
    loss_fn, batches = make_loss(work), itertools.cycle(_batches(work, sparse))
    torch.manual_seed(0)
    model = torch.nn.Linear(FEATURES, work.case.labels).to(work.h.device, work.h.dtype)
    optimizer = torch.optim.Adam(model.parameters(), lr=1e-4)

    def run() -> None:
        for features, target in itertools.islice(batches, PASSES):
            optimizer.zero_grad()
            loss_fn(model(features), target).backward()
            optimizer.step()

    return Attempt(run, lambda _: None)


def _batches(work: Work, sparse: bool) -> list[tuple[Tensor, object]]:
    case, generator = work.case, torch.Generator().manual_seed(1)
    made: list[tuple[Tensor, object]] = []
    for _ in range(BATCHES):
        features = torch.randn(case.batch, FEATURES, generator=generator).to(work.h)
        target = random_target(case.batch, case.labels, case.support, case.torch_dtype, generator)
        target = wl.SparseTarget(target.indices.to(work.h.device), target.weights.to(work.h.device))
        dense = torch.zeros_like(work.h).scatter(1, target.indices, target.weights)
        made.append((features, target if sparse else dense))
    return made


def _cross_entropy(work: Work) -> Loss:
    return torch.nn.CrossEntropyLoss()


def _wasserstein(work: Work, kl_weight: float) -> Loss:
    loss: Loss = wl.WassersteinLoss(work.metric, epsilon=work.case.epsilon, kl_weight=kl_weight)
    return loss


WASSERSTEIN, WITH_KL = partial(_wasserstein, kl_weight=0.0), partial(_wasserstein, kl_weight=0.1)

ONE_HOT = (
    Contender(BASELINE, partial(one_hot, make_loss=_cross_entropy)),
    Contender("WassersteinLoss", partial(one_hot, make_loss=WASSERSTEIN)),
    Contender("WassersteinLoss + 0.1 KL", partial(one_hot, make_loss=WITH_KL)),
)
STEP = (
    Contender(BASELINE, partial(step, make_loss=_cross_entropy, sparse=False)),
    Contender("WassersteinLoss", partial(step, make_loss=WASSERSTEIN, sparse=True)),
    Contender("WassersteinLoss + 0.1 KL", partial(step, make_loss=WITH_KL, sparse=True)),
)
