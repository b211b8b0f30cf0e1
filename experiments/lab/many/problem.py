"""What many linear models are trained on, where loss and gradient have a closed form.

With one label κ to each example, all of `h` goes there: the loss is `Σ h a + α KL` with
`a = M_·κ + ε log h`, its gradient in the logits `h (a − Σ h a) + α (h − e_κ)`. Cross-entropy is the
case `M = 0, ε = 0, α = 1`, so that models of either loss take the same step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from experiments.lab.many.data import ManyData
from wassloss.losses.modules import LARGEST_TABLE, WassersteinLoss
from wassloss.models import LinearSoftmax
from wassloss.targets import is_class_ids
from wassloss.training.steps import Loss
from wassloss.transport.objective import Regularizer


class OneLabelLoss(NamedTuple):
    """A loss for class ids, in numbers."""

    cost: Tensor | None  # (labels, labels): row κ has the costs to label κ; None is 0
    epsilon: float  # what `Σ h log h` is multiplied by
    kl_weight: float


@dataclass(frozen=True)
class LinearProblem:
    """Data and losses of all models, on one device and in one dtype.

    What several models have in common is kept once: `…_of (models,)` says which is whose.
    """

    features: Tensor  # (sets, examples, inputs); the last input is 1 where the models have a bias
    ids: Tensor  # (sets, examples)
    cost: Tensor  # (tables, labels, labels): row κ has the costs to label κ
    features_of: Tensor
    ids_of: Tensor
    cost_of: Tensor
    epsilon: Tensor  # (models,), float64
    kl_weight: Tensor  # (models,), float64
    bias: bool

    @property
    def models(self) -> int:
        return len(self.cost_of)

    @property
    def inputs(self) -> int:
        return self.features.shape[2]

    @property
    def labels(self) -> int:
        return self.cost.shape[1]


def linear_problem(
    models: Sequence[nn.Module], losses: Sequence[Loss], data: ManyData
) -> LinearProblem | None:
    """The problem, or None where there is no closed form for it."""
    if not all(type(model) is LinearSoftmax for model in models):
        return None
    if not all(parameter.requires_grad for model in models for parameter in model.parameters()):
        return None
    if not _plain(data):
        return None
    features, target = data.columns
    read = {id(loss): one_label_loss(loss) for loss in losses}
    found = [read[id(loss)] for loss in losses]
    kinds = [loss for loss in found if loss is not None]
    if len(kinds) < len(found):
        return None

    linear: Any = models[0].linear
    weight, bias = linear.weight, linear.bias is not None
    labels = len(weight)
    ids = torch.stack(target.values)
    if not bool(((ids >= 0) & (ids < labels)).all()):
        return None  # ignored examples, or mistakes: both are for the loss to see to
    x = torch.stack(features.values).to(weight.device)
    if x.dtype != weight.dtype or x.shape[2:] != weight.shape[1:]:
        return None
    if bias:
        x = torch.cat([x, x.new_ones(*x.shape[:2], 1)], 2)

    tables: dict[int, Tensor] = {}
    for kind in kinds:
        cost = weight.new_zeros(labels, labels) if kind.cost is None else kind.cost.to(weight)
        if cost.shape != (labels, labels):
            return None
        tables.setdefault(id(kind.cost), cost.detach())
    places = {key: place for place, key in enumerate(tables)}
    device = weight.device

    def numbers(values: Sequence[float]) -> Tensor:
        return torch.tensor(values, dtype=torch.float64, device=device)

    return LinearProblem(
        x.contiguous(),
        ids.to(device, torch.int64),
        torch.stack(list(tables.values())),
        features.of.to(device),
        target.of.to(device),
        torch.tensor([places[id(kind.cost)] for kind in kinds], device=device),
        numbers([kind.epsilon for kind in kinds]),
        numbers([kind.kl_weight for kind in kinds]),
        bias,
    )


def one_label_loss(loss: Loss) -> OneLabelLoss | None:
    """A loss in numbers; None where it has no closed form for class ids, or is not one of ours."""
    if type(loss) is nn.CrossEntropyLoss:
        plain = loss.weight is None and not loss.label_smoothing and loss.reduction == "mean"
        return OneLabelLoss(None, 0.0, 1.0) if plain else None
    if type(loss) is not WassersteinLoss or loss.weight is not None or loss.reduction != "mean":
        return None
    spec, metric = loss.spec, loss.metric
    usual = spec.options.solver is None and spec.options.scaling_iterations is None
    if not usual or (spec.debiased and not spec.objective.exact):
        return None
    if metric.requires_grad or metric.size > LARGEST_TABLE:
        return None
    plan = spec.objective.regularizer is Regularizer.PLAN
    epsilon = spec.objective.epsilon if plan else 0.0
    cost = metric.cost_columns(torch.arange(metric.size))
    return OneLabelLoss(cost, epsilon, loss.kl_weight)


def _plain(data: ManyData) -> bool:
    """Whether there are vectors and class ids, and nothing else."""
    if len(data.columns) != 2:
        return False
    features, target = data.columns
    vectors = all(isinstance(x, Tensor) and x.dim() == 2 for x in features.values)
    return vectors and all(is_class_ids(y) and y.dim() == 1 for y in target.values)
