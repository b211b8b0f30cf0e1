"""`W(softmax(logits), target) + α KL` with its gradient, where one compiled pass can do it all.

The functions of `losses/functional.py` are composed of many small steps: softmax, checks, a
problem, its solution, the KL term. Each passes over the batch, and together they take longer than
the transport. For the usual cases there are kernels that go from the logits to the loss and its
gradient in one pass; this module decides which cases those are. If a kernel finds anything unusual
about an example (a NaN, a mass that is not 1, a solve that did not converge), the composed
functions compute the batch again, and raise or warn.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wassloss import _checks
from wassloss.ground import GroundMetric
from wassloss.kernels import launch
from wassloss.kernels.threads import spread
from wassloss.losses.inputs import mass_tolerance
from wassloss.losses.spec import LossSpec
from wassloss.targets import ReadTarget
from wassloss.transport.dispatch import largest_block
from wassloss.transport.newton.cpu import terms_of
from wassloss.transport.newton.solver import LARGEST_NEWTON_SUPPORT, Newton
from wassloss.transport.objective import Regularizer
from wassloss.transport.precision import (
    default_tolerance,
    lowest_log_mass,
    rounding_error,
    smallest_mass,
)

if TYPE_CHECKING:
    from wassloss.kernels.numba.loss import RowScratch
    from wassloss.kernels.numba.newton import Scratch

_mass_tolerance = cache(mass_tolerance)


class FusedResult(NamedTuple):
    """What a kernel makes of a batch."""

    value: Tensor  # (batch,)
    gradient: Tensor  # (batch, labels), in the logits
    status: Tensor  # (batch,), see wassloss.kernels.status
    known_worst: int | None = None  # of all statuses, where the kernel knows

    def worst(self) -> int:
        """The worst status of the batch; on a GPU, the host waits for it."""
        return int(self.status.max()) if self.known_worst is None else self.known_worst


def fused_loss(
    logits: Tensor, target: ReadTarget, spec: LossSpec, unsolved: Tensor | None = None
) -> FusedResult | None:
    """Losses and gradients of `logits (batch, labels)`; None where no kernel applies.

    `unsolved` is a count to which, while a CUDA graph is captured, invalid and unconverged examples
    are added: a graph has no other way to report them.
    """
    kernels = _kernels(logits, spec)
    if kernels is None:
        return None
    indices, weights = target
    if weights is None:
        if spec.options.scaling_iterations is not None:
            return None
        return _class_ids(kernels(spec, unsolved), logits, indices)
    apart = indices.shape == weights.shape and 0 < indices.shape[1] <= kernels.LARGEST_SUPPORT
    if not apart or weights.requires_grad or not kernels.solves(spec):
        return None
    return _sparse(kernels(spec, unsolved), logits, indices, weights)


def _kernels(logits: Tensor, spec: LossSpec) -> type[_Kernels] | None:
    """The kernels of the logits' device, if what is asked for is what they do."""
    usual = spec.options.solver is None and not spec.debiased
    plain = not torch.compiler.is_compiling() and not spec.metric.requires_grad
    if not (usual and plain and logits.shape[0] and _checks.has_memory(logits)):
        return None
    device = logits.device.type
    if device == "cpu" and launch.HAS_NUMBA:
        return NumbaKernels
    return TritonKernels if device == "cuda" and launch.HAS_TRITON else None


def _class_ids(kernels: _Kernels, logits: Tensor, ids: Tensor) -> FusedResult:
    x, ids = logits.detach().contiguous(), ids.contiguous()

    def run(rows: slice, cost: Tensor, tabulated: bool) -> FusedResult:
        return kernels.class_ids(x[rows], ids[rows], cost, tabulated)

    metric = kernels.spec.metric
    table = metric.known_costs_in(x.dtype)
    if table is None:
        return _in_pieces(run, ids.unsqueeze(1), metric, x.dtype)
    return kernels.class_ids(x, ids, table, True)


def _sparse(kernels: _Kernels, logits: Tensor, indices: Tensor, weights: Tensor) -> FusedResult:
    spec, x, dtype = kernels.spec, logits.detach().contiguous(), logits.dtype
    tol = default_tolerance(dtype) if spec.options.tol is None else spec.options.tol
    tolerance = _mass_tolerance(dtype, weights.dtype)
    largest, epsilon = spec.metric.largest_known_cost, spec.objective.epsilon
    to_tolerance = not spec.objective.free_target and spec.options.scaling_iterations is None
    if to_tolerance and largest is not None and rounding_error(largest, epsilon, dtype) > tol:
        x = x.double()  # whose rounding leaves enough digits
    # In the precision of the logits first: what it rounds to 0 is padding in either.
    indices, weights = indices.contiguous(), weights.to(dtype).to(x.dtype).contiguous()

    def run(rows: slice, cost: Tensor, tabulated: bool) -> FusedResult:
        return kernels.sparse(
            x[rows], indices[rows], weights[rows], cost, tabulated, tol, tolerance
        )

    table = spec.metric.known_costs_in(x.dtype)
    if table is None:
        found = _in_pieces(run, indices, spec.metric, x.dtype)
    else:
        found = kernels.sparse(x, indices, weights, table, True, tol, tolerance)
    if x.dtype == dtype:
        return found
    return found._replace(value=found.value.to(dtype), gradient=found.gradient.to(dtype))


def _in_pieces(
    run: Callable[[slice, Tensor, bool], FusedResult],
    indices: Tensor,
    metric: GroundMetric,
    dtype: torch.dtype,
) -> FusedResult:
    """Run a kernel piece by piece on the columns of costs that it needs."""
    labels, (batch, support) = metric.size, indices.shape
    named = indices.clamp(0, labels - 1)  # kernels find out what is out of range
    size = max(1, largest_block(indices.device) // (support * labels))
    parts: list[FusedResult] = []
    for first in range(0, batch, size):
        rows = slice(first, first + size)
        columns = metric.unchecked_cost_columns(named[rows]).detach().to(dtype)
        parts.append(run(rows, columns.reshape(-1, labels), False))
    if len(parts) == 1:
        return parts[0]
    value, gradient, status, _ = zip(*parts, strict=True)
    return FusedResult(torch.cat(value), torch.cat(gradient), torch.cat(status))


class _Kernels(ABC):
    """The compiled passes of one kind of device, for one loss.

    Costs are rows `(any number, labels)`. Row `index[b, j]` belongs to target `j` of example `b` if
    they are a table of all labels (`tabulated`), else row `b * support + j`.
    """

    LARGEST_SUPPORT: int

    def __init__(self, spec: LossSpec, unsolved: Tensor | None) -> None:
        self.spec = spec
        self.unsolved = unsolved

    @staticmethod
    @abstractmethod
    def solves(spec: LossSpec) -> bool:
        """Whether `sparse` is compiled for a loss."""

    @abstractmethod
    def class_ids(self, logits: Tensor, ids: Tensor, cost: Tensor, tabulated: bool) -> FusedResult:
        """The loss of one label per example, `ids (batch,)`."""

    @abstractmethod
    def sparse(
        self,
        logits: Tensor,
        indices: Tensor,
        weights: Tensor,
        cost: Tensor,
        tabulated: bool,
        tol: float,
        tolerance: float,
    ) -> FusedResult:
        """The loss of a few labels per example, both `(batch, support)`.

        Solved to `tol`; masses may be off by `tolerance`.
        """

    def entropy_of_one_label(self) -> float:
        """What the only plan to one label is charged for its entropy `Σ h log h`; see `OneHot`."""
        objective = self.spec.objective
        return objective.epsilon if objective.regularizer is Regularizer.PLAN else 0.0

    def budget(self) -> int:
        """How many iterations to run: just so many of Algorithm 1, or at most so many."""
        options = self.spec.options
        return options.scaling_iterations or options.max_iterations or Newton.max_iterations


class NumbaKernels(_Kernels):
    """On the CPU: compiled by Numba, examples spread over threads."""

    LARGEST_SUPPORT = LARGEST_NEWTON_SUPPORT

    @staticmethod
    def solves(spec: LossSpec) -> bool:
        if spec.options.scaling_iterations is not None:
            return spec.objective.balanced
        return not spec.objective.exact or spec.objective.free_target

    def class_ids(self, logits: Tensor, ids: Tensor, cost: Tensor, tabulated: bool) -> FusedResult:
        compiled, x, spec = _numba_kernels(), logits.numpy(), self.spec
        batch, labels = x.shape
        given = (
            *(x, ids.numpy(), cost.contiguous().numpy(), tabulated, self.entropy_of_one_label()),
            *(spec.kl_weight, lowest_log_mass(logits.dtype), spec.ignore_index),
        )
        written, statuses = _new_result(x), list[int]()

        def work(first: int, last: int, scratch: RowScratch) -> None:
            statuses.append(compiled.class_id_rows(first, last, *given, scratch, *written))

        def scratch() -> RowScratch:
            return _row_scratch(labels, x.dtype)

        spread(work, batch, scratch, 1 + batch * labels // launch.WORTH_PASSING)
        return _result(written, statuses)

    def sparse(
        self,
        logits: Tensor,
        indices: Tensor,
        weights: Tensor,
        cost: Tensor,
        tabulated: bool,
        tol: float,
        tolerance: float,
    ) -> FusedResult:
        compiled, x, spec, dtype = _numba_kernels(), logits.numpy(), self.spec, logits.dtype
        (batch, labels), support = x.shape, indices.shape[1]
        fixed = spec.options.scaling_iterations is not None
        terms = terms_of(spec.objective, dtype, tol, self.budget(), staged=True, fixed=fixed)
        given = (
            *(x, indices.numpy(), weights.numpy(), cost.contiguous().numpy(), tabulated, terms),
            *(spec.kl_weight, lowest_log_mass(dtype), smallest_mass(dtype)),
            *(spec.normalize_target, tolerance),
        )
        written, statuses = _new_result(x), list[int]()

        def work(first: int, last: int, scratch: tuple[Scratch, RowScratch]) -> None:
            statuses.append(compiled.sparse_rows(first, last, *given, scratch, *written))

        def scratch() -> tuple[Scratch, RowScratch]:
            solving = compiled.new_scratch(support, labels, x.dtype)
            return solving, _row_scratch(labels, x.dtype)

        free = spec.objective.free_target
        worth = launch.WORTH_PASSING if free else launch.WORTH_SOLVING
        spread(work, batch, scratch, 1 + batch * support * labels // worth)
        return _result(written, statuses)


class TritonKernels(_Kernels):
    """On an NVIDIA GPU: one Triton kernel per batch, which the host does not wait for."""

    LARGEST_SUPPORT = launch.LARGEST_SUPPORT

    @staticmethod
    def solves(spec: LossSpec) -> bool:
        return spec.objective.balanced and not spec.objective.exact

    def class_ids(self, logits: Tensor, ids: Tensor, cost: Tensor, tabulated: bool) -> FusedResult:
        from wassloss.kernels.triton.loss import loss_of_class_ids

        return FusedResult(
            *loss_of_class_ids(
                logits,
                ids,
                cost,
                tabulated=tabulated,
                epsilon=self.entropy_of_one_label(),
                kl_weight=self.spec.kl_weight,
                lowest=lowest_log_mass(logits.dtype),
                ignore_index=self.spec.ignore_index,
                unsolved=None if _checks.can_read_values() else self.unsolved,
            )
        )

    def sparse(
        self,
        logits: Tensor,
        indices: Tensor,
        weights: Tensor,
        cost: Tensor,
        tabulated: bool,
        tol: float,
        tolerance: float,
    ) -> FusedResult:
        from wassloss.kernels.triton.loss import loss_of_sparse

        spec = self.spec
        return FusedResult(
            *loss_of_sparse(
                logits,
                indices,
                weights,
                cost,
                tabulated=tabulated,
                epsilon=spec.objective.epsilon,
                product=spec.objective.regularizer is Regularizer.PRODUCT,
                tol=tol,
                budget=self.budget(),
                fixed=spec.options.scaling_iterations is not None,
                kl_weight=spec.kl_weight,
                lowest=lowest_log_mass(logits.dtype),
                least=smallest_mass(logits.dtype),
                normalize=spec.normalize_target,
                mass_tolerance=tolerance,
                unsolved=None if _checks.can_read_values() else self.unsolved,
            )
        )


@cache
def _numba_kernels() -> ModuleType:
    """The compiled functions; Numba is loaded when they are first used."""
    from wassloss.kernels.numba import loss

    return loss


def _row_scratch(labels: int, dtype: np.dtype[Any]) -> RowScratch:
    compiled = _numba_kernels()
    parts = (np.zeros(size, dtype) for size in (labels, labels, compiled.BLOCK))
    scratch: RowScratch = compiled.RowScratch(*parts)
    return scratch


def _new_result(x: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.uint8]]:
    """Room for value, gradient and status."""
    return np.empty(len(x), x.dtype), np.empty(x.shape, x.dtype), np.empty(len(x), np.uint8)


def _result(written: tuple[NDArray[Any], ...], statuses: list[int]) -> FusedResult:
    value, gradient, status = map(torch.from_numpy, written)
    return FusedResult(value, gradient, status, max(statuses))
