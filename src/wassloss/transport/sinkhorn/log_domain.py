"""Sinkhorn's updates of both potentials in the log domain, with as little overhead as possible."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from wassloss.transport.kernel_conditions import KernelConditions
from wassloss.transport.kernel_sums import KernelProducts, neglected
from wassloss.transport.precision import LEAST_LOG_MASS
from wassloss.transport.sinkhorn.relaxation import OverRelaxation

# The log-scaling of padding: no sum notices it, and unlike −inf it can be subtracted from itself.
NOTHING = -1e30


class LogIterations:
    """The logs of both scalings of a batch, `log u = f/ε + α` and `log v = g/ε + β`.

    A half-step is a sum over the kernel and two calls on `(batch, labels)`. Tensors are updated in
    place and nothing waits for the device, so a CUDA graph can hold many steps.

    Attributes:
        error: of the target's marginal at `g` and the best `f` for it, `(batch,)`; infinite before
            the first step.
    """

    def __init__(self, conditions: KernelConditions, g: Tensor) -> None:
        objective, epsilon = conditions.objective, conditions.epsilon
        self.conditions, self.balanced = conditions, objective.balanced
        self._damping = tuple(float(objective.damping(epsilon, side)) for side in (0, 1))
        self._offset_u, self._offset_v = offsets(conditions)
        log_v = log_scaling(conditions, g)
        self._log_v = centred(log_v) if self.balanced else log_v
        self._best_u = torch.empty_like(self._offset_u)  # for the present v; scratch in between
        self._scratch_v = torch.empty_like(self._log_v)
        self.error = torch.full_like(conditions.least_mass, torch.inf)
        self._find_best_u()
        self._log_u = self._best_u.clone()
        self._kept = self._log_u.clone(), self._log_v.clone()
        self._relaxation = OverRelaxation(self._log_v)

    def __getitem__(self, rows: Tensor) -> LogIterations:
        """The same iterations of some examples."""
        other = LogIterations.__new__(LogIterations)
        for name, value in vars(self).items():
            if isinstance(value, Tensor | KernelConditions | OverRelaxation):
                value = value[rows]
            setattr(other, name, value)
        other._kept = self._kept[0][rows], self._kept[1][rows]
        return other

    def g(self) -> Tensor:
        """The target's potentials, `(batch, support)`; 0 on padding."""
        return self.conditions.potential(self._log_v)

    def neglected(self) -> Tensor:
        """See `kernel_sums.neglected`; at the best `u` for the present `v`, `(batch,)`."""
        log_v = self._log_v.where(self.conditions.present, -torch.inf)
        return neglected(self.conditions.sums, self._best_u, log_v)

    def step(self, count: int) -> None:
        """Go `count` iterations, measure the error, and adapt the relaxation to it."""
        for _ in range(count):
            self.conditions.sums.over_labels(self._log_u, self._best_u, self._scratch_v)
            torch.sub(self._offset_v, self._scratch_v, alpha=self._damping[1], out=self._scratch_v)
            self._log_v.lerp_(self._scratch_v, self._relaxation.omega)
            self._find_best_u()
            self._log_u.lerp_(self._best_u, self._relaxation.omega)
        self._measure()
        self._restore(*self._relaxation.judge(self.error, count))
        self._centre()

    def adapt(self, error: Tensor, earlier: Tensor, count: int) -> None:
        """Take over from plain steps: their error now, and what it was `count` iterations ago."""
        self.error.copy_(error)
        self._relaxation.reference.copy_(earlier.unsqueeze(1))
        self._relaxation.judge(error, count)

    def _find_best_u(self) -> None:
        self.conditions.sums.over_support(self._log_v, self._scratch_v, self._best_u)
        torch.sub(self._offset_u, self._best_u, alpha=self._damping[0], out=self._best_u)

    def _measure(self) -> None:
        # The best u meets the prediction's marginal exactly: what is left is the target's.
        g, sums = self.g(), self.conditions.sums.over_labels(self._best_u)
        mass = (sums + self._log_v).exp()
        self.error.copy_(self.conditions.error(mass, g))

    def _restore(self, good: Tensor, burst: Tensor) -> None:
        """Keep what is good; go back to that where a longer step left the range of numbers."""
        for kept, now in zip(self._kept, (self._log_u, self._log_v), strict=True):
            kept.copy_(torch.where(good, now, kept))
            now.copy_(torch.where(burst, kept, now))

    def _centre(self) -> None:
        """See `centred`; here in place."""
        if not self.balanced:
            return
        shift = self._log_v.amax(1, keepdim=True)
        self._log_v.sub_(shift)
        self._log_u.add_(shift)


def log_scaling(conditions: KernelConditions, g: Tensor) -> Tensor:
    """`log v` of target potentials `g`, `(batch, support)`."""
    return (g / conditions.epsilon + conditions.beta).clamp(min=NOTHING)


def centred(log_v: Tensor) -> Tensor:
    """Balanced scalings are defined up to a factor: let the largest `v` be 1."""
    return log_v - log_v.amax(1, keepdim=True)


def offsets(conditions: KernelConditions) -> tuple[Tensor, Tensor]:
    """Proposition 4.2 in scalings: `log u = offset_u − ρ_a log K v`, and likewise for `v`."""
    rho_u, rho_v = (float(conditions.objective.damping(conditions.epsilon, i)) for i in (0, 1))
    return (
        _offset(conditions.log_h, conditions.alpha, rho_u, conditions),
        _offset(conditions.log_y, conditions.beta, rho_v, conditions),
    )


def _offset(
    log_mass: Tensor, log_reference: Tensor, damping: float, of: KernelConditions
) -> Tensor:
    offset, absent = log_mass, log_mass == -torch.inf
    if damping != 1:
        offset = torch.lerp(log_reference, log_mass, damping).masked_fill_(absent, NOTHING)
    if isinstance(of.sums, KernelProducts):
        # A mass that no sum can feel must not lead to denormal numbers, which are slow.
        least = offset.amax(1, keepdim=True) + LEAST_LOG_MASS[offset.dtype]
        offset = torch.maximum(offset, least)
    return offset.masked_fill(absent, NOTHING)


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
