"""Steps of many models of any kind: the models run side by side in `torch.func.vmap`.

The losses of wassloss end their loops on data, which vmap cannot follow; but they take each example
for itself, so that the batches of all models that share a loss are one larger batch to it.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from experiments.lab.many.data import Column, ManyData
from wassloss.losses import RelaxedWassersteinLoss, WassersteinLoss
from wassloss.losses.baselines import PerExampleLoss
from wassloss.targets import SparseTarget, is_class_ids
from wassloss.training.plan import TrainingPlan, decays, set_learning_rate
from wassloss.training.steps import Loss

PER_EXAMPLE = (WassersteinLoss, RelaxedWassersteinLoss, nn.CrossEntropyLoss)


class GeneralSteps:
    """Stacked parameters, their optimisers and losses; attributes as in `LinearSteps`."""

    capturable = False  # whether the optimisers' steps can be held by a CUDA graph

    def __init__(
        self,
        models: Sequence[nn.Module],
        losses: Sequence[Loss],
        data: ManyData,
        plan: TrainingPlan,
        weight_decays: Tensor,
    ) -> None:
        self.models = models
        stacked, buffers = stack_module_state(list(models))
        if buffers:
            raise ValueError(
                f"models must have no buffers to be trained together, got {sorted(buffers)}; "
                "train them one by one"
            )
        self.parameters: dict[str, Tensor] = stacked
        self.skeleton = copy.deepcopy(models[0]).to("meta")
        first = dict(models[0].named_parameters())
        trained = [name for name, parameter in first.items() if parameter.requires_grad]
        if not trained:
            raise ValueError("models must have parameters to train, got none that requires grad")
        self.trained = [self.parameters[name] for name in trained]
        # Told from the models' own: stacked, a bias has two dimensions too.
        weights = [name for name in trained if decays(first[name])]
        alike = bool((weight_decays == weight_decays[0]).all())
        self.decay = (
            {} if alike else {name: _beside(weight_decays, first[name]) for name in weights}
        )
        if self.decay and plan.optimizer == "adamw":
            raise ValueError("weight_decays must be equal for AdamW, whose decay has one rate")
        groups = {float(weight_decays[0]): weights, 0.0: [n for n in trained if n not in weights]}
        if not alike or not weight_decays[0]:
            groups = {0.0: trained}
        self.optimizers = [
            replace(plan, weight_decay=decay).build_optimizer(
                [self.parameters[name] for name in names],  # type: ignore[misc]
                self.capturable,
            )
            for decay, names in groups.items()
            if names
        ]
        device = self.trained[0].device
        self.losses = torch.zeros(len(models), dtype=torch.float64, device=device)
        self.bad = torch.full((len(models),), -1, device=device)
        self.columns = [_stacked(column, device) for column in data.columns]
        self.shares, order = _shares(losses, data, device)
        self.order = torch.tensor(order, device=device)  # of the models, those of one loss together
        self.place = self.order.argsort()  # where each is found
        self._leaves: dict[str, Tensor] = {}

    def advance(self, rows: Tensor, order_of: Tensor, lr: Tensor) -> None:
        rows = rows.to(self.losses.device)
        order_of = order_of.to(self.losses.device)
        self.bad.fill_(-1)
        for t in range(rows.shape[1]):
            if not self._step(rows[:, t].index_select(0, order_of), lr[t], t):
                return

    def _step(self, rows: Tensor, lr: Tensor, t: int) -> bool:
        """One step; False, with nothing changed, where a model has left the finite numbers."""
        features, *rest = (take(column, rows) for column in self.columns)
        outputs = self._run(features)
        if not self._all_finite(outputs.detach().flatten(1).isfinite().all(1), t):
            return False
        loss = self._loss(outputs, rest)
        if not self._all_finite(loss.detach().isfinite(), t):
            return False
        self._differentiate(loss)
        self.losses += loss.detach()
        if bool((lr == lr[0]).all()):
            self._update(float(lr[0]))
        else:
            self._update_by(lr)
        return True

    def _loss(self, outputs: Tensor, rest: list[Any]) -> Tensor:
        """Of each model, `(models,)`."""
        # Models of one loss lie together, so that autograd puts the gradients of the parts end to
        # end instead of adding them up.
        rest = [pick(column, self.order) for column in rest]
        parts = outputs.index_select(0, self.order).split([share.size for share in self.shares])
        found, first = [], 0
        for number, (share, mine) in enumerate(zip(self.shares, parts, strict=True)):
            own = slice(first, first + share.size)
            with self._beside_others(number):
                found.append(share(mine, [pick(column, own) for column in rest]))
            first += share.size
        self._wait_for_all()
        return torch.cat(found).index_select(0, self.place)

    def _beside_others(self, number: int) -> AbstractContextManager[Any]:
        """Where a device can compute several losses at the same time, it does so inside."""
        return nullcontext()

    def _wait_for_all(self) -> None:
        """Until all of them are computed."""

    def _differentiate(self, loss: Tensor) -> None:
        """Leave each parameter its gradient."""
        loss.sum().backward()
        for name, leaf in self._leaves.items():
            parameter, gradient = self.parameters[name], leaf.grad
            if gradient is not None and name in self.decay:
                gradient = torch.addcmul(gradient, self.decay[name], parameter.detach())
            parameter.grad = gradient

    def _run(self, features: Tensor) -> Tensor:
        # Autograd sums gradients on the stream a leaf was first used on, which for a CUDA graph
        # must be its own: so each step has leaves of its own.
        self._leaves = {
            name: parameter.detach().requires_grad_(parameter.requires_grad)
            for name, parameter in self.parameters.items()
        }

        def run(parameters: dict[str, Tensor], x: Tensor) -> Any:
            return functional_call(self.skeleton, parameters, (x,))

        try:
            outputs: Tensor = vmap(run, randomness="different")(self._leaves, features)
        except RuntimeError as error:
            raise ValueError(
                f"models must be ones that torch.func.vmap can run on these features: {error}; "
                "others are trained one by one"
            ) from error
        return outputs

    def _all_finite(self, finite: Tensor, t: int) -> bool:
        self.bad.masked_fill_(~finite, t)
        return bool(finite.all())

    def _update(self, lr: float) -> None:
        for optimizer in self.optimizers:
            set_learning_rate(optimizer, lr)
            optimizer.step()

    @torch.no_grad()
    def _update_by(self, lr: Tensor) -> None:
        """Each model at its own rate: an optimiser has one, but is proportional to it."""
        before = [parameter.clone() for parameter in self.trained]
        self._update(1.0)
        for parameter, old in zip(self.trained, before, strict=True):
            rate = lr.to(parameter).view(-1, *[1] * (parameter.dim() - 1))
            torch.lerp(old, parameter, rate, out=parameter)

    def tensors(self) -> dict[str, Tensor]:
        found = {f"parameter.{name}": tensor for name, tensor in self.parameters.items()}
        for place, optimizer in enumerate(self.optimizers):
            for index, values in optimizer.state_dict()["state"].items():
                found |= {
                    f"optimizer.{place}.{index}.{name}": value
                    for name, value in values.items()
                    if isinstance(value, Tensor)
                }
        return found | {"losses": self.losses}

    @torch.no_grad()
    def load(self, tensors: dict[str, Tensor]) -> None:
        self.losses.copy_(tensors["losses"])
        for name, parameter in self.parameters.items():
            parameter.copy_(tensors[f"parameter.{name}"])
        for place, optimizer in enumerate(self.optimizers):
            start, state = f"optimizer.{place}.", dict[int, dict[str, Tensor]]()
            for name, tensor in tensors.items():
                if name.startswith(start):
                    index, key = name.removeprefix(start).split(".", 1)
                    state.setdefault(int(index), {})[key] = tensor
            groups = optimizer.state_dict()["param_groups"]
            optimizer.load_state_dict({"state": state, "param_groups": groups})

    @torch.no_grad()
    def write_back(self) -> None:
        for r, model in enumerate(self.models):
            for name, parameter in model.named_parameters():
                parameter.copy_(self.parameters[name][r])


class _SharedLoss:
    """The losses of some models, whose batches are one batch to a loss that they share."""

    def __init__(self, loss: Any, size: int) -> None:
        self.loss = copy.copy(loss)
        self.loss.reduction = "none"
        self.size = size  # how many models

    def __call__(self, outputs: Tensor, rest: list[Any]) -> Tensor:
        values: Tensor = self.loss(outputs.flatten(0, 1), _flat(rest[0]))
        return values.reshape(self.size, -1).mean(1)


class _OwnLoss:
    """The loss of one model, called as `train` calls it."""

    size = 1

    def __init__(self, loss: Loss) -> None:
        self.loss = loss

    def __call__(self, outputs: Tensor, rest: list[Any]) -> Tensor:
        value = self.loss(outputs.squeeze(0), *(pick(column, 0) for column in rest))
        if value.dim():
            raise ValueError(
                f'losses must return one number (reduction="mean"), got {tuple(value.shape)}'
            )
        return value.unsqueeze(0)


def _shares(
    losses: Sequence[Loss], data: ManyData, device: torch.device
) -> tuple[list[_SharedLoss | _OwnLoss], list[int]]:
    """The losses, and the models in the order of their losses."""
    shares: list[_SharedLoss | _OwnLoss] = []
    of_loss: dict[int, list[int]] = {}
    for r, loss in enumerate(losses):
        of_loss.setdefault(id(loss), []).append(r)
    for models in of_loss.values():
        loss = losses[models[0]]
        if isinstance(loss, nn.Module):
            loss.to(device)
        if _takes_each_example_for_itself(loss, data):
            shares.append(_SharedLoss(loss, len(models)))
        else:
            shares += [_OwnLoss(loss) for _ in models]
    return shares, [r for models in of_loss.values() for r in models]


def _takes_each_example_for_itself(loss: Any, data: ManyData) -> bool:
    """Whether a mean over the batch is a plain one: no weights, nothing ignored."""
    known = isinstance(loss, PerExampleLoss) or type(loss) in PER_EXAMPLE
    if not known or loss.reduction != "mean" or len(data.columns) > 2:
        return False
    if isinstance(loss, PerExampleLoss):
        return True
    if loss.weight is not None:
        return False
    targets = data.columns[1].values
    return not any(is_class_ids(y) and bool((y == loss.ignore_index).any()) for y in targets)


def _stacked(column: Column, device: torch.device) -> tuple[Any, Tensor]:
    values, of = column.values, column.of.to(device).unsqueeze(1)
    if not isinstance(values[0], SparseTarget):
        return torch.stack(values).to(device), of
    indices = torch.stack([value.indices for value in values]).to(device)
    weights = torch.stack([value.weights for value in values]).to(device)
    return SparseTarget(indices, weights), of


def take(column: tuple[Any, Tensor], rows: Tensor) -> Any:
    """The batch of each model, `(models, batch, …)`."""
    values, of = column
    if isinstance(values, SparseTarget):
        return SparseTarget(values.indices[of, rows], values.weights[of, rows])
    return values[of, rows]


def pick(column: Any, models: Tensor | slice | int) -> Any:
    """What belongs to some of the models."""
    if isinstance(column, SparseTarget):
        return SparseTarget(column.indices[models], column.weights[models])
    return column[models]


def _beside(values: Tensor, parameter: Tensor) -> Tensor:
    """One value a model, shaped to go with that parameter of all models."""
    return values.to(parameter).view(-1, *[1] * parameter.dim())


def _flat(column: Any) -> Any:
    if isinstance(column, SparseTarget):
        return SparseTarget(column.indices.flatten(0, 1), column.weights.flatten(0, 1))
    return column.flatten(0, 1)
