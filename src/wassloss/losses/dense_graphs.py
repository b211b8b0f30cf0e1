"""Dense targets on a GPU: from logits to loss and gradient, in CUDA graphs that are kept.

At the `ε` of a loss Sinkhorn's plain scalings are done after some tens of iterations, each two
products and two divisions. Launched one by one from Python they take several times as long as they
compute. So the pass over a batch of one shape is captured in pieces, and later batches of that
shape replay them: a first piece, as many iterations as are needed, and an end. The host looks at
the error in between.

As with the compiled kernels, whatever is unusual about an example only marks it, and the composed
functions compute its batch again.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Callable
from contextlib import suppress
from threading import Lock
from typing import cast

import torch
from torch import Tensor
from torch.utils.weak import WeakTensorKeyDictionary

from wassloss import _checks
from wassloss.kernels.graphs import captured
from wassloss.kernels.status import FINE, INVALID, UNCONVERGED
from wassloss.losses.spec import LossSpec
from wassloss.targets import ReadTarget
from wassloss.transport.conditions import Conditions
from wassloss.transport.kernel_sums import Products
from wassloss.transport.precision import (
    LARGEST_PLAIN_EXPONENT,
    default_tolerance,
    products_fit_single,
    smallest_mass,
)
from wassloss.transport.problem import Problem
from wassloss.transport.sinkhorn.iterations import LogIterations, ScalingIterations

FIRST_ITERATIONS, STRIDE = 20, 10  # before the host first looks at the error, and between looks
PLAIN_ITERATIONS = 60  # after which steps are lengthened
MOST_ITERATIONS = 400  # after which the composed functions take over
ITERATIONS_IN_A_GRAPH = 40  # where the host cannot look, because the user captures the loss
MOST_KEPT = 4  # shapes of batches, for each table of costs
LARGEST_BATCH = 2**23  # logits; a graph keeps about ten tensors as large


class DensePass:
    """The pass over batches of one shape; its tensors are overwritten at every call."""

    def __init__(
        self, spec: LossSpec, logits: Tensor, weights: Tensor, tol: float, mass_tolerance: float
    ) -> None:
        self._spec, self._tol, self._mass_tolerance = spec, tol, mass_tolerance
        self._logits, self._weights = logits, weights
        table = cast(Tensor, spec.metric.known_costs).double()
        kernel = (table / -spec.objective.epsilon).exp().to(logits.dtype)
        self._sums = Products(None, (kernel,), plain=True)
        self._support = torch.arange(len(kernel), device=kernel.device).unsqueeze(0)
        self._g, self._error = torch.empty_like(logits), torch.empty_like(logits[:, 0])
        self.left = torch.empty_like(self._error, dtype=torch.long)[0]

    def begin(self) -> None:
        """Read logits and weights, and take the first steps."""
        x, weights, spec = self._logits, self._weights, self._spec
        total = weights.sum(1, keepdim=True)
        self._valid = ((weights >= 0) & (weights < math.inf)).all(1) & x.amax(1).isfinite()
        self._valid &= (total > 0).squeeze(1)
        if not spec.normalize_target:
            self._valid &= ((total - 1).abs() <= self._mass_tolerance).squeeze(1)
        self._y = weights / total if spec.normalize_target else weights
        self._log_h = x.log_softmax(1)
        self._problem = Problem.from_log(
            self._log_h, self._y, self._support, spec.metric, spec.objective
        )
        self._conditions = Conditions.of(self._problem, self._sums)
        start = self._conditions.initial_potential(None)
        self._plain = ScalingIterations(self._conditions, self._sums, start)
        self._advance(self._plain, FIRST_ITERATIONS)

    def go_on(self) -> None:
        """More steps."""
        self._advance(self._plain, STRIDE)

    def lengthen(self) -> None:
        """The first over-relaxed steps, from where plain ones have come to."""
        self._longer = LogIterations(self._conditions, self._g)
        self.go_further()

    def go_further(self) -> None:
        """More over-relaxed steps."""
        self._advance(self._longer, STRIDE)

    def _advance(self, steps: ScalingIterations | LogIterations, count: int) -> None:
        """Take steps; note the potentials, the error, and how many examples it leaves.

        Always in the same place: which piece came last is not known to the one that reads it.
        """
        steps.step(count)
        self._g.copy_(steps.g())
        self._error.copy_(steps.error)
        self.left.copy_((self._valid & ~(self._error <= self._tol)).sum())

    def end(self) -> None:
        """Losses, gradients and statuses, `(batch,)`, `(batch, labels)` and `(batch,)`."""
        y, kl_weight, conditions = self._y, self._spec.kl_weight, self._conditions
        f, h = conditions.f_of(self._g), self._problem.log_h.exp()
        mean = (h * f).sum(1, keepdim=True)
        value = conditions.dual(f, self._g, h.sum(1))
        gradient = h * (f - mean)
        if kl_weight:
            # A weight of zero must not meet an infinite log.
            log_h = self._log_h.where(y > 0, 0.0)
            log_y = y.clamp(min=smallest_mass(y.dtype)).log()
            value = value + kl_weight * (y * (log_y - log_h)).sum(1)
            gradient += kl_weight * (h * y.sum(1, keepdim=True) - y)
        fine = self._valid & value.isfinite() & mean.squeeze(1).isfinite()
        code = torch.where(self._error <= self._tol, FINE, UNCONVERGED)
        self.status = torch.where(fine, code, INVALID).to(torch.uint8)
        self.worst = self.status.max()
        self.value = value.where(fine, math.nan)
        self.gradient = gradient.where(fine.unsqueeze(1), math.nan)


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
        """Losses, gradients, statuses, and the worst of these; None if they cannot be captured."""
        own = self._pass
        with self._lock, suppress(CaptureError):
            self._logits.copy_(logits)
            self._weights.copy_(weights)
            self._replay("begin")
            iterations, further = FIRST_ITERATIONS, False
            while int(own.left) and iterations < MOST_ITERATIONS:
                if iterations < PLAIN_ITERATIONS:
                    self._replay("go_on")
                else:
                    self._replay("go_further" if further else "lengthen")
                    further = True
                iterations += STRIDE
            self._replay("end")
            return own.value.clone(), own.gradient.clone(), own.status.clone(), int(own.worst)
        return None

    def _replay(self, name: str) -> None:
        if name not in self._graphs:
            run = getattr(self._pass, name)
            self._graphs[name] = captured(run, self._logits.device, self._pool)
        # All pieces or none: one that is not captured would make tensors that others do not read.
        if (replay := self._graphs[name]) is None:
            raise CaptureError
        replay()


# By table of costs, then by loss and shape; None for what has been asked for once.
_KEPT: WeakTensorKeyDictionary = WeakTensorKeyDictionary()
_KEPT_LOCK = Lock()


def dense_loss(
    logits: Tensor, target: ReadTarget, spec: LossSpec, mass_tolerance: float
) -> tuple[Tensor, Tensor, Tensor, int | None] | None:
    """Losses, gradients, statuses and the worst of these; None where this is not the way.

    The first batch of its shape is left to others: capturing takes longer than one solve.
    """
    dtype = _dtype_of_products(logits, spec)
    if dtype is None or logits.numel() > LARGEST_BATCH:
        return None
    # What is kept must not be tensors of inference mode, nor products of half precision.
    off = torch.autocast(logits.device.type, enabled=False)
    with torch.inference_mode(False), torch.no_grad(), off:
        x, weights = logits.detach().to(dtype), _all_weights(target, logits.dtype, spec).to(dtype)
        return _passed(spec, x, weights, _tolerance(logits.dtype, spec), mass_tolerance)


def _all_weights(target: ReadTarget, dtype: torch.dtype, spec: LossSpec) -> Tensor:
    """Weights of all labels, `(batch, labels)`, rounded to the precision of the logits."""
    weights = cast(Tensor, target.weights).detach()
    if target.indices.shape == weights.shape:  # each example has labels of its own
        read, _ = target.checked(spec.metric.size, dtype)
        return read.dense(spec.metric.size)
    return weights.to(dtype)


def _passed(
    spec: LossSpec, x: Tensor, weights: Tensor, tol: float, mass_tolerance: float
) -> tuple[Tensor, Tensor, Tensor, int | None] | None:
    """Run the pass, as graphs where there are any for this shape."""
    given = spec, x, weights, tol, mass_tolerance
    if not _checks.can_read_values():
        alone = DensePass(*given)
        alone.begin()
        for _ in range(FIRST_ITERATIONS, ITERATIONS_IN_A_GRAPH, STRIDE):
            alone.go_on()
        alone.end()
        return alone.value, alone.gradient, alone.status, None
    stream = torch.cuda.current_stream(x.device).stream_id
    settings = spec.objective, spec.kl_weight, spec.normalize_target
    key = (*settings, x.shape, x.dtype, tol, mass_tolerance, stream)
    with _KEPT_LOCK:
        kept: OrderedDict[object, DenseGraphs | None]
        kept = _KEPT.setdefault(spec.metric.known_costs, OrderedDict())
        known = key in kept
        graphs = kept.pop(key, None)
        if known and graphs is None:
            graphs = DenseGraphs(*given)
        kept[key] = graphs
        if len(kept) > MOST_KEPT:
            kept.popitem(last=False)
    return None if graphs is None else graphs(x, weights)


def _tolerance(dtype: torch.dtype, spec: LossSpec) -> float:
    tol = default_tolerance(dtype) if spec.options.tol is None else spec.options.tol
    return spec.objective.marginal_error(tol, spec.metric.largest_known_cost or 1.0)


def _dtype_of_products(logits: Tensor, spec: LossSpec) -> torch.dtype | None:
    """The precision whose range and digits suffice for plain scalings, if there is one."""
    largest, epsilon = spec.metric.largest_known_cost, spec.objective.epsilon
    usual = spec.objective.balanced and not spec.objective.exact and not spec.softening
    fixed = spec.options.scaling_iterations is not None or spec.options.max_iterations is not None
    if largest is None or not usual or fixed or not spec.transport_weight:
        return None
    single = logits.dtype == torch.float32
    if single and products_fit_single(largest, epsilon, _tolerance(logits.dtype, spec)):
        return torch.float32
    within = largest / epsilon <= LARGEST_PLAIN_EXPONENT[torch.float64]
    return torch.float64 if within else None
