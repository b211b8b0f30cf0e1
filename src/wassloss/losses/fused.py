"""`W(softmax(logits), target) + α KL` with its gradient, where one compiled pass can do it all.

The functions of `losses/functional.py` are composed of many small steps: softmax, checks, a
problem, its solution, the KL term. Each passes over the batch, and together they take longer than
the transport. For the usual cases there are kernels that go from the logits to the loss and its
gradient in one pass; this module decides which cases those are. If a kernel finds anything unusual
about an example (a NaN, a mass that is not 1, a solve that did not converge), the composed
functions compute the batch again, and raise or warn.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cache
from types import ModuleType
from typing import TYPE_CHECKING, Any, NamedTuple, cast

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wassloss import _checks
from wassloss.ground import GroundMetric
from wassloss.kernels import launch
from wassloss.kernels.status import IGNORED
from wassloss.kernels.threads import spread
from wassloss.losses.dense_graphs import dense_loss
from wassloss.losses.inputs import mass_tolerance
from wassloss.losses.spec import LossSpec
from wassloss.targets import ReadTarget
from wassloss.transport.dispatch import largest_block
from wassloss.transport.newton.cpu import terms_of
from wassloss.transport.newton.solver import (
    LARGEST_NEWTON_SUPPORT,
    LARGEST_TABULATED_NEWTON_SUPPORT,
    Newton,
)
from wassloss.transport.objective import Regularizer
from wassloss.transport.precision import (
    default_tolerance,
    lowest_log_mass,
    needs_double,
    smallest_mass,
)

if TYPE_CHECKING:
    from wassloss.kernels.numba.loss import RowScratch
    from wassloss.kernels.numba.newton import Scratch

_mass_tolerance = cache(mass_tolerance)
_APART = 64  # numbers between arrays
MOST_SUMMARIZED = 2**15  # losses that one program adds up sooner than several operations do
COLUMNS_ON_CPU = 2**21  # costs computed at once, beside a gradient as large as the logits


class Summary(NamedTuple):
    """Losses that a kernel has reduced, scalars on its device."""

    mean: Tensor  # of those that count
    share: Tensor  # what the mean multiplies each of them by
    worst: Tensor  # status; where the host may look, in its own memory


class FusedResult(NamedTuple):
    """What a kernel makes of a batch."""

    value: Tensor  # (batch,)
    gradient: Tensor  # (batch, labels), in the logits
    status: Tensor  # (batch,), see wassloss.kernels.status
    known_worst: int | None = None  # of all statuses, where the kernel knows
    summary: Summary | None = None

    def worst(self) -> int:
        """The worst status of the batch; on a GPU, the host waits for it."""
        if self.known_worst is not None:
            return self.known_worst
        if self.summary is None:
            return int(self.status.max())
        if self.status.is_cuda:
            torch.cuda.current_stream(self.status.device).synchronize()
        return int(self.summary.worst)

    def to(self, dtype: torch.dtype) -> FusedResult:
        summary = self.summary
        if summary is not None:
            summary = Summary(summary.mean.to(dtype), summary.share.to(dtype), summary.worst)
        value, gradient = self.value.to(dtype), self.gradient.to(dtype)
        return self._replace(value=value, gradient=gradient, summary=summary)


class Batch(NamedTuple):
    """What a kernel is given, apart from costs: tensors that are detached and contiguous."""

    logits: Tensor  # (batch, labels)
    indices: Tensor  # (batch, support), or class ids (batch,)
    weights: Tensor | None = None  # (batch, support); None for class ids
    tol: float = 0.0  # to solve to
    mass_tolerance: float = 0.0  # how far masses may be off


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
        batch = Batch(logits.detach().contiguous(), indices.contiguous())
        return _with_costs(kernels(spec, unsolved).class_ids, batch, spec.metric)
    if weights.requires_grad or not kernels.solves(spec):
        return None
    run = kernels(spec, unsolved)
    apart = indices.shape == weights.shape and 0 < indices.shape[1] <= kernels.most_labels(spec)
    if not apart:
        return run.dense(logits, target)
    dtype = logits.dtype
    batch = _sparse_batch(logits.detach().contiguous(), indices.contiguous(), weights, spec)
    found = _with_costs(run.sparse, batch, spec.metric)
    if batch.logits.dtype != dtype:
        found = found.to(dtype)
    return found


def _kernels(logits: Tensor, spec: LossSpec) -> type[_Kernels] | None:
    """The kernels of the logits' device, if what is asked for is what they do."""
    usual = spec.options.solver is None and not spec.debiased
    plain = not _checks.is_traced() and not spec.metric.requires_grad
    if not (usual and plain and logits.shape[0] and _checks.has_memory(logits)):
        return None
    strengths = (spec.objective.epsilon, *spec.objective.gamma)
    if any(s and _checks.inverse_overflows(s, logits.dtype) for s in strengths):
        return None  # no kernel divides by so little: what is composed refuses it by name
    device = logits.device.type
    if device == "cpu" and launch.HAS_NUMBA:
        return NumbaKernels
    on_gpu = device == "cuda" and launch.HAS_TRITON and spec.transport_weight == 1
    return TritonKernels if on_gpu else None


def _sparse_batch(x: Tensor, indices: Tensor, weights: Tensor, spec: LossSpec) -> Batch:
    """A batch of a few labels each, in a precision that can reach the tolerance."""
    dtype, objective, options = x.dtype, spec.objective, spec.options
    tol = default_tolerance(dtype) if options.tol is None else options.tol
    largest = spec.metric.largest_known_cost
    if not objective.free_target and options.scaling_iterations is None:
        tol = objective.marginal_error(tol, largest or 1.0)  # in medians, where it is unknown
        if needs_double(x, lambda: largest or 0.0, objective.epsilon, tol):
            x = x.double()  # whose rounding leaves enough digits
    # In the precision of the logits first: what it rounds to 0 is padding in either.
    rounded = weights.to(dtype).to(x.dtype).contiguous()
    return Batch(x, indices, rounded, tol, _mass_tolerance(dtype, weights.dtype))


def _with_costs(
    run: Callable[[Batch, Tensor, bool], FusedResult], batch: Batch, metric: GroundMetric
) -> FusedResult:
    """Run a kernel on the table of costs, or piece by piece on the columns that it needs."""
    x, indices, weights = batch[:3]
    table = metric.known_costs_in(x.dtype)
    if table is not None:
        return run(batch, table, True)
    named = indices.reshape(len(x), -1).clamp(0, metric.size - 1)  # kernels refuse others
    block = largest_block(x.device) if x.is_cuda else COLUMNS_ON_CPU
    size = max(2, block // (named.shape[1] * metric.size))

    def found(rows: slice) -> FusedResult:
        own = None if weights is None else weights[rows]
        columns = metric.unchecked_cost_columns(named[rows]).detach().to(x.dtype)
        piece = batch._replace(logits=x[rows], indices=indices[rows], weights=own)
        return run(piece, columns.reshape(-1, metric.size), False)

    if size >= len(x):
        return found(slice(None))
    values, gradient, statuses = [], torch.empty_like(x), []
    for first in range(0, len(x), size):
        part = found(slice(first, first + size))
        gradient[first : first + size] = part.gradient
        values.append(part.value)
        statuses.append(part.status)
    return FusedResult(torch.cat(values), gradient, torch.cat(statuses))


class _Kernels(ABC):
    """The compiled passes of one kind of device, for one loss.

    Costs are rows `(any number, labels)`. Row `index[b, j]` belongs to target `j` of example `b` if
    they are a table of all labels (`tabulated`), else row `b * support + j`.
    """

    def __init__(self, spec: LossSpec, unsolved: Tensor | None) -> None:
        self.spec = spec
        self.unsolved = unsolved

    @staticmethod
    @abstractmethod
    def most_labels(spec: LossSpec) -> int:
        """How many labels per example `sparse` takes."""

    @staticmethod
    @abstractmethod
    def solves(spec: LossSpec) -> bool:
        """Whether `sparse` is compiled for a loss."""

    @abstractmethod
    def class_ids(self, batch: Batch, cost: Tensor, tabulated: bool) -> FusedResult:
        """The loss of one label per example."""

    @abstractmethod
    def sparse(self, batch: Batch, cost: Tensor, tabulated: bool) -> FusedResult:
        """The loss of a few labels per example."""

    def dense(self, logits: Tensor, target: ReadTarget) -> FusedResult | None:
        """The loss of all labels, or of more than `most_labels`; None if it is not compiled."""
        return None

    def budget(self) -> int:
        """How many iterations to run: just so many of Algorithm 1, or at most so many."""
        options = self.spec.options
        return options.scaling_iterations or options.max_iterations or Newton.max_iterations


class NumbaKernels(_Kernels):
    """On the CPU: compiled by Numba, examples spread over threads."""

    @staticmethod
    def most_labels(spec: LossSpec) -> int:
        newton = not spec.objective.free_target and spec.options.scaling_iterations is None
        tabulated = newton and spec.metric.known_costs is not None
        return LARGEST_TABULATED_NEWTON_SUPPORT if tabulated else LARGEST_NEWTON_SUPPORT

    @staticmethod
    def solves(spec: LossSpec) -> bool:
        if not spec.transport_weight:
            return True
        if spec.options.scaling_iterations is not None:
            return spec.objective.balanced
        return not spec.objective.exact or spec.objective.free_target

    def class_ids(self, batch: Batch, cost: Tensor, tabulated: bool) -> FusedResult:
        x, dtype, spec = batch.logits.numpy(), batch.logits.dtype, self.spec
        given = (
            *(x, batch.indices.numpy(), cost.contiguous().numpy(), tabulated),
            *(spec.transport_weight, spec.entropy_of_one_label),
            *(spec.kl_weight, spec.per_softening, lowest_log_mass(dtype), spec.ignore_index),
        )

        def scratch() -> RowScratch:
            return _row_scratch(x.shape[1], x.dtype)

        pieces = 1 + x.size // launch.WORTH_PASSING
        return _spread(_numba_kernels().class_id_rows, given, x, scratch, pieces)

    def sparse(self, batch: Batch, cost: Tensor, tabulated: bool) -> FusedResult:
        compiled, x, dtype, spec = (
            _numba_kernels(),
            batch.logits.numpy(),
            batch.logits.dtype,
            self.spec,
        )
        indices, weights = batch.indices.numpy(), cast(Tensor, batch.weights).numpy()
        support, fixed = indices.shape[1], spec.options.scaling_iterations is not None
        terms = terms_of(spec.objective, dtype, batch.tol, self.budget(), fixed=fixed)
        free, normalize = spec.objective.free_target, spec.normalize_target
        apart = spec.per_softening > 0
        costs = x, indices, weights, cost.contiguous().numpy(), tabulated
        least = lowest_log_mass(dtype), smallest_mass(dtype)
        kl_weight = 0.0 if apart else spec.kl_weight
        given = (terms, spec.transport_weight, kl_weight, *least, normalize, batch.mass_tolerance)
        softened = (free, spec.kl_weight, spec.per_softening, *least, normalize)

        def rows(first: int, last: int, *found: Any) -> int:
            worst: int = compiled.sparse_rows(first, last, *costs, *given, *found)
            if apart:
                worst = compiled.softened_rows(first, last, *costs, *softened, *found)
            return worst

        def scratch() -> tuple[Scratch, RowScratch]:
            solving = compiled.new_scratch(support, x.shape[1], x.dtype)
            return solving, _row_scratch(x.shape[1], x.dtype)

        worth = launch.WORTH_PASSING if free else launch.WORTH_SOLVING
        pieces = 1 + x.size * support // worth
        return _spread(rows, (), x, scratch, pieces)


class TritonKernels(_Kernels):
    """On an NVIDIA GPU: one Triton kernel per batch, which the host does not wait for."""

    @staticmethod
    def most_labels(spec: LossSpec) -> int:
        return launch.LARGEST_SUPPORT

    @staticmethod
    def solves(spec: LossSpec) -> bool:
        return spec.objective.balanced and not spec.objective.exact

    def class_ids(self, batch: Batch, cost: Tensor, tabulated: bool) -> FusedResult:
        from wassloss.kernels.triton.loss import class_id_kernel

        x, spec, (count, labels) = batch.logits, self.spec, batch.logits.shape
        tile = min(launch.LARGEST_TILE, max(32, 1 << (labels - 1).bit_length()))
        found, written, what = self._room(x)
        launch.start_kernel(
            class_id_kernel,
            count,
            (cost, batch.indices, x, *written),
            (labels, cost.stride(0), spec.ignore_index),
            (
                *(spec.entropy_of_one_label, spec.kl_weight, spec.per_softening),
                *(lowest_log_mass(x.dtype), smallest_mass(x.dtype)),
            ),
            {
                "TILE": tile,
                "TABLE": tabulated,
                **what,
                "SOFT": spec.per_softening > 0,
                "num_warps": 4 if tile <= 1024 else 8,
            },
        )
        return found

    def sparse(self, batch: Batch, cost: Tensor, tabulated: bool) -> FusedResult:
        from wassloss.kernels.triton.loss import sparse_kernel

        x, spec, (count, labels) = batch.logits, self.spec, batch.logits.shape
        support, row = batch.indices.shape[1], cost.stride(0)
        strides = labels, row, 0 if tabulated else support * row
        found, written, what = self._room(x)
        launch.start_kernel(
            sparse_kernel,
            count,
            (cost, batch.indices, cast(Tensor, batch.weights), x, *written),
            (*strides, self.budget()),
            (
                *(spec.objective.epsilon, batch.tol, spec.kl_weight, spec.per_softening),
                *(lowest_log_mass(x.dtype), smallest_mass(x.dtype), batch.mass_tolerance),
            ),
            {
                "TABLE": tabulated,
                "PRODUCT": spec.objective.regularizer is Regularizer.PRODUCT,
                "NORMALIZE": spec.normalize_target,
                **what,
                "FIXED": spec.options.scaling_iterations is not None,
                "SOFT": spec.per_softening > 0,
                **launch.solver_constants(cost, strides, support, count, x.dtype),
            },
        )
        return found

    def dense(self, logits: Tensor, target: ReadTarget) -> FusedResult | None:
        weights = cast(Tensor, target.weights)
        tolerance = _mass_tolerance(logits.dtype, weights.dtype)
        found = dense_loss(logits, target, self.spec, tolerance)
        if found is None:
            return None
        value, gradient, status, worst = found
        if self.unsolved is not None and not _checks.can_read_values():
            self.unsolved += (status > IGNORED).sum()
        return FusedResult(value.to(logits.dtype), gradient.to(logits.dtype), status, worst)

    def _room(self, x: Tensor) -> tuple[FusedResult, tuple[Tensor, ...], dict[str, bool]]:
        """Room for the results, as a kernel takes it, and which of them it is to write."""
        count, looks = len(x), _checks.can_read_values()
        status = x.new_empty(count, dtype=torch.uint8)
        summary, given = None, (status,) * 4  # in place of what is not written
        if count <= MOST_SUMMARIZED:
            worst = _host_word() if looks else status.new_empty((), dtype=torch.int32)
            summary = Summary(x.new_empty(()), x.new_empty(()), worst)
            given = *summary, launch.finished_programs(x)
        found = FusedResult(x.new_empty(count), torch.empty_like(x), status, None, summary)
        tallies = self.unsolved is not None and not looks
        tally = cast(Tensor, self.unsolved) if tallies else status
        what = {"SUM": summary is not None, "TALLY": tallies}
        return found, (*found[:3], *given, tally), what


_of_thread = threading.local()


def _host_word() -> Tensor:
    """An integer of this thread's that kernels write to, and the host reads without a copy."""
    word: Tensor | None = getattr(_of_thread, "word", None)
    if word is None:
        pinned = torch.cuda.is_available()  # if not, kernels are interpreted
        word = _of_thread.word = torch.empty((), dtype=torch.int32, pin_memory=pinned)
    return word


@cache
def _numba_kernels() -> ModuleType:
    """The compiled functions; Numba is loaded when they are first used."""
    from wassloss.kernels.numba import loss

    return loss


def _row_scratch(labels: int, dtype: np.dtype[Any]) -> RowScratch:
    compiled = _numba_kernels()
    # Always as far apart: compiled loops sum in another order where two arrays nearly touch.
    room = np.empty((3, max(labels, compiled.BLOCK) + 2 * _APART), dtype)[:, _APART:]
    scratch: RowScratch = compiled.RowScratch(
        room[0, :labels], room[1, :labels], room[2, : compiled.BLOCK]
    )
    return scratch


def _spread(
    rows: Callable[..., int],
    given: tuple[Any, ...],
    x: NDArray[Any],
    scratch: Callable[[], Any],
    pieces: int,
) -> FusedResult:
    """Run a compiled pass over all examples, on as many threads as it has pieces of work."""
    value, gradient = np.empty(len(x), x.dtype), np.empty(x.shape, x.dtype)
    status = np.empty(len(x), np.uint8)
    written = value, gradient, status
    if pieces == 1:  # a small batch: Python takes longer than the kernel
        worst = rows(0, len(x), *given, scratch(), *written)
    else:
        statuses: list[int] = []

        def work(first: int, last: int, own: Any) -> None:
            statuses.append(rows(first, last, *given, own, *written))

        spread(work, len(x), scratch, pieces)
        worst = max(statuses)
    found = [torch.from_numpy(array) for array in written]
    return FusedResult(found[0], found[1], found[2], worst)
