r"""The objective of a transport plan: the regulariser and the marginal penalties.

With `h` the prediction, `y` the target, `M` the cost and `KL~(w‖z) = Σ w log(w/z) − w + z`, the
objectives over plans `T ≥ 0` are

==================  ==========================================================================
exact               ``<T,M>``                                 with ``T1 = h``, ``Tᵀ1 = y``
``"plan"``          ``<T,M> + ε Σ T log T``                   the paper's smoothed transport
``"product"``       ``<T,M> + ε KL~(T ‖ h yᵀ)``               what most libraries call Sinkhorn
relaxed             ``… + γ_a KL~(T1 ‖ h) + γ_b KL~(Tᵀ1 ‖ y)``  in place of the constraints
nearest             ``γ_b = 0``: mass may go to whichever targets are nearest
==================  ==========================================================================

Both regularisers are entropies relative to a reference measure `R = exp(α_i + β_j)`: `1/e`
everywhere for ``"plan"`` (the `−1` in the paper's kernel), `h yᵀ` for ``"product"``. The optimal
plan is `T = R exp((f + g − M)/ε)`, and a constraint is a penalty of infinite weight. Everything
below follows from the dual

    D(f, g) = Σ γ_a h (1 − e^{−f/γ_a}) + Σ γ_b y (1 − e^{−g/γ_b}) − ε (Σ T − Σ R [product only]),

whose value is a lower bound for any `f, g`, and whose derivative in `h` at the optimum is the
gradient of the loss (the envelope theorem).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from enum import Enum

import torch
from torch import Tensor

from wassloss.kernels.newton_constants import NO_LOG_MASS

# The error of potentials, in units of the largest cost, may be this many times the tolerance.
_SLACK = 10.0
_FINEST = 1e-13  # the smallest marginal error that double precision reaches, even for flat plans


class Regularizer(str, Enum):
    """Which entropy smooths the plan: see the table at the top of this module."""

    PLAN = "plan"
    PRODUCT = "product"


@dataclass(frozen=True)
class Objective:
    """The objective of a transport problem, apart from its data.

    `epsilon = 0` is exact transport; `gamma = (inf, inf)` is balanced transport; with
    `gamma = (inf, 0)` the target's masses do not have to be met.
    """

    epsilon: float
    gamma: tuple[float, float] = (math.inf, math.inf)
    regularizer: Regularizer = Regularizer.PLAN

    @property
    def exact(self) -> bool:
        """Whether there is no entropy: a linear program."""
        return self.epsilon == 0

    @property
    def balanced(self) -> bool:
        """Whether both marginals are constraints; potentials then have a free constant."""
        return math.isinf(self.gamma[0]) and math.isinf(self.gamma[1])

    @property
    def free_target(self) -> bool:
        """Whether the target's marginal is free."""
        return self.gamma[1] == 0

    @property
    def values_are_costs(self) -> bool:
        """Whether values stay as large as costs, however large `epsilon` is."""
        return self.balanced and self.regularizer is Regularizer.PRODUCT and not self.exact

    def marginal_error(self, tol: float, reach: float) -> float:
        """The marginal error at which potentials of size `reach` are accurate to `tol`.

        A marginal error of `tol` leaves an error of `tol · ε` in the potentials. That is small if
        values are of the size of an entropy, but too large if they are costs.
        """
        if not self.values_are_costs:
            return tol
        return max(tol * min(1.0, _SLACK * reach / self.epsilon), min(tol, _FINEST))

    def log_reference(self, log_h: Tensor, log_y: Tensor) -> tuple[Tensor, Tensor]:
        """`(α, β)` with `R = exp(α_i + β_j)`; `β = −inf` on the padding of the target."""
        if self.regularizer is Regularizer.PRODUCT:
            return log_h, log_y
        return torch.zeros_like(log_h), torch.where(log_y > -math.inf, -1.0, log_y)

    def mass_term(self, log_mass: Tensor, potential: Tensor, side: int) -> Tensor:
        """The dual's summand `γ m (1 − e^{−p/γ})`, or `m p` if constrained; also `∂D/∂ log m`."""
        gamma, mass = self.gamma[side], log_mass.exp()
        if math.isinf(gamma):
            return mass * potential
        if gamma == 0:
            return torch.zeros_like(mass)
        exponent = -potential / gamma
        # expm1 keeps all digits as γ → ∞; the other form cannot overflow for a vanished mass.
        return gamma * torch.where(
            exponent.abs() < 0.5,
            -mass * torch.expm1(exponent.clamp(-1.0, 1.0)),
            mass - self.marginal(log_mass, potential, side),
        )

    def dual(
        self,
        log_h: Tensor,
        log_y: Tensor,
        f: Tensor,
        g: Tensor,
        plan_mass: Tensor,
        epsilon: float | Tensor,
    ) -> Tensor:
        """`D(f, g)`, `(batch,)`, given the plan's total mass; `epsilon` may be per example."""
        if self.regularizer is Regularizer.PRODUCT:
            plan_mass = plan_mass - log_h.exp().sum(1) * log_y.exp().sum(1)
        on_labels = self.mass_term(log_h, f, 0).sum(1)
        on_support = self.mass_term(log_y, g, 1).sum(1)
        return on_labels + on_support - epsilon * plan_mass

    def marginal(self, log_mass: Tensor, potential: Tensor, side: int) -> Tensor:
        """The marginal implied by a potential, `m e^{−p/γ}`: `m` itself when balanced."""
        gamma = self.gamma[side]
        if math.isinf(gamma):
            return log_mass.exp()
        # Zero mass stays zero: the difference of two such logs is nothing but rounding error.
        return (log_mass - potential / gamma).exp().where(log_mass > NO_LOG_MASS, 0)

    def damping(self, epsilon: float | Tensor, side: int) -> float | Tensor:
        """`γλ / (γλ + 1)`, the paper's exponent: 1 for a constraint, 0 for a free marginal."""
        gamma = self.gamma[side]
        if math.isinf(gamma) or gamma == 0:
            return float(gamma > 0)
        return gamma / (gamma + epsilon)

    @property
    def price_of_unequal_masses(self) -> float:
        """`γ_a γ_b / (γ_a + γ_b)`, the shift of the potentials per log of the masses' ratio.

        The shift is the price of mass that is created or destroyed rather than moved.
        """
        prices = [gamma for gamma in self.gamma if not math.isinf(gamma)]
        if 0 in prices or not prices:
            return 0.0
        return 1 / sum(1 / gamma for gamma in prices)

    def log_of_no_mass(self, smallest: float, side: int) -> float:
        """The finite stand-in for log 0, given the `smallest` mass of the dtype.

        A relaxed plan depends on a mass through `m^ρ` (Proposition 4.2), times a factor that is
        huge where costs are many times `γ`: creating mass from a trace of it is then cheaper than
        moving it from elsewhere. So `m^ρ` has to be smaller than any trace.
        """
        damping = float(self.damping(self.epsilon, side))
        return NO_LOG_MASS / damping if 0 < damping < 1 else math.log(smallest)

    def gradient(self, log_mass: Tensor, potential: Tensor, other: Tensor, side: int) -> Tensor:
        """`∂D/∂m` on one side, finite at zero mass, given the `other` side's total mass."""
        gamma = self.gamma[side]
        if math.isinf(gamma):
            slope, exponent = potential, torch.zeros_like(potential)
        else:
            exponent = -potential / gamma
            slope = torch.where(
                exponent < 1,
                -gamma * torch.expm1(exponent.clamp(max=1)),
                gamma - _times_exponential(gamma, exponent),
            )
        if not self._reference_moves:
            return slope
        return slope - (_times_exponential(self.epsilon, exponent) - self.epsilon * other)

    def log_gradient(self, log_mass: Tensor, potential: Tensor, other: Tensor, side: int) -> Tensor:
        """`∂D/∂ log m` on one side, given the `other` side's total mass."""
        slope = self.mass_term(log_mass, potential, side)
        if not self._reference_moves:
            return slope
        mass = log_mass.exp()
        if math.isinf(self.gamma[side]):  # a multiple of the mass, which cancels in the logits
            return slope - mass * (self.epsilon * (1 - other))
        return slope - self.epsilon * (self.marginal(log_mass, potential, side) - mass * other)

    @property
    def _reference_moves(self) -> bool:
        # The product reference h yᵀ changes with h. This adds nothing at balanced masses of 1, but
        # if both masses grow together, the reference grows with their product.
        return self.regularizer is Regularizer.PRODUCT and not self.exact


def _times_exponential(strength: float, exponent: Tensor) -> Tensor:
    """`strength · e^exponent` without overflow of `e^exponent` alone; capped if it overflows."""
    largest = math.log(torch.finfo(exponent.dtype).max) - math.log(strength) - 2
    half = (exponent.clamp(max=largest) / 2).exp()
    return strength * half * half
