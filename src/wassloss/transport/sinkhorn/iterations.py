"""Sinkhorn's updates of both scalings: plain ones first, then over-relaxed in the log domain.

Easy problems converge in twenty or thirty iterations, before there is a rate from which to choose
the relaxation. If the scalings do not overflow, a half-step without logarithms is one product and
one division: a third of the launches, which are all that counts on a GPU.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from copy import copy
from typing import TypeVar

import torch
from torch import Tensor

from wassloss import _checks
from wassloss.kernels.graphs import captured
from wassloss.transport.conditions import Conditions
from wassloss.transport.kernel_sums import Products
from wassloss.transport.precision import LEAST_LOG_MASS

State = TypeVar("State", bound="_Batch")

# Log-scaling of padding: negligible in sums and, unlike −inf, it can be subtracted from itself.
NOTHING = -1e30

# How far steps are lengthened: see `OverRelaxation`.
LARGEST = 1.99
# After a change of ω the error first grows, for about 1/(2 − ω) iterations, which says nothing
# about the rate. Wait twice as long before measuring it, and measure for as long.
SETTLING = 2.0
SHORTEST_MEASURE = 20  # iterations
SLACK = 0.1  # of 2 − ω, by which a rate must exceed ω − 1 to be distinguished from it
FAR = 0.1  # the error above which the linear theory does not apply …
LARGEST_WHILE_FAR = 1.5  # … and the largest ω there
LONGEST_JUMP = 4.0  # the factor by which one measurement may bring ω nearer to 2 …
PROBE = 2.0  # … and by which ω goes back while it is only known to be large enough
TOO_MUCH = 0.7  # the factor of ω − 1 after the error grew
BURST = 100.0  # growth of the error beyond what settling explains


class _Batch:
    """State of a batch, every attribute of which can be indexed by examples."""

    def __getitem__(self: State, rows: Tensor) -> State:
        """The state of some examples."""
        other = copy(self)
        vars(other).update((name, value[rows]) for name, value in vars(self).items())
        return other


class ScalingIterations:
    """Plain updates of the scalings `u` and `v`; the sums `Kᵀu` are kept for the next half-step."""

    def __init__(self, conditions: Conditions, sums: Products, g: Tensor) -> None:
        self.conditions, self._products = conditions, sums
        # Proposition 4.2: u = e^offset / (K v)^ρ, and likewise for v.
        self._factor_u, self._factor_v = (offset.exp_() for offset in _offsets(conditions))
        self._v = _log_scaling(conditions, g).exp_()
        self._u = torch.empty_like(self._factor_u)
        self._sums = torch.empty_like(self._v)
        self._find_u()
        self._wanted = conditions.wanted(g)  # constant if balanced
        self.error = torch.full_like(conditions.least_mass, torch.inf)  # of the target's marginal
        self._seen: list[tuple[int, Tensor]] = []  # iterations and the error after them

    def g(self) -> Tensor:
        """The target's potentials, `(batch, support)`; 0 on padding."""
        return self.conditions.potential(self._v.log())

    def step(self, count: int) -> None:
        """Run `count` iterations and measure the error."""
        for _ in range(count):
            torch.div(self._factor_v, self._damped(self._sums, 1), out=self._v)
            self._find_u()
        if not self.conditions.objective.balanced:
            self._wanted = self.conditions.wanted(self.g())
        self.error = self.conditions.error(self._v * self._sums, self._wanted)
        self._seen.append((self._seen[-1][0] + count if self._seen else count, self.error))

    def onward(self) -> LogIterations:
        """Continue in the log domain, with the relaxation that the observed rate suggests."""
        longer, (now, error) = LogIterations(self.conditions, self.g()), self._seen[-1]
        for then, earlier in reversed(self._seen):
            if now - then >= SHORTEST_MEASURE:
                longer.adapt(error, earlier, now - then)
                break
        return longer

    def _find_u(self) -> None:
        """Update `u` for the current `v`, and its sums."""
        self._products.product(self._v, self._u, over_labels=False)
        torch.div(self._factor_u, self._damped(self._u, 0), out=self._u)
        self._products.product(self._u, self._sums, over_labels=True)

    def _damped(self, sums: Tensor, side: int) -> Tensor:
        damping = self.conditions.damping(side)
        return sums if damping == 1 else sums.pow_(damping)


class LogIterations(_Batch):
    """Over-relaxed updates of `log u = f/ε + α` and `log v = g/ε + β`.

    A half-step is a sum over the kernel and two operations on `(batch, labels)`. Tensors are
    updated in place and nothing synchronises, so a CUDA graph can hold many steps.
    """

    def __init__(self, conditions: Conditions, g: Tensor) -> None:
        self.conditions = conditions
        self._offset_u, self._offset_v = _offsets(conditions)
        self._log_v = _log_scaling(conditions, g)
        self._best_u = torch.empty_like(self._offset_u)  # for the current v; scratch in between
        self._scratch_v = torch.empty_like(self._log_v)
        # Of the target's marginal, at the best u.
        self.error = torch.full_like(conditions.least_mass, torch.inf)
        self._find_best_u()
        self._log_u = self._best_u.clone()
        self._kept_u, self._kept_v = self._log_u.clone(), self._log_v.clone()
        self._relaxation = OverRelaxation(self._log_v)

    def g(self) -> Tensor:
        """The target's potentials, `(batch, support)`; 0 on padding."""
        return self.conditions.potential(self._log_v)

    def neglects_too_much(self, tol: float) -> bool:
        """Whether a cut kernel neglects more than `tol` at the best `u` for the current `v`."""
        sums = self.conditions.sums
        if not isinstance(sums, Products) or not sums.cut:
            return False
        log_v = self._log_v.where(self.conditions.present, -torch.inf)
        return bool((sums.neglected(self._best_u, log_v) > tol).any())

    def step(self, count: int) -> None:
        """Run `count` iterations, measure the error, and adapt the relaxation to it."""
        log_sum, omega = self.conditions.sums.log_sum, self._relaxation.omega
        damping = self.conditions.damping(1)
        for _ in range(count):
            log_sum(self._log_u, self._best_u, self._scratch_v, over_labels=True)
            torch.sub(self._offset_v, self._scratch_v, alpha=damping, out=self._scratch_v)
            self._log_v.lerp_(self._scratch_v, omega)
            self._find_best_u()
            self._log_u.lerp_(self._best_u, omega)
        # The best u meets the prediction's marginal exactly, so the error is the target's.
        wanted = self.conditions.wanted(self.g())
        mass = (log_sum(self._best_u, over_labels=True) + self._log_v).exp()
        self.error.copy_(self.conditions.error(mass, wanted))
        self._restore(*self._relaxation.judge(self.error, count))
        if self.conditions.objective.balanced:  # as in `_log_scaling`
            shift = self._log_v.amax(1, keepdim=True)
            self._log_v.sub_(shift)
            self._log_u.add_(shift)

    def adapt(self, error: Tensor, earlier: Tensor, count: int) -> None:
        """Take over from plain steps, given their error now and `count` iterations earlier."""
        self.error.copy_(error)
        self._relaxation.reference.copy_(earlier.unsqueeze(1))
        self._relaxation.judge(error, count)

    def _find_best_u(self) -> None:
        sums, scratch, out = self.conditions.sums, self._scratch_v, self._best_u
        sums.log_sum(self._log_v, scratch, out, over_labels=False)
        torch.sub(self._offset_u, out, alpha=self.conditions.damping(0), out=out)

    def _restore(self, good: Tensor, burst: Tensor) -> None:
        """Save the state where it is the best so far; go back to the best where the error burst."""
        for kept, now in ((self._kept_u, self._log_u), (self._kept_v, self._log_v)):
            kept.copy_(torch.where(good, now, kept))
            now.copy_(torch.where(burst, kept, now))


class OverRelaxation(_Batch):
    """The factor `1 ≤ ω < 2` of each example, adapted to the observed rate of its error.

    Plain updates (`ω = 1`) multiply the error by a factor `θ` per iteration, with `1 − θ` of the
    order of `ε`. With `ω = 2 / (1 + √(1 − θ))` the factor is `ω − 1`, and its distance from 1 is of
    the order of `√ε` (Thibault et al., *Overrelaxed Sinkhorn-Knopp*, 2021). Young's formula for
    successive over-relaxation gives `θ` from the rate `λ` at any smaller `ω`:
    `θ = (λ + ω − 1)² / (λ ω²)`.

    Tensors are updated in place and nothing synchronises, so a CUDA graph can hold the steps.
    """

    def __init__(self, like: Tensor) -> None:
        """Allocate for the batch, dtype and device of a tensor `(batch, …)`."""
        ones = torch.ones_like(like[:, :1])
        self.omega = ones.clone()  # (batch, 1), as all below
        self.reference = torch.full_like(ones, math.inf)  # the error when measuring began
        self.waited = torch.zeros_like(ones)  # iterations since then, or since ω changed
        # Whether ω was compared with a smaller one.
        self.sure = torch.zeros_like(ones, dtype=torch.bool)
        self.least = torch.full_like(ones, math.inf)  # the smallest error since ω changed

    def judge(self, error: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Record the error after `count` more iterations.

        Returns masks `(batch, 1)`: where the state is the best so far, and where the error burst,
        so that the state must go back to the best.
        """
        error, omega = error.unsqueeze(1), self.omega
        self.waited.add_(count)
        span = SETTLING / (2 - omega)
        measuring = self.reference < math.inf
        begins = ~measuring & (self.waited >= span)
        ends = measuring & (self.waited >= span.clamp(min=SHORTEST_MEASURE))
        burst = ~(error <= BURST * self.least) & (omega > 1)  # comparisons with NaN are false

        rate = (error / self.reference).clamp(1e-12, 1e12) ** (1 / self.waited.clamp(min=1))
        theta = ((rate + omega - 1) ** 2 / (rate * omega**2)).clamp(max=1 - 1e-6)
        best = (2 / (1 + (1 - theta).sqrt())).clamp(max=LARGEST)
        best = torch.where(error > FAR, best.clamp(max=LARGEST_WHILE_FAR), best)
        best = torch.minimum(best, 2 - (2 - omega) / LONGEST_JUMP)
        slow = rate > omega - 1 + SLACK * (2 - omega)
        # Every ω beyond the best has the rate ω − 1, so only a smaller ω shows by how much.
        less = torch.where(self.sure, omega, 2 - (2 - omega) * PROBE).clamp(min=1)
        chosen = torch.where(slow, torch.maximum(best, omega), less)
        chosen = torch.where(burst | (rate > 1), 1 + (omega - 1) * TOO_MUCH, chosen)
        chosen = torch.where(ends | burst, chosen, omega)

        self.sure.logical_or_(ends & slow & (omega > 1))
        changed = chosen != omega
        good = ~burst & (changed | (error <= self.least))
        self.least.copy_(torch.where(good, error, self.least))
        restart = begins | ends | burst
        reference = torch.where(restart, error, self.reference)
        self.reference.copy_(reference.masked_fill(changed | burst, math.inf))
        self.waited.masked_fill_(restart, 0)
        omega.copy_(chosen)
        return good, burst


def first_steps(conditions: Conditions, g: Tensor) -> ScalingIterations | LogIterations:
    """Plain steps from `g` if the scalings cannot overflow, otherwise steps in the log domain."""
    sums = conditions.sums
    if isinstance(sums, Products) and sums.plain and sums.dtype == g.dtype:
        return ScalingIterations(conditions, sums, g)
    return LogIterations(conditions, g)


def repeated(steps: LogIterations, count: int) -> Callable[[], object]:
    """`steps.step(count)` as a function, on a GPU as one CUDA graph instead of many launches."""

    def step() -> None:
        steps.step(count)

    on_gpu = steps.error.device.type == "cuda" and _checks.can_read_values()
    return (captured(step, steps.error.device) if on_gpu else None) or step


def _log_scaling(conditions: Conditions, g: Tensor) -> Tensor:
    """`log v` of target potentials; balanced, `v` is scaled to a maximum of 1."""
    log_v = conditions.log_v(g).clamp(min=NOTHING)
    return log_v - log_v.amax(1, keepdim=True) if conditions.objective.balanced else log_v


def _offsets(conditions: Conditions) -> list[Tensor]:
    """Proposition 4.2 in scalings: `log u = offset_u − ρ_a log K v`, and likewise for `v`."""
    sides = (conditions.log_h, conditions.alpha), (conditions.log_y, conditions.beta)
    offsets = []
    for side, (log_mass, log_reference) in enumerate(sides):
        offset, absent, damping = log_mass, log_mass == -torch.inf, conditions.damping(side)
        if damping != 1:
            offset = torch.lerp(log_reference, log_mass, damping).masked_fill_(absent, NOTHING)
        if isinstance(conditions.sums, Products):
            # A negligible mass must not lead to denormal numbers, which are slow.
            least = offset.amax(1, keepdim=True) + LEAST_LOG_MASS[offset.dtype]
            offset = torch.maximum(offset, least)
        offsets.append(offset.masked_fill(absent, NOTHING))
    return offsets
