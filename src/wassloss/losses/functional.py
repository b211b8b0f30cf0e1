"""Distances between measures, and the losses of each example that the modules reduce."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from numpy.typing import NDArray
from torch import Tensor

from wassloss import _checks
from wassloss._checks import at_least_single
from wassloss.ground import GroundMetric
from wassloss.kernels.status import IGNORED
from wassloss.losses import inputs
from wassloss.losses.autograd import (
    check_reverse_mode,
    reduced_with_fused_gradient,
    with_fused_gradient,
)
from wassloss.losses.fused import FusedResult, Summary, fused_loss
from wassloss.losses.softened import softened
from wassloss.losses.spec import LossSpec, TransportKeywords
from wassloss.losses.transport_cost import problem_of, transport_cost
from wassloss.targets import (
    ReadTarget,
    SparseTarget,
    Target,
    check_shape,
    dtype_of,
    is_dense,
    read_form,
    read_target,
)
from wassloss.transport import Solution
from wassloss.transport.dispatch import choose_solver, solve_problem
from wassloss.transport.precision import smallest_mass

if TYPE_CHECKING:
    from typing_extensions import Unpack


def solve(
    h: Tensor,
    y: Target,
    metric: GroundMetric | Tensor | NDArray[Any],
    *,
    epsilon: float = 0.0,
    **keywords: Unpack[TransportKeywords],
) -> Solution:
    """Solve the transport from each prediction to its target.

    Args:
        h: masses of the predictions, `(batch, labels)` or `(labels,)`.
        y: targets in any form (see :mod:`wassloss.targets`).
        metric: the ground metric, or a matrix of distances; for other costs,
            :class:`~wassloss.ground.Cost`.
        epsilon: entropic strength; 0 is exact.
        **keywords: `gamma`, `regularizer`, `tol`, `max_iterations`, `scaling_iterations` and
            `solver`: see :mod:`wassloss.losses`.

    Returns:
        A :class:`~wassloss.transport.Solution`: value, potentials, plan, and whether to trust them.

    >>> import torch, wassloss as wl
    >>> h = torch.tensor([[0.5, 0.5, 0.0]])
    >>> solution = wl.solve(h, torch.tensor([2]), wl.ground.Ordinal(3))
    >>> solution.value, solution.status.name
    (tensor([1.5000]), 'EXACT')
    >>> solution.plan()
    tensor([[[0.0000, 0.0000, 0.5000],
             [0.0000, 0.0000, 0.5000],
             [0.0000, 0.0000, 0.0000]]])
    """
    spec = LossSpec.checked(metric, epsilon=epsilon, **keywords)
    if spec.debiased:
        raise ValueError("debiased is a combination of three problems: use wasserstein")
    masses, target = _read_masses(h, y, spec)
    problem = problem_of(masses.detach().log(), target, spec)
    return solve_problem(problem, choose_solver(problem, spec.options))


def wasserstein(
    h: Tensor,
    y: Target,
    metric: GroundMetric | Tensor | NDArray[Any],
    *,
    epsilon: float = 0.0,
    **keywords: Unpack[TransportKeywords],
) -> Tensor:
    """The Wasserstein distance from each prediction to its target, differentiable in all three.

    Args:
        h: masses of the predictions, `(batch, labels)` or `(labels,)`.
        y: targets in any form (see :mod:`wassloss.targets`).
        metric: the ground metric, or a matrix of distances; for other costs,
            :class:`~wassloss.ground.Cost`. It may require grad, which then receives the transport
            plan.
        epsilon: entropic strength; 0 is exact.
        **keywords: `gamma`, `regularizer`, `debiased`, `tol`, `max_iterations`,
            `scaling_iterations` and `solver`: see :mod:`wassloss.losses`.

    Returns:
        Values `(batch,)`, or a scalar for `h` of shape `(labels,)`, in units of the metric's cost.

    >>> import torch, wassloss as wl
    >>> h = torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    >>> y = torch.tensor([[0.0, 0.0, 1.0], [0.5, 0.0, 0.5]])
    >>> wl.wasserstein(h, y, wl.ground.Ordinal(3))
    tensor([1.5000, 1.0000])
    """
    spec = LossSpec.checked(metric, epsilon=epsilon, **keywords)
    masses, target = _read_masses(h, y, spec)
    value = transport_cost(masses.detach().log(), target, spec, h=masses)
    return value.reshape(h.shape[:-1])


class PerExample(NamedTuple):
    """Losses before they are reduced."""

    values: Tensor  # (batch,); 0 where an example does not count
    shape: torch.Size  # what they are returned as: the logits' shape without labels
    counts: Tensor | None = (
        None  # (batch,), which examples count; None if all do, or `status` tells
    )
    # Where autograd does not know the gradient yet: `x`, and that of each value in its row of `x`.
    slope: tuple[Tensor, Tensor] | None = None
    target: SparseTarget | ReadTarget | None = None  # for class weights
    status: Tensor | None = None  # (batch,), where a kernel may have ignored some
    summary: Summary | None = None  # where a kernel has reduced them already

    def differentiable(self) -> Tensor:
        """`values` with their gradient, in their shape."""
        values = (
            self.values if self.slope is None else with_fused_gradient(self.values, *self.slope)
        )
        # Even a view that changes nothing takes part in the backward pass.
        return values if values.shape == self.shape else values.reshape(self.shape)

    def reduced(self, reduction: str, share: Tensor | None = None) -> Tensor:
        """Differentiable values, multiplied by shares of their shape, or their mean or sum.

        The mean is weighted, as in `CrossEntropyLoss`. Values that do not count are 0.
        """
        if reduction == "none":
            values = self.differentiable()
            return values if share is None else share * values
        mean = reduction == "mean"
        all_count = self.counts is None and self.status is None
        if share is None and (not mean or all_count or self.summary is not None):
            return self._mean_or_sum(mean)
        total = (share * self.differentiable()).sum() if share is not None else self._mean_or_sum()
        return quotient(total, self.total_share(share)) if mean else total

    def total_share(self, share: Tensor | None) -> Tensor:
        """The sum of the shares of the examples that count."""
        counts = self.counts if self.status is None else self.status != IGNORED
        counts = None if counts is None else counts.reshape(self.shape)
        if share is None:
            every = self.values.new_full((), len(self.values))
            return every if counts is None else counts.sum()
        return share.sum() if counts is None else (share * counts).sum()

    def _mean_or_sum(self, mean: bool = False) -> Tensor:
        share: Tensor | float | None
        if not mean:
            reduced, share = self.values.sum(), None
        elif self.summary is not None:
            reduced, share = self.summary.mean, self.summary.share
        else:
            reduced, share = self.values.mean(), 1 / max(1, len(self.values))
        if self.slope is None:
            return reduced
        return reduced_with_fused_gradient(reduced, *self.slope, share)


def quotient(total: Tensor, share: Tensor) -> Tensor:
    """`total / share`: NaN where nothing counts, as in `CrossEntropyLoss`, but without a gradient.

    One batch of ignored labels would otherwise turn every weight of a model into NaN.
    """
    some = share != 0
    return torch.where(some, total / torch.where(some, share, 1), math.nan)


def loss_of_logits(
    logits: Tensor, target: Target, spec: LossSpec, unsolved: Tensor | None = None
) -> PerExample:
    """`transport_weight · W(softmax(logits), target) + kl_weight · KL` for each example.

    `unsolved` is a count to which CUDA graphs add the examples that went wrong.
    """
    rows, target, shape = _shaped("logits", logits, target, spec)
    read = read_form(target, spec.metric.size, shape, rows)
    fused = fused_loss(rows, read, spec, unsolved)
    if fused is not None:
        found = _from_fused(fused, rows, read, shape)
        if found is not None:
            return found
    rows, sparse, counts = _checked("logits", rows, read, spec)
    if spec.normalize_target:
        sparse = sparse.normalized()
    else:
        mass = sparse.weights.detach().sum(1)
        tolerance = inputs.mass_tolerance(rows.dtype, dtype_of(target))
        marks = inputs.check_equal_mass(mass, torch.ones_like(mass), tolerance)
        sparse = sparse.marked(marks)
    log_h = rows.log_softmax(1)
    value = log_h.new_zeros(len(log_h))
    if spec.transport_weight:
        value = transport_cost(log_h, sparse, spec, unsolved=unsolved)
        value = value if spec.transport_weight == 1 else spec.transport_weight * value
    if spec.kl_weight and spec.softening:
        nearest = spec.objective.free_target
        labels = softened(sparse, spec.metric, spec.softening, nearest)
        value = value + spec.kl_weight * divergence(labels, log_h)
    elif spec.kl_weight:
        value = value + spec.kl_weight * divergence_at(sparse, log_h)
    return PerExample(_ignoring(value, counts), shape, counts, target=sparse)


def _from_fused(
    fused: FusedResult, rows: Tensor, target: ReadTarget, shape: torch.Size
) -> PerExample | None:
    """What a compiled pass found; None where it has doubts that the composed functions explain."""
    can_look = _checks.can_read_values()
    worst = fused.worst() if can_look else IGNORED
    if worst > IGNORED:
        return None
    slope = None
    if torch.is_grad_enabled() and rows.requires_grad:
        if can_look:
            check_reverse_mode(rows)
        slope = rows, fused.gradient
    some_ignored = worst == IGNORED and target.weights is None
    status = fused.status if some_ignored else None
    return PerExample(fused.value, shape, None, slope, target, status, fused.summary)


def relaxed_loss(
    log_h: Tensor, target: Target, spec: LossSpec, unsolved: Tensor | None = None
) -> PerExample:
    """Relaxed transport from `exp(log_h)` to the target plus `kl_weight · KL~`, per example."""
    rows, target, shape = _shaped("log_h", log_h, target, spec)
    form = read_form(target, spec.metric.size, shape, rows)
    rows, read, counts = _checked("log_h", rows, form, spec)
    read = read.marked(inputs.check_log_masses(rows.detach(), "log_h"))
    value = transport_cost(rows, read, spec, unsolved=unsolved)
    if spec.kl_weight:
        excess = rows.exp().sum(1) - read.weights.sum(1)
        value = value + spec.kl_weight * (divergence_at(read, rows) + excess)
    return PerExample(_ignoring(value, counts), shape, counts, target=read)


def _read_masses(h: Tensor, y: Target, spec: LossSpec) -> tuple[Tensor, SparseTarget]:
    metric = spec.metric
    _checks.check_prediction("h", h, metric.size, metric.device, -1)
    if h.dim() > 2:
        raise ValueError(f"h must have shape (batch, labels) or (labels,), got {tuple(h.shape)}")
    masses = at_least_single(h).reshape(-1, metric.size)
    marks = _checks.check_masses(masses.detach(), "h")
    target = read_target(y, metric.size, h.shape[:-1], masses)[0].marked(marks)
    if spec.objective.balanced:
        total, wanted = masses.detach().sum(1), target.weights.detach().sum(1)
        tolerance = inputs.mass_tolerance(h.dtype, dtype_of(y))
        target = target.marked(inputs.check_equal_mass(wanted, total, tolerance))
    return masses, target


def _shaped(
    name: str, x: Tensor, target: Target, spec: LossSpec
) -> tuple[Tensor, Target, torch.Size]:
    """Logits as `(batch, labels)`, a dense target with its labels last, and the batch's shape."""
    metric, label_dim = spec.metric, 0 if isinstance(x, Tensor) and x.dim() == 1 else 1
    _checks.check_prediction(name, x, metric.size, metric.device, label_dim)
    rows = at_least_single(x)
    _checks.check_fits("kl_weight", spec.kl_weight, rows.dtype)
    if x.dim() == 2 and not is_dense(target):  # nothing to move
        return rows, target, x.shape[:1]
    moved = rows.movedim(label_dim, -1)  # (batch, …, labels)
    shape = moved.shape[:-1]
    if is_dense(target):
        check_shape(target, tuple(x.shape), shape)
        target = target.movedim(label_dim, -1)
    return moved.reshape(-1, metric.size), target, shape


def _checked(
    name: str, rows: Tensor, target: ReadTarget, spec: LossSpec
) -> tuple[Tensor, SparseTarget, Tensor | None]:
    """Predictions and targets with their values checked, and which examples count, as a mask."""
    read, counts = target.checked(spec.metric.size, rows.dtype, spec.ignore_index)
    if counts is not None:  # whatever an ignored example predicts, NaN included, has no effect
        rows = rows.masked_fill(~counts.unsqueeze(1), 0.0)
    return rows, read.marked(inputs.check_logits(rows.detach(), name)), counts


def divergence(y: Tensor, log_h: Tensor) -> Tensor:
    """`Σ y log(y/h)`, `(batch,)`."""
    # A weight of zero must not meet an infinite log: 0 · inf is NaN, and so is its gradient.
    log_h = torch.where(y > 0, log_h, 0.0)
    return (y * (y.clamp(min=smallest_mass(y.dtype)).log() - log_h)).sum(1)


def divergence_at(target: SparseTarget, log_h: Tensor) -> Tensor:
    """`Σ y log(y/h)` over the labels that the target names, `(batch,)`."""
    return divergence(target.weights, log_h.gather(1, target.indices.expand_as(target.weights)))


def _ignoring(value: Tensor, counts: Tensor | None) -> Tensor:
    return value if counts is None else torch.where(counts, value, 0.0)
