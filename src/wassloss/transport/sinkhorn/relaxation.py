"""How far to lengthen Sinkhorn's steps, learned from the rate at which the error falls."""

from __future__ import annotations

import math

import torch
from torch import Tensor

LARGEST = 1.99
# After a change of ω the error first grows, for about 1/(2 − ω) iterations, which says nothing
# about the rate. Wait twice as long before measuring it, and measure for as long.
SETTLING = 2.0
SHORTEST_MEASURE = 20  # iterations
SLACK = 0.1  # of 2 − ω, by which a rate must exceed ω − 1 to be distinguished from it
FAR = 0.1  # an error above which the linear theory is not to be trusted …
LARGEST_WHILE_FAR = 1.5  # … and what is tried at most there
LONGEST_JUMP = 4.0  # the factor by which one measurement may bring ω nearer to 2 …
PROBE = 2.0  # … and by which ω goes back while it is only known to be large enough
TOO_MUCH = 0.7  # what is left of the excess over 1 where the error grew
BURST = 100.0  # the growth of the error that no settling explains


class OverRelaxation:
    """The factor `1 ≤ ω < 2` of each example, and what has been seen of its error.

    Plain updates (`ω = 1`) shrink the error by a factor `θ` an iteration, with `1 − θ` of the
    order of `ε`; `ω = 2 / (1 + √(1 − θ))` brings that to its square root, the rate `ω − 1`
    (Thibault et al., *Overrelaxed Sinkhorn-Knopp*, 2021). Young's formula for successive
    over-relaxation gives `θ` from the rate `λ` at any smaller `ω`: `θ = (λ + ω − 1)² / (λ ω²)`.

    Tensors are changed in place, without reading their values, so a CUDA graph can hold the steps.
    """

    def __init__(self, like: Tensor) -> None:
        """From a tensor `(batch, …)`, for dtype and device."""
        ones = torch.ones_like(like[:, :1])
        self.omega = ones.clone()  # (batch, 1), as all below
        self.reference = torch.full_like(ones, math.inf)  # the error when measuring began
        self.waited = torch.zeros_like(ones)  # iterations since then, or since ω changed
        self.sure = torch.zeros_like(ones, dtype=torch.bool)  # ω was told from a smaller one
        self.least = torch.full_like(ones, math.inf)  # the smallest error since ω changed

    def __getitem__(self, rows: Tensor) -> OverRelaxation:
        other = OverRelaxation.__new__(OverRelaxation)
        for name, value in vars(self).items():
            setattr(other, name, value[rows])
        return other

    def judge(self, error: Tensor, count: int) -> tuple[Tensor, Tensor]:
        """Take note of the error after `count` more iterations.

        Returns:
            Masks `(batch, 1)`: where the potentials are the best to come back to, and where they
            burst and must go back.
        """
        error, omega = error.unsqueeze(1), self.omega
        self.waited.add_(count)
        span = SETTLING / (2 - omega)
        measuring = self.reference < math.inf
        begins = ~measuring & (self.waited >= span)
        ends = measuring & (self.waited >= span.clamp(min=SHORTEST_MEASURE))
        burst = ~(error <= BURST * self.least) & (omega > 1)  # a NaN compares false

        rate = (error / self.reference).clamp(1e-12, 1e12) ** (1 / self.waited.clamp(min=1))
        theta = ((rate + omega - 1) ** 2 / (rate * omega**2)).clamp(max=1 - 1e-6)
        best = (2 / (1 + (1 - theta).sqrt())).clamp(max=LARGEST)
        best = torch.where(error > FAR, best.clamp(max=LARGEST_WHILE_FAR), best)
        best = torch.minimum(best, 2 - (2 - omega) / LONGEST_JUMP)
        slow = rate > omega - 1 + SLACK * (2 - omega)
        # Any ω beyond the best has the rate ω − 1: only a smaller ω tells how far beyond it is.
        less = torch.where(self.sure, omega, 2 - (2 - omega) * PROBE).clamp(min=1)
        told = torch.where(slow, torch.maximum(best, omega), less)
        told = torch.where(burst | (rate > 1), 1 + (omega - 1) * TOO_MUCH, told)
        told = torch.where(ends | burst, told, omega)

        self.sure.logical_or_(ends & slow & (omega > 1))
        changed = told != omega
        good = ~burst & (changed | (error <= self.least))
        self.least.copy_(torch.where(good, error, self.least))
        anew = begins | ends | burst
        reference = torch.where(anew, error, self.reference)
        self.reference.copy_(reference.masked_fill(changed | burst, math.inf))
        self.waited.masked_fill_(anew, 0)
        omega.copy_(told)
        return good, burst
