"""What one would otherwise pick: losses to compare with, each a line to switch to.

======================  ==========================================================================
KLLoss                  cross-entropy less the target's entropy: the baseline, blind to the metric
ExpectedCostLoss        the cost of a label drawn from the prediction, whatever the target: the
                        Wasserstein loss whose plan is the independent coupling
SquaredEMDLoss          squared differences of cumulative masses, for ordered labels
PoissonLoss             KL of masses of any total: what counts are usually trained with
WeightedSum             several losses, weighed and added
NearestCostRegression   no loss: a ridge regression of the cost, to subtract from a model's scores
======================  ==========================================================================

The losses take logits `(batch, labels)` and targets in any form (see :mod:`wassloss.targets`), of
which each is divided by its sum; only :class:`PoissonLoss` takes logs of masses, and targets as
they are.

KL on labels that are softened by the metric is `WassersteinLoss(metric, softening=…,
transport_weight=0)`. How the two are related: with one label κ the plan-regularised loss
is, up to a constant, `ε KL(h ‖ s_κ)` with the softened label `s_κ ∝ exp(−M_·κ/ε)`. KL on softened
labels is `KL(s_κ ‖ h)`: the same optimum where the model can reach it, another compromise where it
cannot.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from wassloss._checks import check_choice, check_number, check_strength
from wassloss.ground import GroundMetric
from wassloss.ground.matrix import as_ground_metric
from wassloss.losses.functional import divergence_at
from wassloss.losses.modules import REDUCTIONS
from wassloss.losses.softened import mixed, nearest_costs
from wassloss.targets import SparseTarget, Target, read_target

__all__ = [
    "ExpectedCostLoss",
    "KLLoss",
    "NearestCostRegression",
    "PerExampleLoss",
    "PoissonLoss",
    "SquaredEMDLoss",
    "WeightedSum",
]


class PerExampleLoss(nn.Module):
    """A loss that takes each example for itself.

    Args:
        labels: how many, where the loss needs to know no more of them.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.
    """

    def __init__(self, labels: int = 0, *, reduction: str = "mean") -> None:
        super().__init__()
        check_choice("reduction", reduction, REDUCTIONS)
        self.labels = labels
        self.reduction = reduction

    def forward(self, logits: Tensor, target: Target) -> Tensor:
        values = self.per_example(logits, target)
        if self.reduction == "none":
            return values
        return values.mean() if self.reduction == "mean" else values.sum()

    def per_example(self, logits: Tensor, target: Target) -> Tensor:
        """Losses `(batch,)`."""
        raise NotImplementedError


class KLLoss(PerExampleLoss):
    r"""`KL(target ‖ softmax(logits))`: its gradient is cross-entropy's.

    >>> KLLoss(2)(torch.zeros(1, 2), torch.tensor([[3.0, 3.0]]))
    tensor(0.)
    """

    def per_example(self, logits: Tensor, target: Target) -> Tensor:
        y = _shares(target, self.labels, logits)
        return divergence_at(y, logits.log_softmax(1))


class ExpectedCostLoss(PerExampleLoss):
    r"""The expected cost of a prediction drawn at random: :math:`\sum_{ij} h_i y_j M_{ij}`.

    Args:
        metric: the ground metric, or a matrix of distances; for other costs,
            :class:`~wassloss.ground.Cost`.
        kl_weight: weight of `KL(target ‖ prediction)`, as in :class:`~wassloss.WassersteinLoss`.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    >>> import wassloss as wl
    >>> ExpectedCostLoss(wl.ground.Ordinal(3))(torch.zeros(1, 3), torch.tensor([0]))
    tensor(1.)
    """

    cost: Tensor

    def __init__(
        self,
        metric: GroundMetric | Tensor | NDArray[Any],
        *,
        kl_weight: float = 0.0,
        reduction: str = "mean",
    ) -> None:
        super().__init__(reduction=reduction)
        self.kl_weight = check_strength("kl_weight", kl_weight)
        self.register_buffer("cost", _table(metric), persistent=False)

    def extra_repr(self) -> str:
        return f"kl_weight={self.kl_weight:g}, reduction={self.reduction!r}"

    def per_example(self, logits: Tensor, target: Target) -> Tensor:
        y, log_h = _shares(target, len(self.cost), logits), logits.log_softmax(1)
        columns = self.cost.to(logits.dtype)[y.indices]
        value = (log_h.exp() * mixed(y.weights, columns)).sum(1)
        return value + self.kl_weight * divergence_at(y, log_h) if self.kl_weight else value


class SquaredEMDLoss(PerExampleLoss):
    r"""Squared differences of cumulative masses of ordered labels (Hou, Yu and Samaras, 2016).

    .. math:: \sum_i \Bigl( \sum_{j \le i} h_j - y_j \Bigr)^2

    Args:
        labels: how many; neighbours are all as far apart.
        reduction: ``"mean"``, ``"sum"`` or ``"none"``.

    >>> SquaredEMDLoss(2)(torch.zeros(1, 2), torch.tensor([0]))
    tensor(0.2500)
    """

    def per_example(self, logits: Tensor, target: Target) -> Tensor:
        y = _shares(target, self.labels, logits)
        dense = torch.zeros_like(logits).scatter_add(1, y.indices.expand_as(y.weights), y.weights)
        return ((logits.softmax(1) - dense).cumsum(1) ** 2).sum(1)


class PoissonLoss(PerExampleLoss):
    r"""`KL~(target ‖ prediction)` of masses of any total.

    .. math:: \sum_i y_i \log(y_i / h_i) - y_i + h_i

    The negative log-likelihood of Poisson counts, less what depends on the counts alone. It takes
    logs of masses, as :class:`~wassloss.RelaxedWassersteinLoss` does, whose KL term it is.

    >>> PoissonLoss(2)(torch.tensor([[1.0, 3.0]]).log(), torch.tensor([[1.0, 3.0]]))
    tensor(0.)
    """

    def per_example(self, logits: Tensor, target: Target) -> Tensor:
        y = _masses(target, self.labels, logits)
        return divergence_at(y, logits) - y.weights.sum(1) + logits.exp().sum(1)


class WeightedSum(PerExampleLoss):
    """A sum of losses.

    Args:
        losses: modules that have a `reduction`, which is taken over.
        weights: one for each.
        reduction: of the sum.

    >>> import wassloss as wl
    >>> grades = wl.ground.Ordinal(5)
    >>> parts = [wl.WassersteinLoss(grades), SquaredEMDLoss(5)]
    >>> loss_fn = WeightedSum(parts, [1.0, 0.1])
    """

    def __init__(
        self, losses: Sequence[nn.Module], weights: Sequence[float], *, reduction: str = "mean"
    ) -> None:
        super().__init__(reduction=reduction)
        if len(losses) != len(weights) or not losses:
            raise ValueError(
                f"weights must be one for each loss, got {len(weights)} for {len(losses)}"
            )
        for loss in losses:
            if not hasattr(loss, "reduction"):
                raise TypeError(f"losses must have a reduction, got {type(loss).__name__}")
            loss.reduction = "none"  # type: ignore[assignment]
        self.losses = nn.ModuleList(losses)
        self.weights = [check_number("weights", weight) for weight in weights]

    def per_example(self, logits: Tensor, target: Target) -> Tensor:
        parts = zip(self.losses, self.weights, strict=True)
        return torch.stack([weight * loss(logits, target) for loss, weight in parts]).sum(0)


class NearestCostRegression:
    r"""Ridge regression of every label's cost to its nearest true label, in closed form.

    That cost is what proposing the label adds to the top-k cost, so :meth:`costs` ranks labels by
    what a linear model knows of it. Subtracted from the log-probabilities of a model that was
    trained as usual, :math:`\log h - \beta\, \hat c(x)` trades ranking for cost; :math:`\beta` is
    chosen on validation data.

    Args:
        metric: the ground metric, or a matrix of distances; for other costs,
            :class:`~wassloss.ground.Cost`.
        ridge: weight of the squared weights beside the mean squared error, positive; features are
            centred.

    >>> import wassloss as wl
    >>> regression = NearestCostRegression(wl.ground.Ordinal(3)).fit(
    ...     torch.tensor([[-1.0], [1.0]]), torch.tensor([0, 2])
    ... )
    >>> regression.costs(torch.tensor([[-1.0]])).argmin(1)
    tensor([0])
    """

    def __init__(self, metric: GroundMetric | Tensor | NDArray[Any], *, ridge: float = 0.1) -> None:
        self.cost = _table(metric)
        self.ridge = check_number("ridge", ridge)
        if not 0 < self.ridge < math.inf:
            raise ValueError(f"ridge must be positive and finite, got {ridge}")
        self.weights: Tensor | None = None

    def fit(self, features: Tensor, target: Target) -> NearestCostRegression:
        """Learn from features `(n, d)` and targets in any form."""
        x = features.double()
        if x.dim() != 2 or not len(x):
            raise ValueError(f"features must have shape (n, d), n at least 1, got {tuple(x.shape)}")
        if not bool(x.isfinite().all()):
            raise ValueError("features must be finite, got NaN or infinity")
        read, _ = read_target(target, len(self.cost), x.shape[:1], x)
        indices = read.indices.expand(len(x), -1)  # one row for all, where targets are dense
        # In pieces, which bounds the block of costs that is looked at, (256, support, labels).
        pieces = zip(indices.split(256), read.weights.split(256), strict=True)
        cost = self.cost.to(x.device)
        y = torch.cat([nearest_costs(weights, cost[own]) for own, weights in pieces]).double()
        self.mean, self.offset = x.mean(0), y.mean(0)
        x = x - self.mean
        gram = x.T @ x / len(x) + self.ridge * torch.eye(x.shape[1], dtype=x.dtype, device=x.device)
        self.weights = torch.linalg.solve(gram, x.T @ (y - self.offset) / len(x))
        return self

    def costs(self, features: Tensor) -> Tensor:
        """Predicted costs `(n, labels)`, in the dtype of the features."""
        if self.weights is None:
            raise ValueError("costs needs a regression that was fitted: call fit first")
        predicted: Tensor = (features.double() - self.mean) @ self.weights + self.offset
        return predicted.to(features.dtype)


def _shares(target: Target, labels: int, logits: Tensor) -> SparseTarget:
    """The target's labels and what part of its mass each has."""
    return _masses(target, labels, logits).normalized()


def _masses(target: Target, labels: int, logits: Tensor) -> SparseTarget:
    """The target's labels and the mass of each."""
    if logits.dim() != 2 or logits.shape[1] != labels:
        raise ValueError(f"logits must have shape (batch, {labels}), got {tuple(logits.shape)}")
    read, _ = read_target(target, labels, logits.shape[:1], logits)
    return read


def _table(metric: GroundMetric | Tensor | NDArray[Any]) -> Tensor:
    """All costs: row j has those from every label to label j."""
    metric = as_ground_metric(metric)
    return metric.cost_columns(torch.arange(metric.size)).detach()
