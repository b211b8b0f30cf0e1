"""Losses composed of torch operations, for any device and target.

They are the reference for the kernels, and raise all errors. Autograd computes their gradients, so
that targets and metrics can be learned, and `torch.compile` can trace them.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from wassloss._checks import marked
from wassloss.kernels.status import FINE, IGNORED
from wassloss.losses import inputs
from wassloss.losses.autograd import independent_of
from wassloss.losses.evaluators.base import Batch, Evaluation, Evaluator
from wassloss.losses.set_loss import set_loss
from wassloss.losses.softened import softened
from wassloss.losses.spec import LossSpec
from wassloss.losses.transport_cost import transport_cost
from wassloss.targets import Kind, ReadSets, SparseTarget
from wassloss.transport.precision import smallest_mass


class ComposedEvaluator(Evaluator):
    """Compute any loss of any batch, and raise the errors for invalid examples."""

    @classmethod
    def serves(cls, spec: LossSpec, device: torch.device, dtype: torch.dtype, kind: Kind) -> bool:
        return True

    def __call__(self, batch: Batch) -> Evaluation:
        # Autocast would compute the loss in half precision, which is not precise enough.
        with torch.autocast(batch.x.device.type, enabled=False):
            x, target, counts, overflowed = _checked(batch, self.spec)
            if isinstance(target, ReadSets):
                value = set_loss(x, target, self.spec)
            elif self.spec.unnormalized:
                value = self._of_masses(x, target, batch)
            else:
                value = self._of_logits(x, target, batch)
        if overflowed is not None:  # NaN, also in the gradient
            lost = batch.x.where(overflowed.unsqueeze(1), 0.0).sum(1) * math.nan
            value = torch.where(overflowed, lost, value)
        if counts is None:
            return Evaluation(value, known_worst=FINE)
        status = torch.where(counts, FINE, IGNORED).to(torch.uint8)
        return Evaluation(torch.where(counts, value, 0.0), status=status, known_worst=IGNORED)

    def _of_logits(self, logits: Tensor, target: SparseTarget, batch: Batch) -> Tensor:
        """`transport_weight · W(softmax(logits), target) + kl_weight · KL`, `(batch,)`."""
        spec = self.spec
        if spec.normalize_target:
            target = target.normalized()
        else:
            mass, given = target.weights.detach().sum(1), batch.target.weights
            tolerance = inputs.mass_tolerance(
                logits.dtype, logits.dtype if given is None else given.dtype
            )
            marks = inputs.check_equal_mass(mass, torch.ones_like(mass), tolerance)
            target = target.marked(marks)
        log_h = logits.log_softmax(1)
        value = independent_of(log_h)
        if spec.transport_weight:
            cost = transport_cost(log_h, target, spec, unsolved=batch.unsolved)
            value = cost if spec.transport_weight == 1 else spec.transport_weight * cost
        if spec.kl_weight and spec.softening:
            nearest = spec.objective.free_target
            labels = softened(target, spec.metric, spec.softening, nearest)
            value = value + spec.kl_weight * divergence(labels, log_h)
        elif spec.kl_weight:
            value = value + spec.kl_weight * divergence_at(target, log_h)
        return value

    def _of_masses(self, log_h: Tensor, target: SparseTarget, batch: Batch) -> Tensor:
        """Relaxed transport from `exp(log_h)` to the target plus `kl_weight · KL~`, `(batch,)`."""
        target = target.marked(inputs.check_log_masses(log_h.detach(), "log_h"))
        value = transport_cost(log_h, target, self.spec, unsolved=batch.unsolved)
        if self.spec.kl_weight:
            excess = log_h.exp().sum(1) - target.weights.sum(1)
            value = value + self.spec.kl_weight * (divergence_at(target, log_h) + excess)
        return value


def _checked(
    batch: Batch, spec: LossSpec
) -> tuple[Tensor, SparseTarget | ReadSets, Tensor | None, Tensor | None]:
    """Check the values of predictions and targets.

    Returns:
        Predictions and target; a mask `(batch,)` of the examples that count, or None for all; and a
        mask `(batch,)` of the examples that overflowed, or None for none.
    """
    x, overflowed = batch.x, None
    target: SparseTarget | ReadSets
    own_marks: Tensor | None = None
    if isinstance(batch.target, ReadSets):
        target, counts, own_marks = batch.target.checked(spec.metric.size, spec.ignore_index)
    else:
        target, counts = batch.target.checked(spec.metric.size, x.dtype, spec.ignore_index)
    if counts is not None:  # ignored predictions have no effect, not even NaN
        x = x.masked_fill(~counts.unsqueeze(1), 0.0)
    if batch.may_overflow:
        overflowed = inputs.invalid_logits(x.detach())
        x = x.masked_fill(overflowed.unsqueeze(1), 0.0)
    marks = inputs.check_logits(x.detach(), spec.name_of_prediction)
    if isinstance(target, ReadSets):  # sets have no weights to mark
        return marked(marked(x, marks), own_marks), target, counts, overflowed
    return x, target.marked(marks), counts, overflowed


def divergence(y: Tensor, log_h: Tensor) -> Tensor:
    """`Σ y log(y/h)`, `(batch,)`."""
    # For weights of 0, replace infinite logs: 0 · inf is NaN, and so is its gradient.
    log_h = torch.where(y > 0, log_h, 0.0)
    return (y * (y.clamp(min=smallest_mass(y.dtype)).log() - log_h)).sum(1)


def divergence_at(target: SparseTarget, log_h: Tensor) -> Tensor:
    """`Σ y log(y/h)` over the labels that the target names, `(batch,)`."""
    return divergence(target.weights, log_h.gather(1, target.indices.expand_as(target.weights)))
