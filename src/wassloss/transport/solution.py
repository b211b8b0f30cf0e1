"""The result of a solve, and whether to trust it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import Any

import torch
from torch import Tensor

from wassloss import _checks
from wassloss.kernels.newton_constants import NO_LOG_MASS
from wassloss.transport.objective import Regularizer
from wassloss.transport.precision import rounding_error, smallest_mass
from wassloss.transport.problem import Problem

# A plan on the support, or a function that finds it.
Plan = Tensor | Callable[[Problem], Tensor]


class ConvergenceWarning(UserWarning):
    """A solve stopped before it reached its tolerance; the message says what to change."""


class Status(Enum):
    """How a solve ended. The value is advice to the user."""

    CONVERGED = "Converged to the tolerance."
    EXACT = "Exact: solved in closed form or as a linear program."
    FIXED_ITERATIONS = (
        "A fixed number of iterations was requested; `error` is the marginal error they left. "
        "Leave `scaling_iterations` out to solve to a tolerance."
    )
    ITERATIONS_EXHAUSTED = (
        "`max_iterations` was reached before `tol`. Raise `max_iterations` or `epsilon`, or loosen "
        "`tol`."
    )
    PRECISION_EXHAUSTED = (
        "Rounding keeps the error above `tol`: it is below what this dtype resolves at this "
        "`epsilon`. Use float64, raise `epsilon`, or loosen `tol`."
    )

    @classmethod
    def of(cls, problem: Problem, converged: Tensor, tol: float) -> Status:
        """How a solve to `tol` ended, given which examples converged (synchronises)."""
        if bool(converged.all()):
            return cls.CONVERGED
        rounding = rounding_error(problem.reach(), problem.objective.epsilon, problem.dtype)
        return cls.PRECISION_EXHAUSTED if tol < rounding else cls.ITERATIONS_EXHAUSTED


@dataclass(frozen=True)
class Solution:
    """The optimum of each example of a problem.

    Attributes:
        problem: the problem that was solved.
        value: the objective, `(batch,)`. For entropic problems it is the dual objective: a lower
            bound whose error is of second order in `error`.
        f: potential of each label of the prediction, `(batch, labels)`; centred when balanced.
        g: potential of each label of the target's support, `(batch, support)`.
        n_iterations: iterations taken by each example, `(batch,)`.
        error: ℓ1 distance between the plan's target marginal and the one that the potentials imply,
            relative to the mass moved, `(batch,)`. The prediction's marginal is met exactly.
        converged: whether `error` is within the tolerance, `(batch,)`.
        status: how the solve ended; `status.value` is advice.
    """

    problem: Problem
    value: Tensor
    f: Tensor
    g: Tensor
    n_iterations: Tensor
    error: Tensor
    converged: Tensor
    status: Status
    # The potential for gradients, if not f: Algorithm 1 takes it from the plan's marginal.
    slope_f: Tensor | None = None
    exact_plan: Plan | None = None
    # f and g in the wider dtype of the solve, because rounding them would change the plan.
    finest: tuple[Tensor, Tensor] | None = None

    @classmethod
    def exact(
        cls, problem: Problem, value: Tensor, f: Tensor, g: Tensor, plan: Plan | None = None
    ) -> Solution:
        """A solution that needed no iterations."""
        zero, done = torch.zeros_like(value), torch.ones_like(value, dtype=torch.bool)
        parts = value, f, g, zero.to(torch.long), zero, done
        return cls(problem, *parts, Status.EXACT, exact_plan=plan).centred()

    @property
    def support(self) -> Tensor:
        """The label of each column of `g`, `(batch, support)`."""
        return self.problem.support.expand(self.problem.batch, -1)

    def support_plan(self) -> Tensor:
        """The plan on the target's support, `(batch, support, labels)`."""
        problem, objective = self.problem, self.problem.objective
        if self.exact_plan is not None:
            found = self.exact_plan
            return found if isinstance(found, Tensor) else found(problem)
        f, g = self.finest or (self.f, self.g)
        wide = problem.to(f.dtype)
        alpha, beta = objective.log_reference(wide.log_h, wide.log_y)
        exponent = g.unsqueeze(2) + f.unsqueeze(1) - wide.costs.block()
        plan = (exponent / objective.epsilon + alpha.unsqueeze(1) + beta.unsqueeze(2)).exp()
        return plan.to(problem.dtype)

    def plan(self) -> Tensor:
        """The plan `T` as a matrix, `(batch, labels, labels)`: from prediction to target."""
        on_support = self.support_plan()
        batch, _, labels = on_support.shape
        plan = on_support.new_zeros(batch, labels, labels)
        index = self.support.unsqueeze(2).expand(-1, -1, labels)
        return plan.scatter_add_(1, index, on_support).transpose(1, 2)

    def gradient(self, side: int = 0) -> Tensor:
        """Derivative of the value in the prediction (side 0) or the target's weights (side 1)."""
        if side == 1 and self.problem.objective.free_target:
            return self._gradient_in_free_target()
        log_mass, potential, other = self._side(side)
        potential = self._at_least_mass(log_mass, potential, side)
        return self.problem.objective.gradient(log_mass, potential, other, side)

    def log_gradient(self) -> Tensor:
        """Derivative of the value in the log of the prediction, `(batch, labels)`."""
        log_mass, potential, other = self._side(0)
        return self.problem.objective.log_gradient(log_mass, potential, other, 0)

    def _gradient_in_free_target(self) -> Tensor:
        """Only the reference of ``"product"`` depends on the masses of a free target."""
        problem, objective = self.problem, self.problem.objective
        if objective.exact or objective.regularizer is not Regularizer.PRODUCT:
            return torch.zeros_like(self.g)
        exponent = (self.f.unsqueeze(1) - problem.costs.block()) / objective.epsilon
        ratio = (exponent + problem.log_h.unsqueeze(1)).exp().sum(2)  # Tᵀ1 ⊘ y, also where y is 0
        return objective.epsilon * (problem.masses()[0] - ratio)

    def _side(self, side: int) -> tuple[Tensor, Tensor, Tensor]:
        masses = self.problem.masses()
        if side == 1:
            return self.problem.log_y, self.g, masses[0]
        return self.problem.log_h, self.f if self.slope_f is None else self.slope_f, masses[1]

    def _at_least_mass(self, log_mass: Tensor, potential: Tensor, side: int) -> Tensor:
        """Replace the potentials of labels without mass by those at the smallest mass.

        At zero mass, the derivative of a relaxed plan's entropy is infinite.
        """
        problem, objective = self.problem, self.problem.objective
        epsilon, damping = objective.epsilon, objective.damping(objective.epsilon, side)
        unbounded = 0 < damping < 1 and objective.regularizer is Regularizer.PLAN
        if not unbounded or not _checks.can_read_values():
            return potential
        empty = (log_mass <= NO_LOG_MASS) & (log_mass > -torch.inf)  # padding has no potential
        if not bool(empty.any()):
            return potential
        own, others = objective.log_reference(problem.log_h, problem.log_y), (self.f, self.g)
        log_scaling = others[1 - side] / epsilon + own[1 - side]
        terms = log_scaling.unsqueeze(2 - side) - problem.costs.block() / epsilon
        least = math.log(smallest_mass(log_mass.dtype))
        best = damping * epsilon * (least - own[side] - terms.logsumexp(1 + side))
        return torch.where(empty, best, potential)

    def centred(self) -> Solution:
        """Fix the constant that balanced potentials leave open, as the paper does: `mean f = 0`."""
        if not self.problem.objective.balanced:
            return self
        shift = (self.f / self.f.shape[1]).sum(1, keepdim=True)  # a sum could overflow
        return replace(self, f=self.f - shift, g=self.g + shift)

    def to(self, problem: Problem) -> Solution:
        """The same solution in the dtype of `problem`."""
        dtype = problem.dtype
        cast: dict[str, Any] = {
            name: part.to(dtype)
            for name, part in vars(self).items()
            if isinstance(part, Tensor) and part.is_floating_point()
        }
        if torch.finfo(self.f.dtype).eps < torch.finfo(dtype).eps:
            cast["finest"] = self.f, self.g
        return replace(self, problem=problem, **cast)

    @staticmethod
    def concatenate(problem: Problem, parts: list[Solution]) -> Solution:
        """Join the solutions of consecutive slices of `problem`."""
        joined: dict[str, Any] = {
            name: torch.cat([getattr(part, name) for part in parts])
            for name, first in vars(parts[0]).items()
            if isinstance(first, Tensor)
        }
        if any(part.finest for part in parts):  # in the widest dtype of any
            both = zip(*(part.finest or (part.f, part.g) for part in parts), strict=True)
            joined["finest"] = tuple(torch.cat(potentials) for potentials in both)
        worst = max((part.status for part in parts), key=list(Status).index)
        return replace(parts[0], problem=problem, status=worst, **joined)

    def __str__(self) -> str:
        done, batch = int(self.converged.sum()), self.problem.batch
        return (
            f"Solution({done} of {batch} converged, error at most {self.error.max():.1e}, "
            f"at most {int(self.n_iterations.max())} iterations). {self.status.value}"
        )
