"""Steps of many models of any kind: the models run side by side in `torch.func.vmap`.

The solvers of wassloss stop depending on the data, which vmap does not support. But they treat each
example independently, so the batches of all models that share a loss form one larger batch.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from wassloss import SparseTarget


class GeneralSteps:
    """Stacked parameters, their momentum, and their steps; see `LinearSteps`.

    Args:
        models: of equal shapes, on one device, without buffers.
        losses: modules with a `reduction`, one per model; sharing one is faster.
        features, target: shared by all models.
        rates, penalties: learning rate and weight penalty of each model, `(models,)`.
        momentum: of SGD.
    """

    def __init__(
        self,
        models: Sequence[nn.Module],
        losses: Sequence[Any],
        features: Tensor,
        target: Tensor | SparseTarget,
        rates: Tensor,
        penalties: Tensor,
        momentum: float,
    ) -> None:
        self.models, self.momentum = models, momentum
        self.parameters: dict[str, Tensor] = stack_module_state(list(models))[0]
        self.skeleton = copy.deepcopy(models[0]).to("meta")
        self.velocity = {n: torch.zeros_like(p) for n, p in self.parameters.items()}
        device = next(iter(self.parameters.values())).device
        self.bad = torch.full((len(models),), -1, device=device)
        self.rates, penalties = rates.to(device), penalties.to(device)
        # Biases are not penalised. Find them before stacking, which adds a dimension.
        own = dict(models[0].named_parameters())
        self.decay = {n: 2 * penalties * (own[n].dim() > 1) for n in self.parameters}
        self.features, self.target = features.to(device), _to(target, device)
        groups: dict[int, list[int]] = {}
        for r, loss in enumerate(losses):
            groups.setdefault(id(loss), []).append(r)
        self.sizes = [len(group) for group in groups.values()]
        self.losses = [_per_example(losses[group[0]], device) for group in groups.values()]
        # Models that share a loss are adjacent, so that autograd concatenates the gradients of the
        # losses instead of adding them.
        self.order = torch.tensor([r for group in groups.values() for r in group], device=device)
        self.place = self.order.argsort()  # position of each model in that order
        self._leaves: dict[str, Tensor] = {}

    def advance(self, rows: Tensor, order_of: Tensor) -> None:
        """Take steps until a loss is not finite, because a solver must not be called with NaN."""
        rows, order_of = rows.to(self.bad.device), order_of.to(self.bad.device)
        self.bad.fill_(-1)
        for t in range(rows.shape[1]):
            own = rows[:, t].index_select(0, order_of)
            outputs = self._run(own)
            if self._all_finite(outputs.detach().flatten(1).isfinite().all(1), t):
                loss = self._loss(outputs, own)
                if self._all_finite(loss.detach().isfinite(), t):
                    self._update(loss)
                    continue
            return

    def step(self, rows: Tensor, t: int | Tensor) -> None:
        """One step on examples `rows (models, batch)` without checks, for capture in a graph."""
        loss = self._loss(self._run(rows), rows)
        first = ~loss.detach().isfinite() & (self.bad < 0)
        self.bad.copy_(torch.where(first, t, self.bad))
        self._update(loss)

    def _all_finite(self, finite: Tensor, t: int) -> bool:
        self.bad.masked_fill_(~finite, t)
        return bool(finite.all())

    def _run(self, rows: Tensor) -> Tensor:
        """Outputs of the models on their batches, `(models, batch, labels)`."""
        # Autograd adds gradients on the stream where a leaf was first used, which must be the
        # graph's, so every step has new leaves.
        self._leaves = {n: p.detach().requires_grad_() for n, p in self.parameters.items()}

        def run(parameters: dict[str, Tensor], x: Tensor) -> Any:
            return functional_call(self.skeleton, parameters, (x,))

        outputs: Tensor = vmap(run)(self._leaves, self.features[rows])
        return outputs

    def _loss(self, outputs: Tensor, rows: Tensor) -> Tensor:
        """The loss of each model, `(models,)`."""
        rows = rows.index_select(0, self.order)
        parts = outputs.index_select(0, self.order).split(self.sizes)
        found = []
        each = zip(self.losses, parts, rows.split(self.sizes), strict=True)
        for number, (loss, mine, chosen) in enumerate(each):
            with self.beside_others(number):
                values = loss(mine.flatten(0, 1), _take(self.target, chosen.flatten()))
                found.append(values.reshape(len(mine), -1).mean(1))
        self.wait_for_all()
        return torch.cat(found).index_select(0, self.place)

    def _update(self, loss: Tensor) -> None:
        loss.sum().backward()
        with torch.no_grad():
            for name, parameter in self.parameters.items():
                gradient, velocity = self._leaves[name].grad, self.velocity[name]
                if gradient is not None:
                    decay = _beside(self.decay[name], parameter)
                    velocity.mul_(self.momentum).add_(gradient).add_(decay * parameter)
                    parameter.sub_(_beside(self.rates, parameter) * velocity)

    def beside_others(self, number: int) -> AbstractContextManager[Any]:
        """The stream for one of the losses; a GPU may compute several concurrently."""
        return nullcontext()

    def wait_for_all(self) -> None:
        """Wait until all losses are computed."""

    def state(self) -> list[Tensor]:
        return [*self.parameters.values(), *self.velocity.values(), self.bad]

    @torch.no_grad()
    def write_back(self) -> None:
        for r, model in enumerate(self.models):
            for name, parameter in model.named_parameters():
                parameter.copy_(self.parameters[name][r])


def _per_example(loss: Any, device: torch.device) -> Any:
    own = copy.copy(loss.to(device))
    own.reduction = "none"
    return own


def _take(target: Tensor | SparseTarget, rows: Tensor) -> Tensor | SparseTarget:
    if isinstance(target, SparseTarget):
        return SparseTarget(target.indices[rows], target.weights[rows])
    return target[rows]


def _to(target: Tensor | SparseTarget, device: torch.device) -> Tensor | SparseTarget:
    if isinstance(target, SparseTarget):
        return SparseTarget(target.indices.to(device), target.weights.to(device))
    return target.to(device)


def _beside(values: Tensor, parameter: Tensor) -> Tensor:
    """Reshape one value per model to broadcast with a stacked parameter."""
    return values.to(parameter).view(-1, *[1] * (parameter.dim() - 1))
