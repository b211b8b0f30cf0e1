"""Sinkhorn's first iterations, on the scalings themselves: one product and division per half-step.

Easy problems are done in twenty or thirty iterations, before there is a rate from which to learn
how far to lengthen steps. So these are plain ones, and where numbers can hold the scalings no
logarithms are needed either. On a GPU, where such a solve is all launches, that is a third of the
calls of :class:`~wassloss.transport.sinkhorn.log_domain.LogIterations`.
"""

from __future__ import annotations

import torch
from torch import Tensor

from wassloss.transport.conditions import distance_of_marginals
from wassloss.transport.kernel_conditions import KernelConditions
from wassloss.transport.kernel_sums import KernelProducts
from wassloss.transport.sinkhorn.log_domain import (
    LogIterations,
    centred,
    log_scaling,
    offsets,
)
from wassloss.transport.sinkhorn.relaxation import SHORTEST_MEASURE


class ScalingIterations:
    """Both scalings of a batch, `u` and `v`, and the sums `Kᵀu` that the next half-step needs.

    Attributes:
        error: of the target's marginal, `(batch,)`; infinite before the first step.
    """

    def __init__(self, conditions: KernelConditions, sums: KernelProducts, g: Tensor) -> None:
        self.conditions, self._products = conditions, sums
        objective = conditions.objective
        self._damping = tuple(float(objective.damping(conditions.epsilon, side)) for side in (0, 1))
        # Proposition 4.2: u = e^offset / (K v)^ρ, and likewise for v.
        self._of_u, self._of_v = (offset.exp_() for offset in offsets(conditions))
        log_v = log_scaling(conditions, g)
        self._v = (centred(log_v) if objective.balanced else log_v).exp_()
        self._u = torch.empty_like(self._of_u)
        self._sums = torch.empty_like(self._v)
        self._find_u()
        self._marginal = conditions.target_marginal(g)  # which stays, if balanced
        self.error = torch.full_like(conditions.least_mass, torch.inf)
        self._seen: list[tuple[int, Tensor]] = []  # iterations and the error after them

    @classmethod
    def of(cls, conditions: KernelConditions, g: Tensor) -> ScalingIterations | None:
        """An opening at target potentials `g`, if the scalings are in the range of numbers."""
        sums = conditions.sums
        if isinstance(sums, KernelProducts) and sums.plain and sums.dtype == g.dtype:
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
        mass = self._v * self._sums
        if not self.conditions.objective.balanced:
            self._marginal = self.conditions.target_marginal(self.g())
        self.error = distance_of_marginals(mass, *self._marginal)
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
