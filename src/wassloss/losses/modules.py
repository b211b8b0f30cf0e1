"""Losses as modules, with class weights, a reduction, and a metric that follows the module."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any, ClassVar

import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from wassloss._checks import check_choice, check_flag
from wassloss.ground import GroundMetric
from wassloss.ground.matrix import as_ground_metric
from wassloss.losses.evaluate import Evaluate
from wassloss.losses.inputs import check_class_weights, checked_sample_weight
from wassloss.losses.reduce import REDUCTIONS, PerExample, weight_of_classes
from wassloss.losses.spec import LossSpec
from wassloss.targets import ReadSets, ReadTarget, TargetOrSets
from wassloss.transport.solver import Solver

# Defaults of all losses, estimators and comparisons; docs/defaults.md has the evidence.
EPSILON = 0.2
KL_WEIGHT = 0.5
LARGEST_TABLE = 2048  # most labels for which losses precompute all costs


class MetricModule(nn.Module):
    """A module whose metric, and other attributes named in `_FOLLOWING`, move with it.

    Unlike buffers, they keep their dtype.
    """

    metric: GroundMetric
    _FOLLOWING: ClassVar[tuple[str, ...]] = ("metric",)

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> Any:
        device = fn(torch.empty(0, device=self.metric.device)).device
        for name in self._FOLLOWING:
            setattr(self, name, getattr(self, name).to(device=device))
        return super()._apply(fn, recurse)


class TransportLoss(MetricModule):
    """Base class of the losses: a metric that follows the module, weights, and a reduction.

    Attributes:
        unsolved: the number of failed examples in replays of CUDA graphs with this loss, which can
            neither warn nor raise. These examples did not converge, or are invalid and have a loss
            of NaN.
    """

    weight: Tensor | None
    unsolved: Tensor

    def __init__(self, spec: LossSpec, weight: Tensor | None, reduction: str) -> None:
        super().__init__()
        self._evaluate = Evaluate(spec)
        check_choice("reduction", reduction, REDUCTIONS)
        if weight is not None:
            check_class_weights(weight, spec.metric.size, spec.metric.device)
        self.reduction = reduction
        self.register_buffer("weight", weight)
        unsolved = torch.zeros((), dtype=torch.long, device=spec.metric.device)
        self.register_buffer("unsolved", unsolved, persistent=False)

    def forward(
        self, logits: Tensor, target: TargetOrSets, sample_weight: Tensor | None = None
    ) -> Tensor:
        losses, read = self._evaluate(logits, target, self.unsolved)
        return losses.reduced(self.reduction, self._share(losses, read, sample_weight))

    def value_and_gradient(self, logits: Tensor, target: TargetOrSets) -> tuple[Tensor, Tensor]:
        """The loss per example and its gradient in the logits, without the overhead of autograd.

        It is meant for optimisers outside of torch, and ignores `weight` and `reduction`.
        """
        return self._evaluate.with_gradient(logits, target)

    @property
    def spec(self) -> LossSpec:
        """The settings of the loss."""
        return self._evaluate.spec

    @property
    def metric(self) -> GroundMetric:
        """The ground metric, on the module's device."""
        return self.spec.metric

    @metric.setter
    def metric(self, metric: GroundMetric) -> None:
        if metric is not self.spec.metric:
            self._evaluate = Evaluate(replace(self.spec, metric=metric))

    @property
    def kl_weight(self) -> float:
        """The paper's α, which may be changed during training."""
        return self.spec.kl_weight

    @kl_weight.setter
    def kl_weight(self, value: float) -> None:
        self._evaluate = Evaluate(replace(self.spec, kl_weight=value))

    @property
    def ignore_index(self) -> int:
        """The class id of examples that do not count."""
        return self.spec.ignore_index

    def extra_repr(self) -> str:
        objective, options = self.spec.objective, self.spec.options
        gamma = "" if objective.balanced else f", gamma={objective.gamma}"
        shown = {
            "softening": self.spec.softening,
            "debiased": self.spec.debiased,
            "scaling_iterations": options.scaling_iterations,
        }
        extra = "".join(f", {name}={value}" for name, value in shown.items() if value)
        return (
            f"{self.metric!r}, epsilon={objective.epsilon:.4g}{gamma}, "
            f"regularizer={objective.regularizer.value!r}, kl_weight={self.kl_weight:g}, "
            f"reduction={self.reduction!r}{extra}"
        )

    def _share(
        self, losses: PerExample, target: ReadTarget | ReadSets, sample_weight: Tensor | None
    ) -> Tensor | None:
        """The weight per example; None if all are 1."""
        share: Tensor | None = None
        if sample_weight is not None:
            share = checked_sample_weight(sample_weight, losses.shape, losses.values.device).to(
                losses.values.dtype
            )
        if self.weight is not None:
            of_example = weight_of_classes(self.weight.to(losses.values.dtype), target)
            of_example = of_example.reshape(losses.shape)
            share = of_example if share is None else share * of_example
        return share


def metric_of_loss(
    metric: GroundMetric | Tensor | NDArray[Any], normalize_cost: bool
) -> GroundMetric:
    """The metric of a loss: normalised if requested, and tabulated if it has few labels."""
    metric = as_ground_metric(metric)
    if check_flag("normalize_cost", normalize_cost):
        metric = metric.in_medians()
    small = metric.size <= LARGEST_TABLE and not metric.requires_grad
    return metric.tabulated() if small else metric


class WassersteinLoss(TransportLoss):
    r"""`W(softmax(logits), target) + kl_weight · KL`, a replacement for `CrossEntropyLoss`.

    Costs are in units of the median cost between two different labels, so that the defaults, and
    the learning rate of cross-entropy, suit every metric.

    Args:
        metric: the ground metric of the labels, or a matrix of distances; for other costs,
            :class:`~wassloss.ground.Cost`. Its scale has an effect only with
            `normalize_cost=False`.
        epsilon: entropic strength, `1/λ` in the paper; 0 is the exact Wasserstein loss.
        kl_weight: the paper's α in `W + α KL`; 0 is the Wasserstein loss alone.
        softening: if positive, KL compares with softened labels: each label κ becomes
            :math:`\propto \exp(-M_{\cdot\kappa} / \text{softening})`.
        transport_weight: weight of `W`; 0 leaves only KL.
        regularizer: ``"plan"``, as in the paper, or ``"product"``.
        debiased: use the Sinkhorn divergence instead.
        normalize_target: divide each target by its sum, for targets such as multi-hot rows of tags.
        weight: weight per class, `(labels,)`; an example has the mean weight of its classes.
        ignore_index: the class id of examples that do not count.
        reduction: ``"mean"`` (weighted), ``"sum"`` or ``"none"``.
        normalize_cost: divide costs by their median; False keeps the metric's costs.
        tol, max_iterations, scaling_iterations, solver: options of the solver; see
            :mod:`wassloss.losses`.

    Shapes:
        - logits: `(batch, labels)`, `(batch, labels, …)` or `(labels,)`.
        - target: class ids, dense weights, :class:`~wassloss.SparseTarget` or `torch.sparse`; or
          sets of labels, :class:`~wassloss.SetTarget`. See :mod:`wassloss.targets`.
        - output: a scalar, or the logits' shape without labels if `reduction="none"`.

    Gradients are first-order: a double backward raises an error.

    >>> import torch, wassloss as wl
    >>> loss_fn = wl.WassersteinLoss(wl.ground.Ordinal(5))
    >>> logits = torch.zeros(3, 5, requires_grad=True)
    >>> loss_fn(logits, torch.tensor([0, 2, 4])).backward()
    >>> logits.grad[0].argmin()  # descent raises the logit of the true label
    tensor(0)
    """

    def __init__(
        self,
        metric: GroundMetric | Tensor | NDArray[Any],
        *,
        epsilon: float = EPSILON,
        kl_weight: float = KL_WEIGHT,
        softening: float = 0.0,
        transport_weight: float = 1.0,
        regularizer: str = "plan",
        debiased: bool = False,
        normalize_target: bool = False,
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        normalize_cost: bool = True,
        tol: float | None = None,
        max_iterations: int | None = None,
        scaling_iterations: int | None = None,
        solver: Solver | None = None,
    ) -> None:
        spec = LossSpec.checked(
            metric_of_loss(metric, normalize_cost),
            epsilon=epsilon,
            kl_weight=kl_weight,
            softening=softening,
            transport_weight=transport_weight,
            regularizer=regularizer,
            debiased=debiased,
            normalize_target=normalize_target,
            ignore_index=ignore_index,
            tol=tol,
            max_iterations=max_iterations,
            scaling_iterations=scaling_iterations,
            solver=solver,
        )
        super().__init__(spec, weight, reduction)

    @classmethod
    def as_in_paper(
        cls,
        metric: GroundMetric | Tensor | NDArray[Any],
        *,
        epsilon: float = 1 / 50,
        kl_weight: float = 0.0,
        scaling_iterations: int = 10,
        **keywords: Any,
    ) -> WassersteinLoss:
        """The training loss of the paper: ten iterations of Algorithm 1, λ = 50.

        Costs are not normalised. The paper's tags have distances of unit vectors and `power=13`,
        and `kl_weight` is its α.

        >>> import wassloss as wl
        >>> wl.WassersteinLoss.as_in_paper(wl.ground.Discrete(3)).spec.options.scaling_iterations
        10
        """
        return cls(
            metric,
            epsilon=epsilon,
            kl_weight=kl_weight,
            scaling_iterations=scaling_iterations,
            normalize_cost=False,
            **keywords,
        )


class NearestWassersteinLoss(TransportLoss):
    r"""The cost to the nearest true label, for predictions that need to be near only one of them.

    With several true labels, the Wasserstein loss requires mass near *each* of them. This loss
    leaves the target's marginal free (relaxed transport with :math:`\gamma = (\infty, 0)`), which
    has a closed form:

    .. math:: \sum_i h_i \min_j M_{ij} \quad\text{or}\quad
              -\varepsilon \sum_i h_i \log \sum_j y_j e^{-M_{ij} / \varepsilon}

    for :math:`\varepsilon = 0` and for the ``"product"`` regulariser. It interpolates between the
    expected cost (large :math:`\varepsilon`) and the top-k cost (zero). On its own it is minimal
    for any single true label; the KL term keeps the others in the prediction.

    Args:
        metric: the ground metric of the labels, or a matrix of distances; for other costs,
            :class:`~wassloss.ground.Cost`.
        epsilon: entropic strength; 0 is the cost to the nearest label.
        kl_weight: the paper's α in `W + α KL`.
        softening: as in :class:`WassersteinLoss`, but by the distance to the nearest true label:
            a label near many of them gets no more mass than a label near one.
        regularizer: ``"product"``, or ``"plan"``, which adds `ε Σ h log h` and weights all true
            labels equally.
        transport_weight, weight, ignore_index, reduction, normalize_cost: as in
            :class:`WassersteinLoss`.

    Shapes:
        - logits and target: as in :class:`WassersteinLoss`; each target is divided by its sum.

    >>> import torch, wassloss as wl
    >>> loss_fn = wl.NearestWassersteinLoss(wl.ground.Ordinal(5), epsilon=0, kl_weight=0)
    >>> tags = torch.tensor([[1.0, 0.0, 0.0, 0.0, 1.0]])
    >>> loss_fn(torch.tensor([[9.0, 0.0, 0.0, 0.0, 0.0]]), tags) < 0.01  # one tag is enough
    tensor(True)
    """

    def __init__(
        self,
        metric: GroundMetric | Tensor | NDArray[Any],
        *,
        epsilon: float = EPSILON,
        kl_weight: float = KL_WEIGHT,
        softening: float = 0.0,
        transport_weight: float = 1.0,
        regularizer: str = "product",
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        normalize_cost: bool = True,
    ) -> None:
        spec = LossSpec.checked(
            metric_of_loss(metric, normalize_cost),
            epsilon=epsilon,
            gamma=(math.inf, 0.0),
            kl_weight=kl_weight,
            softening=softening,
            transport_weight=transport_weight,
            regularizer=regularizer,
            normalize_target=True,
            ignore_index=ignore_index,
        )
        super().__init__(spec, weight, reduction)


class RelaxedWassersteinLoss(TransportLoss):
    """Relaxed transport between unnormalised measures, where mass may be created and destroyed.

    Args:
        metric: the ground metric of the labels, or a matrix of distances; for other costs,
            :class:`~wassloss.ground.Cost`.
        epsilon: entropic strength, positive.
        gamma: weight of the marginal penalties, `(γ_a, γ_b)` for prediction and target or one
            number for both. Mass that would move further than about `γ_a + γ_b` is destroyed and
            created instead. Infinity is a constraint; `γ_b = 0` leaves the target's marginal free,
            see :class:`NearestWassersteinLoss`.
        kl_weight: weight of `KL~(target ‖ prediction)`; 0 is relaxed transport alone.
        regularizer, weight, ignore_index, reduction, normalize_cost: as in
            :class:`WassersteinLoss`.
        tol, max_iterations, scaling_iterations, solver: as in :class:`WassersteinLoss`.

    Shapes:
        - log_h: logs of the predicted masses, `(batch, labels)`, `(batch, labels, …)` or
          `(labels,)`.
        - target: as in :class:`WassersteinLoss`, of any positive mass.

    >>> import torch, wassloss as wl
    >>> loss_fn = wl.RelaxedWassersteinLoss(wl.ground.Grid((8, 8)), gamma=(1.0, 1.0))
    >>> log_h = torch.zeros(2, 64, requires_grad=True)
    >>> loss_fn(log_h, torch.rand(2, 64)).backward()
    """

    def __init__(
        self,
        metric: GroundMetric | Tensor | NDArray[Any],
        *,
        epsilon: float = EPSILON,
        gamma: float | Iterable[float] = 1.0,
        kl_weight: float = KL_WEIGHT,
        regularizer: str = "plan",
        weight: Tensor | None = None,
        ignore_index: int = -100,
        reduction: str = "mean",
        normalize_cost: bool = True,
        tol: float | None = None,
        max_iterations: int | None = None,
        scaling_iterations: int | None = None,
        solver: Solver | None = None,
    ) -> None:
        spec = LossSpec.checked(
            metric_of_loss(metric, normalize_cost),
            epsilon=epsilon,
            gamma=gamma,
            kl_weight=kl_weight,
            regularizer=regularizer,
            ignore_index=ignore_index,
            unnormalized=True,
            tol=tol,
            max_iterations=max_iterations,
            scaling_iterations=scaling_iterations,
            solver=solver,
        )
        super().__init__(spec, weight, reduction)

    def forward(
        self, log_h: Tensor, target: TargetOrSets, sample_weight: Tensor | None = None
    ) -> Tensor:
        return super().forward(log_h, target, sample_weight)
