"""Steps of many linear models at once as batched matrix products, without autograd."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from experiments.lab.many.one_label import OneLabelLoss, loss_and_gradient
from wassloss.models import Linear


class LinearSteps:
    """Weights and momentum of all models, and their steps.

    Data shared by several models are stored once, with an index `…_of (models,)` for each model.

    Args:
        models: of equal shapes, on one device.
        losses: one per model.
        features: `(examples, inputs)`, one tensor per model; models may share a tensor.
        ids: labels `(examples,)`, one tensor per model.
        rates, penalties: learning rate and weight penalty of each model, `(models,)`.
        momentum: of SGD.

    Attributes:
        theta: weights `(models, inputs, labels)`; the last input is the bias.
        velocity: SGD's momentum, of the same shape.
        bad: the step of the last `advance`, from 0, whose loss was not finite; −1 if none.
    """

    def __init__(
        self,
        models: Sequence[Linear],
        losses: Sequence[OneLabelLoss],
        features: Sequence[Tensor],
        ids: Sequence[Tensor],
        rates: Tensor,
        penalties: Tensor,
        momentum: float,
    ) -> None:
        self.models, self.momentum = models, momentum
        self.theta = torch.stack([_theta(model) for model in models]).contiguous()
        self.velocity = torch.zeros_like(self.theta)
        device, labels = self.theta.device, self.theta.shape[2]
        self.bad = torch.full((len(models),), -1, device=device)
        self.rates = rates.to(self.theta)
        self.decay = (2 * penalties).to(self.theta).view(-1, 1, 1).repeat(1, self.theta.shape[1], 1)
        self.decay[:, -1] = 0  # the bias is not penalised; (models, inputs, 1)
        x, self.features_of = _unique(features, device)
        self.features = torch.cat([x, x.new_ones(*x.shape[:2], 1)], 2)  # (sets, examples, inputs)
        self.ids, self.ids_of = _unique(ids, device)  # (sets, examples)
        none = self.theta.new_zeros(labels, labels)
        tables = {id(loss.cost): none if loss.cost is None else loss.cost for loss in losses}
        self.cost, self.cost_of = _unique([tables[id(loss.cost)] for loss in losses], device)
        self.cost = self.cost.to(self.theta)  # (tables, labels, labels)
        self.epsilon = self.theta.new_tensor([loss.epsilon for loss in losses])
        self.kl_weight = self.theta.new_tensor([loss.kl_weight for loss in losses])

    def advance(self, rows: Tensor, order_of: Tensor) -> None:
        """Take steps on examples `rows (orders, steps, batch)`; each model follows one order."""
        device = self.theta.device
        rows, order_of = rows.to(device), order_of.to(device)
        self.bad.fill_(-1)
        for t in range(rows.shape[1]):
            self.step(rows[:, t].index_select(0, order_of), t)

    def step(self, rows: Tensor, t: int | Tensor) -> None:
        """One step on examples `rows (models, batch)`, in place, so that a graph can capture it."""
        ids = self.ids[self.ids_of.unsqueeze(1), rows]
        loss, gradient = loss_and_gradient(
            self.theta,
            self.features[self.features_of.unsqueeze(1), rows],
            ids,
            self.cost[self.cost_of.unsqueeze(1), ids],
            self.epsilon.view(-1, 1, 1),
            self.kl_weight.view(-1, 1, 1),
        )
        first = ~loss.isfinite() & (self.bad < 0)
        self.bad.copy_(torch.where(first, t, self.bad))
        self.velocity.mul_(self.momentum).add_(gradient + self.decay * self.theta)
        self.theta -= self.rates.view(-1, 1, 1) * self.velocity

    def state(self) -> list[Tensor]:
        """All tensors that a step modifies."""
        return [self.theta, self.velocity, self.bad]

    @torch.no_grad()
    def write_back(self) -> None:
        """Copy the weights to the models."""
        for model, theta in zip(self.models, self.theta, strict=True):
            model.linear.weight.copy_(theta[:-1].T)
            model.linear.bias.copy_(theta[-1])


def _theta(model: Linear) -> Tensor:
    linear = model.linear
    return torch.cat([linear.weight.detach().T, linear.bias.detach().unsqueeze(0)])


def _unique(tensors: Sequence[Tensor], device: torch.device) -> tuple[Tensor, Tensor]:
    """Stack distinct tensors, and return the index of each model's."""
    places = {key: place for place, key in enumerate(dict.fromkeys(map(id, tensors)))}
    each = {id(tensor): tensor for tensor in tensors}
    of = torch.tensor([places[id(tensor)] for tensor in tensors], device=device)
    return torch.stack([each[key].detach().to(device) for key in places]), of
