"""The optimality conditions of an entropic problem, shared by the solvers that iterate on them.

The state is the pair of potentials `f (batch, labels)` and `g (batch, support)`. Exponents are
shifted by the maximum of their row, so nothing overflows or underflows at any `epsilon`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import torch
from torch import Tensor

from wassloss.kernels.newton_constants import NO_LOG_MASS
from wassloss.transport.kernel_sums import KernelSums
from wassloss.transport.objective import Objective
from wassloss.transport.problem import Problem
from wassloss.transport.solution import Solution, Status

Made = TypeVar("Made", bound="Conditions")


@dataclass(frozen=True)
class Conditions:
    """The optimality conditions of a batch; `epsilon` is a number or `(batch, 1)`."""

    log_h: Tensor  # (batch, labels)
    log_y: Tensor  # (batch, support)
    alpha: Tensor  # (batch, labels)
    beta: Tensor  # (batch, support)
    least_mass: Tensor  # (batch,), the smaller of the prediction's mass and the target's
    epsilon: float | Tensor
    objective: Objective
    sums: KernelSums

    @classmethod
    def of(cls: type[Made], problem: Problem, sums: KernelSums) -> Made:
        log_h, log_y, objective = problem.log_h, problem.log_y, problem.objective
        reference = objective.log_reference(log_h, log_y)
        least_mass = torch.minimum(*problem.masses()).squeeze(1)
        return cls(log_h, log_y, *reference, least_mass, objective.epsilon, objective, sums)

    def __getitem__(self: Made, rows: Tensor) -> Made:
        """The conditions of some examples."""
        parts: dict[str, Any] = {
            name: x[rows] for name, x in vars(self).items() if isinstance(x, Tensor | KernelSums)
        }
        return replace(self, **parts)

    @property
    def present(self) -> Tensor:
        """Mask of the target's support without padding, `(batch, support)`."""
        return self.log_y > -torch.inf

    def damping(self, side: int) -> float:
        """The paper's exponent, if all examples share one `ε`."""
        return float(self.objective.damping(self.epsilon, side))

    def log_u(self, f: Tensor) -> Tensor:
        return f / self.epsilon + self.alpha

    def log_v(self, g: Tensor) -> Tensor:
        return g / self.epsilon + self.beta

    def f_of(self, g: Tensor) -> Tensor:
        """The optimal `f` for a given `g`: `T1` is then exactly the marginal that `f` implies.

        Proposition 4.2 (i): `f = ρ_a ε (log h − log K v)`.
        """
        return self.f_of_sum(self.sums.log_sum(self.log_v(g), over_labels=False))

    def f_of_sum(self, log_sum: Tensor) -> Tensor:
        """The optimal `f`, given the row sums `log K v`."""
        damping = self.objective.damping(self.epsilon, 0)
        return damping * self.epsilon * (self.log_h - self.alpha - log_sum)

    def column_log_sum(self, f: Tensor) -> Tensor:
        """`log Σ_i exp(α_i + (f_i − M_ij)/ε)`, the paper's `log Kᵀu`, `(batch, support)`."""
        return self.sums.log_sum(self.log_u(f), over_labels=True)

    def column_mass(self, log_sum: Tensor, g: Tensor) -> Tensor:
        """`Tᵀ1`, given the log of the column sums before `g` scales them."""
        return (log_sum + g / self.epsilon + self.beta).exp()

    def g_of(self, log_sum: Tensor) -> Tensor:
        """The optimal `g`, given the column sums; 0 on padding. Proposition 4.2 (ii)."""
        damping = self.objective.damping(self.epsilon, 1)
        return (damping * self.epsilon * (self.log_y - self.beta - log_sum)).where(self.present, 0)

    def potential(self, log_v: Tensor) -> Tensor:
        """Convert log-scalings `g/ε + β` to the target's potentials, `(batch, support)`.

        They are 0 on padding, and on labels whose log-mass stands for zero: `β` may be that
        stand-in, too large to be subtracted and added again, and no sum depends on these labels.
        """
        return (self.epsilon * (log_v - self.beta)).where(self.log_y > NO_LOG_MASS, 0)

    def wanted(self, g: Tensor) -> Tensor:
        """`y e^{−g/γ_b}`, which `Tᵀ1` equals at the optimum: `y` itself when balanced."""
        return self.objective.marginal(self.log_y, g, 1)

    def error(self, mass: Tensor, wanted: Tensor) -> Tensor:
        """ℓ1 violation of the target's marginal, relative to the mass moved, `(batch,)`."""
        # If almost nothing is moved, the error is relative to the mass available.
        scale = torch.maximum(wanted.sum(1), self.least_mass)
        distance: Tensor = torch.linalg.vector_norm(mass - wanted, 1, dim=1)
        return distance / scale

    def dual(self, f: Tensor, g: Tensor, plan_mass: Tensor) -> Tensor:
        """The dual objective `D(f, g)`, `(batch,)`, given the plan's total mass `(batch,)`."""
        epsilon = self.epsilon.squeeze(1) if isinstance(self.epsilon, Tensor) else self.epsilon
        return self.objective.dual(self.log_h, self.log_y, f, g, plan_mass, epsilon)

    def initial_potential(self, start: Tensor | None) -> Tensor:
        """The initial `g`: that of an earlier solution, or zero."""
        zero = torch.zeros_like(self.log_y)
        return zero if start is None else torch.where(self.present, start.to(zero), zero)


def conclude(
    problem: Problem, conditions: Conditions, g: Tensor, n_iterations: Tensor, tol: float
) -> Solution:
    """Build the solution at target potentials `g`, and measure its error."""
    f = conditions.f_of(g)
    log_sum = conditions.column_log_sum(f)
    error = conditions.error(conditions.column_mass(log_sum, g), conditions.wanted(g))
    converged = error <= tol
    status = Status.of(problem, converged, tol)
    plan_mass = problem.objective.marginal(problem.log_h, f, 0).sum(1)
    value = conditions.dual(f, g, plan_mass)
    # The error hardly depends on targets of little mass, so their potential is computed from f. The
    # error already bounds how far this moves the prediction's marginal.
    little = problem.log_y.exp() <= math.sqrt(tol) * conditions.least_mass.unsqueeze(1)
    g = torch.where(little, conditions.g_of(log_sum), g)
    return Solution(problem, value, f, g, n_iterations, error, converged, status).centred()
