"""Dense targets on a GPU: the pass over a batch, in cached CUDA graphs.

Launched one by one from Python, the steps of `DensePass` take several times longer than they
compute. The pass is therefore captured in pieces for each shape of a batch, and later batches of
that shape replay them: a first piece, as many iterations as needed, and an end. The host reads the
error in between.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from typing import cast

import torch
from torch import Tensor

from wassloss import _checks
from wassloss.kernels import launch
from wassloss.kernels.graphs import captured
from wassloss.kernels.status import IGNORED
from wassloss.losses.evaluators.base import Batch, Evaluation, Evaluator
from wassloss.losses.evaluators.dense_pass import FIRST_ITERATIONS, STRIDE, DensePass
from wassloss.losses.inputs import mass_tolerance
from wassloss.losses.spec import LossSpec
from wassloss.targets import Kind, ReadTarget
from wassloss.transport.precision import (
    LARGEST_PLAIN_EXPONENT,
    products_fit_single,
    tolerance,
)

ITERATIONS_IN_A_GRAPH = 40  # under the user's own capture, where the host cannot read the error
MOST_KEPT = 4  # shapes of batches, for each loss
LARGEST_BATCH = 2**23  # logits; a graph holds about ten tensors of this size


class DenseGraphEvaluator(Evaluator):
    """Dense targets, and sparse ones too large for a kernel, under a metric with a table of costs.

    Capturing takes longer than one solve, so the first batch of a shape runs without graphs.
    """

    def __init__(self, spec: LossSpec, dtype: torch.dtype, kind: Kind) -> None:
        super().__init__(spec, dtype, kind)
        self.tol = _tolerance(dtype, spec)
        self._kept: OrderedDict[object, DenseGraphs | None] = OrderedDict()  # None: seen once
        self._lock = Lock()

    @classmethod
    def serves(cls, spec: LossSpec, device: torch.device, dtype: torch.dtype, kind: Kind) -> bool:
        usual = spec.options.solver is None and not spec.debiased and not spec.unnormalized
        plain = usual and kind in (Kind.SPARSE, Kind.DENSE) and spec.transport_weight == 1
        return plain and launch.triton_available(device)

    def __call__(self, batch: Batch) -> Evaluation | None:
        x, weights = batch.x, cast(Tensor, batch.target.weights)
        learned = self.spec.metric.requires_grad or weights.requires_grad
        if learned or not 0 < x.numel() <= LARGEST_BATCH or not _checks.has_memory(x):
            return None
        # Not computed once, because users may change the precision of products.
        wide = _dtype_of_products(self.dtype, self.spec)
        if wide is None:
            return None
        # Cached tensors must not be in inference mode, nor products in half precision.
        off = torch.autocast(x.device.type, enabled=False)
        with torch.inference_mode(False), torch.no_grad(), off:
            given = (
                x.detach().to(wide),
                _all_weights(cast(ReadTarget, batch.target), self.dtype, self.spec),
            )
            may_differ = mass_tolerance(self.dtype, weights.dtype)
            value, gradient, status, worst = self._passed(*given, may_differ)
        if batch.unsolved is not None and not _checks.can_read_values():
            batch.unsolved.add_((status > IGNORED).sum())
        return Evaluation(value.to(self.dtype), gradient.to(self.dtype), status, worst)

    def _passed(
        self, x: Tensor, weights: Tensor, mass_tolerance: float
    ) -> tuple[Tensor, Tensor, Tensor, int | None]:
        """Losses, gradients, statuses and the worst status, by graphs if there are any."""
        given = self.spec, x, weights.to(x.dtype), self.tol, mass_tolerance
        if not _checks.can_read_values():
            single = DensePass(*given)
            single.begin()
            for _ in range(FIRST_ITERATIONS, ITERATIONS_IN_A_GRAPH, STRIDE):
                single.iterate()
            single.end()
            return single.value, single.gradient, single.status, None
        key = x.shape, mass_tolerance, torch.cuda.current_stream(x.device).stream_id
        with self._lock:
            known = key in self._kept
            graphs = self._kept.pop(key, None)
            if known and graphs is None:
                graphs = DenseGraphs(*given)
            self._kept[key] = graphs
            if len(self._kept) > MOST_KEPT:
                self._kept.popitem(last=False)
        found = None if graphs is None else graphs(x, given[2])
        return found or DensePass(*given).run()


class CaptureError(Exception):
    """A piece of the pass could not be captured."""


class DenseGraphs:
    """The pieces of a pass as CUDA graphs, each captured when it is first needed."""

    def __init__(
        self, spec: LossSpec, logits: Tensor, weights: Tensor, tol: float, mass_tolerance: float
    ) -> None:
        self._logits, self._weights = torch.empty_like(logits), torch.empty_like(weights)
        self._pass = DensePass(spec, self._logits, self._weights, tol, mass_tolerance)
        self._graphs: dict[str, Callable[[], object] | None] = {}
        self._pool, self._lock = torch.cuda.graph_pool_handle(), Lock()

    def __call__(
        self, logits: Tensor, weights: Tensor
    ) -> tuple[Tensor, Tensor, Tensor, int] | None:
        """Losses, gradients, statuses and the worst status; None if they cannot be captured."""
        with self._lock, suppress(CaptureError):
            self._logits.copy_(logits)
            self._weights.copy_(weights)
            value, gradient, status, worst = self._pass.run_by(self._replay)
            return value.clone(), gradient.clone(), status.clone(), worst  # replays overwrite them
        return None

    def _replay(self, name: str) -> None:
        if name not in self._graphs:
            run = getattr(self._pass, name)
            self._graphs[name] = captured(run, self._logits.device, self._pool)
        # All pieces or none: a piece outside the graphs would write tensors that they do not read.
        if (replay := self._graphs[name]) is None:
            raise CaptureError
        replay()


def _all_weights(target: ReadTarget, dtype: torch.dtype, spec: LossSpec) -> Tensor:
    """Weights of all labels, `(batch, labels)`, rounded to the precision of the logits."""
    weights = cast(Tensor, target.weights).detach()
    if target.kind is Kind.SPARSE:
        read, _ = target.checked(spec.metric.size, dtype)
        return read.dense(spec.metric.size)
    return weights.to(dtype)


def _tolerance(dtype: torch.dtype, spec: LossSpec) -> float:
    tol = tolerance(spec.options.tol, dtype)
    return spec.objective.marginal_error(tol, spec.metric.largest_known_cost or 1.0)


def _dtype_of_products(dtype: torch.dtype, spec: LossSpec) -> torch.dtype | None:
    """The dtype with enough range and digits for plain scalings; None if there is none."""
    largest, epsilon = spec.metric.largest_known_cost, spec.objective.epsilon
    usual = spec.objective.balanced and not spec.objective.exact and not spec.softening
    fixed = spec.options.scaling_iterations is not None or spec.options.max_iterations is not None
    if largest is None or not usual or fixed:
        return None
    single = dtype == torch.float32
    if single and products_fit_single(largest, epsilon, _tolerance(dtype, spec)):
        return torch.float32
    within = largest / epsilon <= LARGEST_PLAIN_EXPONENT[torch.float64]
    return torch.float64 if within else None
