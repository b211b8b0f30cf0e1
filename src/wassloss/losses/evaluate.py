"""Compute the loss per example from predictions and targets."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from wassloss import _checks
from wassloss._checks import at_least_single
from wassloss.kernels.status import IGNORED
from wassloss.losses import evaluators
from wassloss.losses.autograd import check_reverse_mode
from wassloss.losses.evaluators.base import Batch, Evaluator
from wassloss.losses.evaluators.composed import ComposedEvaluator
from wassloss.losses.reduce import PerExample, counting
from wassloss.losses.set_loss import check_takes_sets
from wassloss.losses.spec import LossSpec
from wassloss.targets import (
    Kind,
    ReadSets,
    ReadTarget,
    TargetOrSets,
    check_shape,
    is_dense,
    read_form,
)


class Evaluate:
    """Compute a loss; its evaluators are chosen once per device, dtype and kind of target."""

    def __init__(self, spec: LossSpec) -> None:
        self.spec = spec
        self._chosen: dict[tuple[torch.device, torch.dtype, Kind], list[Evaluator]] = {}

    def __reduce__(self) -> tuple[Any, ...]:
        return Evaluate, (self.spec,)  # evaluators hold state of this process

    def __call__(
        self, x: Tensor, target: TargetOrSets, unsolved: Tensor | None = None
    ) -> tuple[PerExample, ReadTarget | ReadSets]:
        """The loss per example, and the target as labels and weights, or as sets.

        Args:
            x: logits, or logs of masses, `(batch, labels)`, `(batch, labels, …)` or `(labels,)`.
            target: a target in any form of :mod:`wassloss.targets`.
            unsolved: a counter to which CUDA graphs add the number of failed examples.
        """
        rows, target, shape = self._rows(x, target)
        read = read_form(target, self.spec.metric.size, shape, rows)
        batch = Batch(rows, read, unsolved, may_overflow=x.dtype == torch.float16)
        if not _checks.is_traced():
            check_reverse_mode(rows, read.weights)
        for evaluator in self._evaluators(batch):
            found = evaluator(batch)
            if found is None or (worst := found.worst()) > IGNORED:
                continue
            slope = None
            if found.gradient is not None and torch.is_grad_enabled() and rows.requires_grad:
                slope = rows, found.gradient
            # Kernels write a status per example, but only these targets can be ignored.
            can_ignore = read.kind in (Kind.CLASS_IDS, Kind.SETS)
            some = worst == IGNORED and (found.gradient is None or can_ignore)
            counts = counting(found.status) if some else None
            return PerExample(found.value, shape, counts, slope, found.summary), read
        raise AssertionError("the last evaluator accepts every batch")

    def with_gradient(self, x: Tensor, target: TargetOrSets) -> tuple[Tensor, Tensor]:
        """The loss per example and its gradient in `x`, without an autograd graph."""
        with torch.enable_grad():
            x = x.detach().requires_grad_()
            losses, _ = self(x, target)
            if losses.slope is not None and x.dim() == 2:
                return losses.values, losses.slope[1]
            values = losses.differentiable()
            return values.detach(), torch.autograd.grad(values.sum(), x)[0]

    def _evaluators(self, batch: Batch) -> list[Evaluator]:
        x, kind = batch.x, batch.target.kind
        if kind is Kind.SETS:
            check_takes_sets(self.spec)
        if _checks.is_traced():
            return [ComposedEvaluator(self.spec, x.dtype, kind)]
        key = x.device, x.dtype, kind
        if key not in self._chosen:
            self._chosen[key] = [
                evaluator(self.spec, x.dtype, kind)
                for evaluator in evaluators.EVALUATORS
                if evaluator.serves(self.spec, *key)
            ]
        return self._chosen[key]

    def _rows(self, x: Tensor, target: TargetOrSets) -> tuple[Tensor, TargetOrSets, torch.Size]:
        """Predictions `(batch, labels)`, the target with its labels last, and the batch shape."""
        spec, name = self.spec, self.spec.name_of_prediction
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
