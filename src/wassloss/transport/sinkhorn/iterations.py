"""Sinkhorn's updates of both scalings, with as little overhead as possible.

A solve begins with plain steps on the scalings themselves and goes on with over-relaxed ones in the
log domain. Easy problems are done in twenty or thirty iterations, before there is a rate from which
to learn how far to lengthen steps; and where numbers can hold the scalings, a half-step without
logarithms is one product and one division: a third of the calls, which is all that counts on a GPU.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from wassloss.transport.conditions import Conditions
from wassloss.transport.kernel_sums import Products
from wassloss.transport.precision import LEAST_LOG_MASS
from wassloss.transport.sinkhorn.relaxation import SHORTEST_MEASURE, OverRelaxation

# The log-scaling of padding: no sum notices it, and unlike −inf it can be subtracted from itself.
NOTHING = -1e30


class ScalingIterations:
    """Both scalings of a batch, `u` and `v`, and the sums `Kᵀu` that the next half-step needs.

    Attributes:
        error: of the target's marginal, `(batch,)`; infinite before the first step.
    """

    def __init__(self, conditions: Conditions, sums: Products, g: Tensor) -> None:
        self.conditions, self._products = conditions, sums
        self._damping = _damping(conditions)
        # Proposition 4.2: u = e^offset / (K v)^ρ, and likewise for v.
        self._of_u, self._of_v = (offset.exp_() for offset in _offsets(conditions))
        self._v = _log_scaling(conditions, g).exp_()
        self._u = torch.empty_like(self._of_u)
        self._sums = torch.empty_like(self._v)
        self._find_u()
        self._wanted = conditions.wanted(g)  # which stays, if balanced
        self.error = torch.full_like(conditions.least_mass, torch.inf)
        self._seen: list[tuple[int, Tensor]] = []  # iterations and the error after them

    @classmethod
    def of(cls, conditions: Conditions, g: Tensor) -> ScalingIterations | None:
        """An opening at target potentials `g`, if the scalings are in the range of numbers."""
        sums = conditions.sums
        if isinstance(sums, Products) and sums.plain and sums.dtype == g.dtype:
            return cls(conditions, sums, g)
        return None

    def g(self) -> Tensor:
        """The target's potentials, `(batch, support)`; 0 on padding."""
        return self.conditions.potential(self._v.log())

    def step(self, count: int) -> None:
        """Go `count` iterations and measure the error."""
        for _ in range(count):
            torch.div(self._of_v, self._damped(self._sums, 1), out=self._v)
            self._find_u()
        if not self.conditions.objective.balanced:
            self._wanted = self.conditions.wanted(self.g())
        self.error = self.conditions.error(self._v * self._sums, self._wanted)
        self._seen.append((self._seen[-1][0] + count if self._seen else count, self.error))

    def onward(self) -> LogIterations:
        """The iterations that go on from here, with steps as long as the rate suggests."""
        longer, (now, error) = LogIterations(self.conditions, self.g()), self._seen[-1]
        for then, earlier in reversed(self._seen):
            if now - then >= SHORTEST_MEASURE:
                longer.adapt(error, earlier, now - then)
                break
        return longer

    def _find_u(self) -> None:
        """The best `u` for the present `v`, and its sums."""
        self._products.product(self._v, self._u, over_labels=False)
        torch.div(self._of_u, self._damped(self._u, 0), out=self._u)
        self._products.product(self._u, self._sums, over_labels=True)

    def _damped(self, sums: Tensor, side: int) -> Tensor:
        damping = self._damping[side]
        return sums if damping == 1 else sums.pow_(damping)


class LogIterations:
    """The logs of both scalings of a batch, `log u = f/ε + α` and `log v = g/ε + β`.

    A half-step is a sum over the kernel and two calls on `(batch, labels)`. Tensors are updated in
    place and nothing waits for the device, so a CUDA graph can hold many steps.

    Attributes:
        error: of the target's marginal at `g` and the best `f` for it, `(batch,)`; infinite before
            the first step.
    """

    def __init__(self, conditions: Conditions, g: Tensor) -> None:
        self.conditions, self._damping = conditions, _damping(conditions)
        self._offset_u, self._offset_v = _offsets(conditions)
        self._log_v = _log_scaling(conditions, g)
        self._best_u = torch.empty_like(self._offset_u)  # for the present v; scratch in between
        self._scratch_v = torch.empty_like(self._log_v)
        self.error = torch.full_like(conditions.least_mass, torch.inf)
        self._find_best_u()
        self._log_u = self._best_u.clone()
        self._kept_u, self._kept_v = self._log_u.clone(), self._log_v.clone()
        self._relaxation = OverRelaxation(self._log_v)

    def __getitem__(self, rows: Tensor) -> LogIterations:
        """The same iterations of some examples."""
        other = LogIterations.__new__(LogIterations)
        for name, value in vars(self).items():
            whole = isinstance(value, tuple)  # the dampings are those of all examples
            setattr(other, name, value if whole else value[rows])
        return other

    def g(self) -> Tensor:
        """The target's potentials, `(batch, support)`; 0 on padding."""
        return self.conditions.potential(self._log_v)

    def step(self, count: int) -> None:
        """Go `count` iterations, measure the error, and adapt the relaxation to it."""
        log_sum, omega = self.conditions.sums.log_sum, self._relaxation.omega
        for _ in range(count):
            log_sum(self._log_u, self._best_u, self._scratch_v, over_labels=True)
            torch.sub(self._offset_v, self._scratch_v, alpha=self._damping[1], out=self._scratch_v)
            self._log_v.lerp_(self._scratch_v, omega)
            self._find_best_u()
            self._log_u.lerp_(self._best_u, omega)
        # The best u meets the prediction's marginal exactly: what is left is the target's.
        wanted = self.conditions.wanted(self.g())
        mass = (log_sum(self._best_u, over_labels=True) + self._log_v).exp()
        self.error.copy_(self.conditions.error(mass, wanted))
        self._restore(*self._relaxation.judge(self.error, count))
        if self.conditions.objective.balanced:  # as in `_log_scaling`
            shift = self._log_v.amax(1, keepdim=True)
            self._log_v.sub_(shift)
            self._log_u.add_(shift)

    def adapt(self, error: Tensor, earlier: Tensor, count: int) -> None:
        """Take over from plain steps: their error now, and what it was `count` iterations ago."""
        self.error.copy_(error)
        self._relaxation.reference.copy_(earlier.unsqueeze(1))
        self._relaxation.judge(error, count)

    def _find_best_u(self) -> None:
        sums, scratch, out = self.conditions.sums, self._scratch_v, self._best_u
        sums.log_sum(self._log_v, scratch, out, over_labels=False)
        torch.sub(self._offset_u, out, alpha=self._damping[0], out=out)

    def _restore(self, good: Tensor, burst: Tensor) -> None:
        """Keep what is good; go back to that where a longer step left the range of numbers."""
        for kept, now in ((self._kept_u, self._log_u), (self._kept_v, self._log_v)):
            kept.copy_(torch.where(good, now, kept))
            now.copy_(torch.where(burst, kept, now))


def repeated(steps: LogIterations, count: int) -> Callable[[], None]:
    """`steps.step(count)`, on a GPU as one CUDA graph instead of some hundred launches."""

    def step() -> None:
        steps.step(count)

    if steps.error.device.type != "cuda" or torch.cuda.is_current_stream_capturing():
        return step
    graph, stream = torch.cuda.CUDAGraph(), torch.cuda.Stream(steps.error.device)
    stream.wait_stream(torch.cuda.current_stream(steps.error.device))
    try:
        # torch.cuda.graph would collect garbage first, which takes longer than most solves.
        with torch.cuda.stream(stream):
            graph.capture_begin(capture_error_mode="thread_local")
            try:
                step()
            finally:
                graph.capture_end()
    except RuntimeError:  # a library that cannot be captured: launch call by call
        return step
    torch.cuda.current_stream(steps.error.device).wait_stream(stream)
    return graph.replay


def _damping(conditions: Conditions) -> tuple[float, float]:
    objective, epsilon = conditions.objective, conditions.epsilon
    return float(objective.damping(epsilon, 0)), float(objective.damping(epsilon, 1))


def _log_scaling(conditions: Conditions, g: Tensor) -> Tensor:
    """`log v` of target potentials; balanced, it is defined up to a factor: the largest is 1."""
    log_v = (g / conditions.epsilon + conditions.beta).clamp(min=NOTHING)
    return log_v - log_v.amax(1, keepdim=True) if conditions.objective.balanced else log_v


def _offsets(conditions: Conditions) -> tuple[Tensor, Tensor]:
    """Proposition 4.2 in scalings: `log u = offset_u − ρ_a log K v`, and likewise for `v`."""
    (rho_u, rho_v), by_products = _damping(conditions), isinstance(conditions.sums, Products)
    return (
        _offset(conditions.log_h, conditions.alpha, rho_u, by_products),
        _offset(conditions.log_y, conditions.beta, rho_v, by_products),
    )


def _offset(log_mass: Tensor, log_reference: Tensor, damping: float, by_products: bool) -> Tensor:
    offset, absent = log_mass, log_mass == -torch.inf
    if damping != 1:
        offset = torch.lerp(log_reference, log_mass, damping).masked_fill_(absent, NOTHING)
    if by_products:
        # A mass that no sum can feel must not lead to denormal numbers, which are slow.
        least = offset.amax(1, keepdim=True) + LEAST_LOG_MASS[offset.dtype]
        offset = torch.maximum(offset, least)
    return offset.masked_fill(absent, NOTHING)
