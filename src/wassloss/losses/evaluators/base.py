"""What evaluators share: from a batch to the losses and gradients of its examples."""

from __future__ import annotations

from abc import ABC, abstractmethod
from functools import cache
from typing import NamedTuple

import torch
from torch import Tensor

from wassloss import _checks
from wassloss._memory import largest_columns, pieces
from wassloss.kernels.status import IGNORED
from wassloss.losses.inputs import mass_tolerance
from wassloss.losses.spec import LossSpec
from wassloss.targets import Kind, ReadSets, ReadTarget
from wassloss.transport.precision import needs_double, tolerance

_mass_tolerance = cache(mass_tolerance)


class Batch(NamedTuple):
    """What a loss is evaluated on."""

    x: Tensor  # (batch, labels), in single precision at least: logits, or logs of masses
    target: ReadTarget | ReadSets  # only its form has been checked
    # A count to which a CUDA graph adds, at each replay, the examples that went wrong.
    unsolved: Tensor | None = None
    # Whether logits that overflowed are a loss of NaN rather than an error.
    may_overflow: bool = False


class Summary(NamedTuple):
    """Losses that a kernel has reduced, scalars on its device."""

    mean: Tensor  # of those that count
    share: Tensor  # what the mean multiplies each of them by
    worst: Tensor  # status; where the host may look, in its own memory


class Evaluation(NamedTuple):
    """Losses and gradients, and whether to trust them."""

    value: Tensor  # (batch,)
    gradient: Tensor | None = None  # (batch, labels), in `x`; None where autograd knows it
    status: Tensor | None = None  # (batch,), see wassloss.kernels.status; None if all are fine
    known_worst: int | None = None  # of all statuses, where the evaluator knows
    summary: Summary | None = None

    def worst(self) -> int:
        """The worst status of the batch; on a GPU, the host waits for it."""
        if self.known_worst is not None:
            return self.known_worst
        if (
            self.status is None or not _checks.can_read_values()
        ):  # values cannot be read during graph capture
            return IGNORED
        if self.summary is None:
            return int(self.status.max())
        if self.status.is_cuda:
            torch.cuda.current_stream(self.status.device).synchronize()
        return int(self.summary.worst)

    def to(self, dtype: torch.dtype) -> Evaluation:
        """The same results in another dtype."""
        summary = self.summary
        if summary is not None:
            summary = Summary(summary.mean.to(dtype), summary.share.to(dtype), summary.worst)
        gradient = None if self.gradient is None else self.gradient.to(dtype)
        return self._replace(value=self.value.to(dtype), gradient=gradient, summary=summary)


class Rows(NamedTuple):
    """What a kernel is given: contiguous tensors in the dtype it is to compute in.

    Row `indices[b, j]` of the costs belongs to target `j` of example `b` if they are a table of all
    labels, else row `b * support + j`.
    """

    x: Tensor  # (batch, labels)
    indices: Tensor  # (batch, support), or class ids (batch,)
    weights: Tensor | None  # (batch, support); None for class ids
    mass_tolerance: float  # how far the mass of a target may be from 1
    cost: Tensor  # (any number, labels)
    tabulated: bool
    unsolved: Tensor | None  # see `Batch`


class Evaluator(ABC):
    """A way to compute one loss on one kind of device, dtype and target.

    Where an example is invalid or did not converge, its status says so: the next evaluator is then
    asked for the whole batch, and the last one, which takes every batch, raises or warns.
    """

    def __init__(self, spec: LossSpec, dtype: torch.dtype, kind: Kind) -> None:
        self.spec, self.dtype, self.kind = spec, dtype, kind

    @classmethod
    @abstractmethod
    def serves(cls, spec: LossSpec, device: torch.device, dtype: torch.dtype, kind: Kind) -> bool:
        """Whether this evaluator can be used; decided once, not per batch."""

    @abstractmethod
    def __call__(self, batch: Batch) -> Evaluation | None:
        """The losses of a batch; None if this evaluator cannot compute them."""


class CompiledEvaluator(Evaluator):
    """A kernel that goes from logits to the loss and its gradient in one pass over each example.

    The composed evaluator takes many small steps: softmax, checks, a problem, its solution, the KL
    term. Each passes over the batch, and together they take longer than the transport.
    """

    def __init__(self, spec: LossSpec, dtype: torch.dtype, kind: Kind) -> None:
        super().__init__(spec, dtype, kind)
        self.tol = self._tolerance()
        # In medians, where the largest cost is unknown.
        self.wide = (
            dtype
            if not self._iterates()
            else self._dtype_of_solve(spec.metric.largest_known_cost or 1.0)
        )

    @classmethod
    def serves(cls, spec: LossSpec, device: torch.device, dtype: torch.dtype, kind: Kind) -> bool:
        usual = spec.options.solver is None and not spec.debiased and not spec.unnormalized
        strengths = (spec.objective.epsilon, *spec.objective.gamma)
        # Too small to divide by: the composed evaluator raises the error.
        return usual and not any(s and _checks.inverse_overflows(s, dtype) for s in strengths)

    def __call__(self, batch: Batch) -> Evaluation | None:
        if isinstance(batch.target, ReadSets):  # which have evaluators of their own
            return None
        x, (indices, weights) = batch.x, batch.target
        learned = self.spec.metric.requires_grad or (weights is not None and weights.requires_grad)
        if learned or not len(x) or not _checks.has_memory(x) or not self.takes(batch):
            return None
        x, indices, off = x.detach().contiguous(), indices.contiguous(), 0.0
        if weights is not None:
            off = _mass_tolerance(self.dtype, weights.dtype)
            # Rounded to the precision of the logits first: what becomes 0 is padding in either.
            x, weights = x.to(self.wide), weights.to(self.dtype).to(self.wide).contiguous()
        found = self._with_costs(x, indices, weights, off, batch.unsolved)
        return found if x.dtype == self.dtype else found.to(self.dtype)

    @abstractmethod
    def takes(self, batch: Batch) -> bool:
        """Whether targets have few enough labels."""

    @abstractmethod
    def run(self, rows: Rows) -> Evaluation:
        """Start the kernel."""

    def _with_costs(
        self,
        x: Tensor,
        indices: Tensor,
        weights: Tensor | None,
        mass_tolerance: float,
        unsolved: Tensor | None,
    ) -> Evaluation:
        """Run on the table of costs, or piece by piece on the columns that are needed."""
        metric = self.spec.metric
        table = metric.known_costs_in(x.dtype)
        if table is not None:
            return self.run(Rows(x, indices, weights, mass_tolerance, table, True, unsolved))
        named = indices.reshape(len(x), -1).clamp(0, metric.size - 1)  # kernels refuse others

        def found(part: slice) -> Evaluation:
            own = None if weights is None else weights[part]
            columns = metric.unchecked_cost_columns(named[part]).detach().to(x.dtype)
            cost = columns.reshape(-1, metric.size)
            return self.run(
                Rows(x[part], indices[part], own, mass_tolerance, cost, False, unsolved)
            )

        width = named.shape[1] * metric.size
        parts = [found(part) for part in pieces(len(x), width, largest_columns(x.device))]
        return joined(parts)

    def _iterates(self) -> bool:
        fixed = self.spec.options.scaling_iterations is not None
        return not (self.kind is Kind.CLASS_IDS or fixed or self.spec.objective.free_target)

    def _tolerance(self) -> float:
        tol = tolerance(self.spec.options.tol, self.dtype)
        if not self._iterates():
            return tol
        return self.spec.objective.marginal_error(tol, self.spec.metric.largest_known_cost or 1.0)

    def _dtype_of_solve(self, reach: float) -> torch.dtype:
        """A dtype whose rounding leaves enough digits for the tolerance."""
        x = torch.empty((), dtype=self.dtype)
        double = needs_double(x, lambda: reach, self.spec.objective.epsilon, self.tol)
        return torch.float64 if double else self.dtype


def joined(parts: list[Evaluation]) -> Evaluation:
    """Concatenate the evaluations of consecutive pieces."""
    if len(parts) == 1:
        return parts[0]
    value, gradient, status = (
        torch.cat([getattr(part, name) for part in parts])
        for name in ("value", "gradient", "status")
    )
    return Evaluation(value, gradient, status)
