"""Train one network with one loss."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from experiments.lab.labelled import best_device
from experiments.lab.networks.tasks import Part, Recipe, Task


@dataclass(frozen=True)
class Fitted:
    """Outputs of a network on examples outside the training part, before any decision.

    Attributes:
        validation, test: outputs `(n, labels)`.
        milliseconds: median time of a step.
    """

    validation: Tensor
    test: Tensor
    milliseconds: float


def fit(task: Task, loss_fn: nn.Module, seed: int, recipe: Recipe | None = None) -> Fitted:
    """Train a new network; the seed sets its first weights, dropout and the order of rows."""
    recipe, device = recipe or task.recipe, best_device()
    torch.manual_seed(seed)
    model, loss_fn, train = task.model().to(device), loss_fn.to(device), task.train.to(device)
    generator = torch.Generator().manual_seed(seed)
    per_epoch = max(1, len(train) // recipe.batch)
    parameters, decay = model.parameters(), recipe.decay
    optimizer: torch.optim.Optimizer = (
        torch.optim.SGD(parameters, recipe.rate, recipe.momentum, weight_decay=decay)
        if recipe.momentum
        else torch.optim.AdamW(parameters, recipe.rate, weight_decay=decay)
    )
    schedule = torch.optim.lr_scheduler.OneCycleLR(
        optimizer, recipe.rate, recipe.epochs * per_epoch + 1
    )
    seconds = []
    for _ in range(recipe.epochs):
        order = torch.randperm(len(train), generator=generator).to(device)
        for rows in order[: per_epoch * recipe.batch].split(recipe.batch):
            began = time.perf_counter()
            batch = train.rows(rows)
            optimizer.zero_grad()
            loss_fn(model(batch.features), batch.target).backward()
            optimizer.step()
            schedule.step()
            seconds.append(time.perf_counter() - began)
    middle = float(torch.tensor(seconds).median())
    return Fitted(_outputs(model, task.validation), _outputs(model, task.test), 1000 * middle)


@torch.no_grad()
def _outputs(model: nn.Module, part: Part) -> Tensor:
    model.eval()
    device = next(model.parameters()).device
    return torch.cat([model(x.to(device)).cpu() for x in part.features.split(1000)])
