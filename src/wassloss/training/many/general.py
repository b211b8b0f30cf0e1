"""Steps of many models of any kind: the models run side by side in `torch.func.vmap`.

The losses of wassloss end their loops on data, which vmap cannot follow; but they take each example
for itself, so that the batches of all models that share a loss are one larger batch to it.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor, nn
from torch.func import functional_call, stack_module_state, vmap

from wassloss.losses import RelaxedWassersteinLoss, WassersteinLoss
from wassloss.targets import SparseTarget, is_class_ids
from wassloss.training.many.data import Column, ManyData
from wassloss.training.optimizers import penalized, set_learning_rate
from wassloss.training.plan import TrainingPlan
from wassloss.training.steps import Loss

PER_EXAMPLE = (WassersteinLoss, RelaxedWassersteinLoss, nn.CrossEntropyLoss)


class GeneralSteps:
    """Stacked parameters, their optimisers and losses; attributes as in `LinearSteps`."""

    def __init__(
        self,
        models: Sequence[nn.Module],
        losses: Sequence[Loss],
        data: ManyData,
        plan: TrainingPlan,
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
        # Told from the models' own: stacked, a bias has two dimensions too.
        groups = {
            plan.weight_penalty: [name for name in trained if penalized(first[name])],
            0.0: [name for name in trained if not penalized(first[name])],
        }
        if not plan.weight_penalty:
            groups = {0.0: trained}
        self.trained = [self.parameters[name] for name in trained]
        self.optimizers = [
            plan.optimizer.build([self.parameters[name] for name in names], penalty)  # type: ignore[misc]
            for penalty, names in groups.items()
            if names
        ]
        device = self.trained[0].device
        self.losses = torch.zeros(len(models), dtype=torch.float64, device=device)
        self.bad = torch.full((len(models),), -1, device=device)
        self.columns = [_stacked(column, device) for column in data.columns]
        self.shares = _shares(losses, data, device)

    def advance(self, rows: Tensor, order_of: Tensor, lr: Tensor) -> None:
        rows = rows.to(self.losses.device)
        order_of = order_of.to(self.losses.device)
        self.bad.fill_(-1)
        for t in range(rows.shape[1]):
            if not self._step(rows[:, t].index_select(0, order_of), lr[t], t):
                return

    def _step(self, rows: Tensor, lr: Tensor, t: int) -> bool:
        """One step; False, with nothing changed, where a model has left the finite numbers."""
        features, *rest = (_take(column, rows) for column in self.columns)
        outputs = self._run(features)
        if not self._all_finite(outputs.detach().flatten(1).isfinite().all(1), t):
            return False
        loss = outputs.new_zeros(len(self.models))
        for share in self.shares:
            loss = loss.index_add(0, share.models, share(outputs, rest))
        if not self._all_finite(loss.detach().isfinite(), t):
            return False
        for parameter in self.trained:
            parameter.grad = None
        loss.sum().backward()
        self.losses += loss.detach()
        self._update(lr)
        return True

    def _run(self, features: Tensor) -> Tensor:
        def run(parameters: dict[str, Tensor], x: Tensor) -> Any:
            return functional_call(self.skeleton, parameters, (x,))

        try:
            outputs: Tensor = vmap(run, randomness="different")(self.parameters, features)
        except RuntimeError as error:
            raise ValueError(
                f"models must be ones that torch.func.vmap can run on these features: {error}; "
                "others are trained one by one"
            ) from error
        return outputs

    def _all_finite(self, finite: Tensor, t: int) -> bool:
        self.bad.masked_fill_(~finite, t)
        return bool(finite.all())

    @torch.no_grad()
    def _update(self, lr: Tensor) -> None:
        alike = bool((lr == lr[0]).all())
        before = [] if alike else [parameter.clone() for parameter in self.trained]
        for optimizer in self.optimizers:
            set_learning_rate(optimizer, float(lr[0]) if alike else 1.0)
            optimizer.step()
        # An optimiser has one learning rate, but what it does is proportional to it.
        for parameter, old in zip(self.trained, before, strict=not alike):
            rate = lr.to(parameter).view(-1, *[1] * (parameter.dim() - 1))
            parameter.copy_(old + rate * (parameter - old))

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

    def __init__(self, loss: Any, models: Tensor) -> None:
        self.loss = copy.copy(loss)
        self.loss.reduction = "none"
        self.models = models

    def __call__(self, outputs: Tensor, rest: list[Any]) -> Tensor:
        mine = outputs[self.models]
        target = _flat(_pick(rest[0], self.models))
        values: Tensor = self.loss(mine.flatten(0, 1), target)
        return values.reshape(len(mine), -1).mean(1)


class _OwnLoss:
    """The loss of one model, called as `train` calls it."""

    def __init__(self, loss: Loss, model: int, device: torch.device) -> None:
        self.loss, self.model = loss, model
        self.models = torch.tensor([model], device=device)

    def __call__(self, outputs: Tensor, rest: list[Any]) -> Tensor:
        value = self.loss(outputs[self.model], *(_pick(column, self.model) for column in rest))
        if value.dim():
            raise ValueError(
                f'losses must return one number (reduction="mean"), got {tuple(value.shape)}'
            )
        return value.unsqueeze(0)


def _shares(
    losses: Sequence[Loss], data: ManyData, device: torch.device
) -> list[_SharedLoss | _OwnLoss]:
    shares: list[_SharedLoss | _OwnLoss] = []
    of_loss: dict[int, list[int]] = {}
    for r, loss in enumerate(losses):
        of_loss.setdefault(id(loss), []).append(r)
    for models in of_loss.values():
        loss = losses[models[0]]
        if isinstance(loss, nn.Module):
            loss.to(device)
        if _takes_each_example_for_itself(loss, data):
            shares.append(_SharedLoss(loss, torch.tensor(models, device=device)))
        else:
            shares += [_OwnLoss(loss, r, device) for r in models]
    return shares


def _takes_each_example_for_itself(loss: Any, data: ManyData) -> bool:
    """Whether a mean over the batch is a plain one: no weights, nothing ignored."""
    if type(loss) not in PER_EXAMPLE or loss.weight is not None or loss.reduction != "mean":
        return False
    if len(data.columns) > 2:
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


def _take(column: tuple[Any, Tensor], rows: Tensor) -> Any:
    """The batch of each model, `(models, batch, …)`."""
    values, of = column
    if isinstance(values, SparseTarget):
        return SparseTarget(values.indices[of, rows], values.weights[of, rows])
    return values[of, rows]


def _pick(column: Any, models: Tensor | int) -> Any:
    if isinstance(column, SparseTarget):
        return SparseTarget(column.indices[models], column.weights[models])
    return column[models]


def _flat(column: Any) -> Any:
    if isinstance(column, SparseTarget):
        return SparseTarget(column.indices.flatten(0, 1), column.weights.flatten(0, 1))
    return column.flatten(0, 1)
