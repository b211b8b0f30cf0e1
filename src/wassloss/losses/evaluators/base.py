"""The base classes of evaluators, which compute losses and gradients of a batch."""

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
    """The inputs of a loss."""

    x: Tensor  # (batch, labels), at least in single precision: logits, or logs of masses
    target: ReadTarget | ReadSets  # its values are not checked yet
    # Counter to which a CUDA graph adds the number of failed examples at each replay.
    unsolved: Tensor | None = None
    # Whether logits that overflowed give a loss of NaN rather than an error.
    may_overflow: bool = False


class Summary(NamedTuple):
    """Losses reduced by a kernel: scalars on its device."""

    mean: Tensor  # over the examples that count
    share: Tensor  # weight of each such example in the mean
    worst: Tensor  # worst status; in host memory if the host may read it


class Evaluation(NamedTuple):
    """Losses, gradients, and a status per example."""

    value: Tensor  # (batch,)
    gradient: Tensor | None = None  # (batch, labels), in `x`; None if autograd computes it
    status: Tensor | None = None  # (batch,), see wassloss.kernels.status; None if all are fine
    known_worst: int | None = None  # worst status, if the evaluator knows it
    summary: Summary | None = None

    def worst(self) -> int:
        """The worst status of the batch; on a GPU, this synchronises."""
        if self.known_worst is not None:
            return self.known_worst
        # Values cannot be read during graph capture.
        if self.status is None or not _checks.can_read_values():
            return IGNORED
        if self.summary is None:
            return int(self.status.max())
        if self.status.is_cuda:
            torch.cuda.current_stream(self.status.device).synchronize()
        return int(self.summary.worst)

    def to(self, dtype: torch.dtype) -> Evaluation:
        """Convert the results to another dtype."""
        summary = self.summary
        if summary is not None:
            summary = Summary(summary.mean.to(dtype), summary.share.to(dtype), summary.worst)
        gradient = None if self.gradient is None else self.gradient.to(dtype)
        return self._replace(value=self.value.to(dtype), gradient=gradient, summary=summary)


class Rows(NamedTuple):
    """The inputs of a kernel: contiguous tensors, in the dtype of its computation.

    The costs of target `j` of example `b` are row `indices[b, j]` of a table of all labels if
    `tabulated`, otherwise row `b * support + j`.
    """

    x: Tensor  # (batch, labels)
    indices: Tensor  # (batch, support), or class ids (batch,)
    weights: Tensor | None  # (batch, support); None for class ids
    mass_tolerance: float  # largest deviation of a target's mass from 1
    cost: Tensor  # (any number, labels)
    tabulated: bool
    unsolved: Tensor | None  # see `Batch`


class Evaluator(ABC):
    """A way to compute one loss on one kind of device, dtype and target.

    The status of an example shows if it is invalid or did not converge. The next evaluator then
    computes the whole batch; the last one accepts every batch, and raises or warns.
    """

    def __init__(self, spec: LossSpec, dtype: torch.dtype, kind: Kind) -> None:
        self.spec, self.dtype, self.kind = spec, dtype, kind

    @classmethod
    @abstractmethod
    def serves(cls, spec: LossSpec, device: torch.device, dtype: torch.dtype, kind: Kind) -> bool:
        """Whether this evaluator can be used; checked once, not per batch."""

    @abstractmethod
    def __call__(self, batch: Batch) -> Evaluation | None:
        """The losses of a batch; None if this evaluator cannot compute them."""


class CompiledEvaluator(Evaluator):
    """A kernel that computes the loss and its gradient in one pass over each example.

    The composed evaluator passes over the batch many times: softmax, checks, building and solving a
    problem, the KL term. Together these take longer than the transport.
    """

    def __init__(self, spec: LossSpec, dtype: torch.dtype, kind: Kind) -> None:
        super().__init__(spec, dtype, kind)
        self.tol = self._tolerance()
        # If the largest cost is unknown, assume 1, the median of normalised costs.
        self.wide = (
            dtype
            if not self._iterates()
            else self._dtype_of_solve(spec.metric.largest_known_cost or 1.0)
        )

    @classmethod
    def serves(cls, spec: LossSpec, device: torch.device, dtype: torch.dtype, kind: Kind) -> bool:
        usual = spec.options.solver is None and not spec.debiased and not spec.unnormalized
        strengths = (spec.objective.epsilon, *spec.objective.gamma)
        # The composed evaluator raises the error for strengths too small to divide by.
        return usual and not any(s and _checks.inverse_overflows(s, dtype) for s in strengths)

    def __call__(self, batch: Batch) -> Evaluation | None:
        if isinstance(batch.target, ReadSets):  # sets have a separate evaluator
            return None
        x, (indices, weights) = batch.x, batch.target
        learned = self.spec.metric.requires_grad or (weights is not None and weights.requires_grad)
        if learned or not len(x) or not _checks.has_memory(x) or not self.takes(batch):
            return None
        x, indices, off = x.detach().contiguous(), indices.contiguous(), 0.0
        if weights is not None:
            off = _mass_tolerance(self.dtype, weights.dtype)
            # Round to the logits' dtype first, so that the same weights become 0, and so padding.
            x, weights = x.to(self.wide), weights.to(self.dtype).to(self.wide).contiguous()
        found = self._with_costs(x, indices, weights, off, batch.unsolved)
        return found if x.dtype == self.dtype else found.to(self.dtype)

    @abstractmethod
    def takes(self, batch: Batch) -> bool:
        """Whether targets have few enough labels for the kernel."""

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
        """Run the kernel on the table of costs, or in pieces on the required cost columns."""
        metric = self.spec.metric
        table = metric.known_costs_in(x.dtype)
        if table is not None:
            return self.run(Rows(x, indices, weights, mass_tolerance, table, True, unsolved))
        # Clamp for the lookup only: the kernel refuses labels out of range.
        named = indices.reshape(len(x), -1).clamp(0, metric.size - 1)

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
        """A dtype precise enough for the tolerance."""
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
