"""Losses for labels of any kind."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from wassloss._checks import at_least_single, check_strength
from wassloss.ground.matrix import AnyMetric
from wassloss.losses.baselines.per_example import PerExampleLoss, cost_table, dense_shares, masses
from wassloss.losses.functional import divergence_at
from wassloss.losses.modules import WassersteinLoss
from wassloss.losses.softened import mixed
from wassloss.targets import Target


class KLLoss(PerExampleLoss):
    r"""`KL(target ‖ softmax(logits))`: its gradient is cross-entropy's.

    >>> KLLoss(2)(torch.zeros(1, 2), torch.tensor([[3.0, 3.0]]))
    tensor(0.)
    """

    def per_example(self, logits: Tensor, target: Target) -> Tensor:
        y = masses(target, self.labels, logits).normalized()
        return divergence_at(y, logits.log_softmax(1))


class ExpectedCostLoss(PerExampleLoss):
    r"""The expected cost of a prediction drawn at random: :math:`\sum_{ij} h_i y_j M_{ij}`.

    Args:
        kl_weight: weight of `KL(target ‖ prediction)`, as in :class:`~wassloss.WassersteinLoss`.

    >>> import wassloss as wl
    >>> ExpectedCostLoss(wl.ground.Ordinal(3))(torch.zeros(1, 3), torch.tensor([0]))
    tensor(1.)
    """

    cost: Tensor

    def __init__(
        self, metric: AnyMetric, *, kl_weight: float = 0.0, reduction: str = "mean"
    ) -> None:
        cost = cost_table(metric)
        super().__init__(len(cost), reduction=reduction)
        self.kl_weight = check_strength("kl_weight", kl_weight)
        self.register_buffer("cost", cost, persistent=False)

    def extra_repr(self) -> str:
        return f"kl_weight={self.kl_weight:g}, reduction={self.reduction!r}"

    def per_example(self, logits: Tensor, target: Target) -> Tensor:
        y, log_h = masses(target, self.labels, logits).normalized(), logits.log_softmax(1)
        columns = self.cost.to(logits.dtype)[y.indices]
        value = (log_h.exp() * mixed(y.weights, columns)).sum(1)
        return value + self.kl_weight * divergence_at(y, log_h) if self.kl_weight else value


class PoissonLoss(PerExampleLoss):
    r"""`KL~(target ‖ prediction)` of masses of any total.

    .. math:: \sum_i y_i \log(y_i / h_i) - y_i + h_i

    The negative log-likelihood of Poisson counts, less what depends on the counts alone. It takes
    logs of masses, as :class:`~wassloss.RelaxedWassersteinLoss` does, whose KL term it is.

    >>> PoissonLoss(2)(torch.tensor([[1.0, 3.0]]).log(), torch.tensor([[1.0, 3.0]]))
    tensor(0.)
    """

    def per_example(self, logits: Tensor, target: Target) -> Tensor:
        y = masses(target, self.labels, logits)
        return divergence_at(y, logits) - y.weights.sum(1) + logits.exp().sum(1)


class SoftLabelLoss(WassersteinLoss):
    r"""KL on labels softened by the metric: :math:`\propto \exp(-\beta\, M_{\cdot\kappa})`.

    With a taxonomy as the metric these are the soft labels of Bertinetto et al. (2020); with
    `Ordinal(labels, power=2)`, SORD of Díaz and Marathe (2019). It is
    :class:`~wassloss.WassersteinLoss` without its transport term, in the metric's own units.

    Args:
        beta: how sharp; infinitely sharp is cross-entropy.

    >>> import wassloss as wl
    >>> sord = SoftLabelLoss(wl.ground.Ordinal(3, power=2))
    >>> sord(torch.tensor([[0.0, -1.0, -4.0]]), torch.tensor([0]))
    tensor(0.)
    """

    def __init__(self, metric: AnyMetric, *, beta: float = 1.0, reduction: str = "mean") -> None:
        if not check_strength("beta", beta) > 0:
            raise ValueError(f"beta must be positive, got {beta}")
        super().__init__(
            metric,
            kl_weight=1.0,
            softening=1 / beta,
            transport_weight=0.0,
            normalize_target=True,
            own_units=True,
            reduction=reduction,
        )


class QuadraticFormLoss(PerExampleLoss):
    r"""The squared quadratic form distance, QFD², of Wen et al. (2023).

    .. math:: (h - y)^\top A\, (h - y), \qquad A_{ij} = 1 - M_{ij} / \max M

    With `Ordinal(labels)` it is `2 / (labels − 1)` times :class:`SquaredEMDLoss`.

    >>> import wassloss as wl
    >>> QuadraticFormLoss(wl.ground.Ordinal(3))(torch.zeros(1, 3), torch.tensor([0]))
    tensor(0.5556)
    """

    similarity: Tensor

    def __init__(self, metric: AnyMetric, *, reduction: str = "mean") -> None:
        cost = cost_table(metric, relative=True)
        super().__init__(len(cost), reduction=reduction)
        self.register_buffer("similarity", 1 - cost, persistent=False)

    def per_example(self, logits: Tensor, target: Target) -> Tensor:
        gap = logits.softmax(1) - dense_shares(target, self.labels, logits)
        return ((gap @ self.similarity.to(gap.dtype)) * gap).sum(1)


class WeightedKappaLoss(nn.Module):
    r"""One minus the weighted kappa of a batch (de la Torre, Puig and Valls, 2018).

    .. math:: \frac{\sum_n \sum_{ij} h_{ni}\, y_{nj}\, M_{ij}}
        {\frac1N \sum_{ij} (\sum_n h_{ni}) (\sum_n y_{nj})\, M_{ij}}

    Quadratic weights are `Ordinal(labels, power=2)`. It depends on the batch as a whole, so it has
    no ``reduction``, and a batch of one example has always the loss 1.

    >>> import wassloss as wl
    >>> loss_fn = WeightedKappaLoss(wl.ground.Ordinal(3, power=2))
    >>> loss_fn(10 * torch.eye(3), torch.tensor([0, 1, 2])) < 0.001
    tensor(True)
    """

    cost: Tensor

    def __init__(self, metric: AnyMetric) -> None:
        super().__init__()
        self.register_buffer("cost", cost_table(metric), persistent=False)

    def forward(self, logits: Tensor, target: Target) -> Tensor:
        logits = at_least_single(logits)
        with torch.autocast(logits.device.type, enabled=False):
            y, h = dense_shares(target, len(self.cost), logits), logits.softmax(1)
            cost = self.cost.to(h.dtype).T  # row i: from label i
            by_chance = ((h.mean(0) @ cost) * y.mean(0)).sum()
            tiny = torch.finfo(h.dtype).tiny
            return ((h @ cost) * y).sum(1).mean() / by_chance.clamp(min=tiny)
