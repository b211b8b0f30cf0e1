"""Steps of many linear models at once as batched products of matrices, without autograd."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from experiments.lab.many.problem import LinearProblem
from wassloss.training.plan import TrainingPlan


class LossAndGradient(NamedTuple):
    """Of each model."""

    loss: Tensor  # (models,), the mean over the batch
    gradient: Tensor  # (models, inputs, labels), in the weights


def loss_and_gradient(
    theta: Tensor, x: Tensor, ids: Tensor, cost: Tensor, epsilon: Tensor, kl_weight: Tensor
) -> LossAndGradient:
    """`Σ h (M + ε log h) + α KL` for `h = softmax(xθ)`, averaged over the batch.

    Shapes:
        - theta: `(models, inputs, labels)`
        - x: `(models, batch, inputs)`
        - ids: `(models, batch)`
        - cost: `(models, batch, labels)`, from every label to each example's own
        - epsilon, kl_weight: `(models, 1, 1)`
    """
    log_h = torch.bmm(x, theta).log_softmax(2)
    h, slope = log_h.exp(), cost + epsilon * log_h
    mean = (h * slope).sum(2, keepdim=True)
    place = ids.unsqueeze(2)
    loss = (mean - kl_weight * log_h.gather(2, place)).mean((1, 2))
    gradient = h * (slope - mean + kl_weight)
    gradient.scatter_add_(2, place, -kl_weight.expand_as(place))
    return LossAndGradient(loss, torch.bmm(x.mT, gradient) / x.shape[1])


class LinearSteps:
    """Weights, momentum and losses of all models, and how they advance.

    Attributes:
        theta: weights `(models, inputs, labels)`, the bias being the last input.
        velocity: SGD's momentum, likewise.
        losses: of each model, added up since the last reading, `(models,)`.
        bad: the step of the last `advance`, from 0, whose loss was not finite; −1 for none.
    """

    def __init__(
        self,
        models: Sequence[nn.Module],
        problem: LinearProblem,
        plan: TrainingPlan,
        decays: Tensor,
    ) -> None:
        if plan.optimizer != "sgd":
            raise ValueError(f"closed-form steps are those of SGD, got {plan.optimizer!r}")
        self.models: Sequence[Any] = list(models)
        self.problem = problem
        self.plan = plan
        self.theta = torch.stack([_theta(model.linear) for model in self.models])
        self.velocity = torch.zeros_like(self.theta)
        device = self.theta.device
        self.losses = torch.zeros(problem.models, dtype=torch.float64, device=device)
        self.bad = torch.full((problem.models,), -1, device=device)
        decay = decays.to(self.theta).view(-1, 1, 1).repeat(1, problem.inputs, 1)
        if problem.bias:
            decay[:, -1] = 0
        self.decay = decay  # (models, inputs, 1)
        self.epsilon = problem.epsilon.to(self.theta.dtype).view(-1, 1, 1)
        self.kl_weight = problem.kl_weight.to(self.theta.dtype).view(-1, 1, 1)
        self.features_of = problem.features_of.unsqueeze(1)  # beside rows of examples
        self.ids_of = problem.ids_of.unsqueeze(1)
        self.cost_of = problem.cost_of.unsqueeze(1)

    def advance(self, rows: Tensor, order_of: Tensor, lr: Tensor) -> None:
        """Take some steps.

        Args:
            rows: the examples, `(orders, steps, batch)`.
            order_of: which of the orders each model follows, `(models,)`.
            lr: learning rates, `(steps, models)`.
        """
        device = self.theta.device
        rows, order_of = rows.to(device), order_of.to(device)
        lr = lr.to(device, self.theta.dtype)
        self.bad.fill_(-1)
        for t in range(rows.shape[1]):
            self.step(rows[:, t].index_select(0, order_of), lr[t], t)

    def step(self, rows: Tensor, lr: Tensor, t: int | Tensor) -> None:
        """One step on examples `rows (models, batch)`; in place, so that a graph can hold it."""
        problem, momentum = self.problem, self.plan.momentum
        ids = problem.ids[self.ids_of, rows]
        loss, gradient = loss_and_gradient(
            self.theta,
            problem.features[self.features_of, rows],
            ids,
            problem.cost[self.cost_of, ids],
            self.epsilon,
            self.kl_weight,
        )
        first = ~loss.isfinite() & (self.bad < 0)
        self.bad.copy_(torch.where(first, t, self.bad))
        self.losses += loss
        gradient = gradient + self.decay * self.theta
        self.velocity.mul_(momentum).add_(gradient)
        move = gradient + momentum * self.velocity if self.plan.nesterov else self.velocity
        self.theta -= lr.view(-1, 1, 1) * move

    def tensors(self) -> dict[str, Tensor]:
        """All that changes, for a checkpoint."""
        return {"theta": self.theta, "velocity": self.velocity, "losses": self.losses}

    def load(self, tensors: dict[str, Tensor]) -> None:
        for name, tensor in self.tensors().items():
            tensor.copy_(tensors[name])

    @torch.no_grad()
    def write_back(self) -> None:
        """Give the models their weights."""
        for model, theta in zip(self.models, self.theta, strict=True):
            linear = model.linear
            linear.weight.copy_(theta[: linear.in_features].T)
            if linear.bias is not None:
                linear.bias.copy_(theta[-1])


def _theta(linear: nn.Linear) -> Tensor:
    weight = linear.weight.detach().T
    bias: Tensor | None = linear.bias
    return weight if bias is None else torch.cat([weight, bias.detach().unsqueeze(0)])
