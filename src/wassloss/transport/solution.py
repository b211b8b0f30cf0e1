"""What came out of a solve, and whether to trust it."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, fields, replace
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
    """A solve stopped before it reached its tolerance; the text says what to change."""


class Status(Enum):
    """How a solve ended. The value is advice to the user."""

    CONVERGED = "Converged to the tolerance."
    EXACT = "Exact: a closed form or a linear program, no iterations to trust."
    FIXED_ITERATIONS = (
        "A fixed number of iterations was asked for; `error` says how far from the optimum they "
        "ended. Leave `scaling_iterations` out to solve to a tolerance."
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
        """How a solve to `tol` ended, given which examples converged; the host waits for that."""
        if bool(converged.all()):
            return cls.CONVERGED
        rounding = rounding_error(problem.reach(), problem.objective.epsilon, problem.dtype)
        return cls.PRECISION_EXHAUSTED if tol < rounding else cls.ITERATIONS_EXHAUSTED


@dataclass(frozen=True)
class Solution:
    """The optimum of each example of a problem.

    Attributes:
        problem: what was asked.
        value: the objective, `(batch,)`. For entropic problems it is the dual objective: a lower
            bound whose error is of second order in `error`.
        f: potential of each label of the prediction, `(batch, labels)`; centred when balanced.
        g: potential of each label of the target's support, `(batch, support)`.
        n_iterations: iterations taken by each example, `(batch,)`.
        error: distance in ℓ1 between the target's marginal and what the potentials ask of it,
            relative to the mass moved, `(batch,)`. The prediction's marginal is met exactly.
        converged: whether `error` is within the tolerance, `(batch,)`.
        status: how the solve ended; `status.value` is advice.
        slope_f: the potential gradients are taken from. `f` itself, except after a fixed number
            of relaxed iterations, where the paper takes it from the plan's marginal.
        exact_plan: the plan on the support `(batch, support, labels)` of an exact solver, or a
            function that finds it where the value does not need it.
        fine_f, fine_g: the potentials as they were found, where that took a wider dtype than the
            problem's: a plan is `exp` of them over `epsilon`, and feels what they lose by rounding.
        fine: all of it in a wider dtype, where the problem's cannot divide by `epsilon` or `gamma`:
            then gradients are taken from there.
    """

    problem: Problem
    value: Tensor
    f: Tensor
    g: Tensor
    n_iterations: Tensor
    error: Tensor
    converged: Tensor
    status: Status
    slope_f: Tensor | None = None
    exact_plan: Plan | None = None
    fine_f: Tensor | None = None
    fine_g: Tensor | None = None
    fine: Solution | None = None

    @classmethod
    def exact(
        cls, problem: Problem, value: Tensor, f: Tensor, g: Tensor, plan: Plan | None = None
    ) -> Solution:
        """A solution that needed no iterations."""
        zero = torch.zeros_like(value)
        count, done = zero.to(torch.long), torch.ones_like(value, dtype=torch.bool)
        solution = cls(problem, value, f, g, count, zero, done, Status.EXACT, exact_plan=plan)
        return solution.centred()

    def unfinished(self, converged: Tensor) -> Solution:
        """The same, with the examples that ran out of iterations marked so."""
        error = torch.where(converged, self.error, torch.inf)
        return replace(self, converged=converged, error=error, status=Status.ITERATIONS_EXHAUSTED)

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
        dtype, (f, g) = problem.dtype, self._finest()
        problem = problem.to(f.dtype)
        alpha, beta = objective.log_reference(problem.log_h, problem.log_y)
        exponent = g.unsqueeze(2) + f.unsqueeze(1) - problem.costs.block()
        plan = (exponent / objective.epsilon + alpha.unsqueeze(1) + beta.unsqueeze(2)).exp()
        return plan.to(dtype)

    def plan(self) -> Tensor:
        """The plan `T` as a matrix, `(batch, labels, labels)`: from prediction to target."""
        on_support = self.support_plan()
        batch, _, labels = on_support.shape
        plan = on_support.new_zeros(batch, labels, labels)
        index = self.support.unsqueeze(2).expand(-1, -1, labels)
        return plan.scatter_add_(1, index, on_support).transpose(1, 2)

    def gradient(self, side: int = 0) -> Tensor:
        """Derivative of the value in the prediction (side 0) or the target's weights (side 1)."""
        if self.fine is not None:
            return self.fine.gradient(side).to(self.f.dtype)
        if side == 1 and self.problem.objective.free_target:
            return self._gradient_in_free_target()
        log_mass, potential, other = self._side(side)
        potential = self._at_least_mass(log_mass, potential, side)
        return self.problem.objective.gradient(log_mass, potential, other, side)

    def log_gradient(self) -> Tensor:
        """Derivative of the value in the log of the prediction, `(batch, labels)`."""
        if self.fine is not None:
            return self.fine.log_gradient().to(self.f.dtype)
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
        """The potentials, of labels without mass as they would be at the smallest mass there is.

        At none at all the derivative of a relaxed plan's entropy is infinite.
        """
        problem, objective = self.problem, self.problem.objective
        priced = 0 < objective.damping(objective.epsilon, side) < 1
        if (
            not priced
            or objective.regularizer is not Regularizer.PLAN
            or not _checks.can_read_values()
        ):
            return potential
        empty = (log_mass <= NO_LOG_MASS) & (log_mass > -torch.inf)  # padding has no potential
        if not bool(empty.any()):
            return potential
        epsilon, (f, g) = objective.epsilon, (self.f, self.g)
        alpha, beta = objective.log_reference(problem.log_h, problem.log_y)
        other = (
            (g / epsilon + beta).unsqueeze(2) if side == 0 else (f / epsilon + alpha).unsqueeze(1)
        )
        log_sum = (other - problem.costs.block() / epsilon).logsumexp(1 + side)
        own = (alpha, beta)[side]
        least = math.log(smallest_mass(log_mass.dtype))
        strength = objective.damping(epsilon, side) * epsilon
        return torch.where(empty, strength * (least - own - log_sum), potential)

    def centred(self) -> Solution:
        """Fix the constant that balanced potentials leave open, as the paper does: `mean f = 0`."""
        if not self.problem.objective.balanced:
            return self
        shift = (self.f / self.f.shape[1]).sum(1, keepdim=True)  # no sum leaves the range
        return replace(self, f=self.f - shift, g=self.g + shift)

    def _finest(self) -> tuple[Tensor, Tensor]:
        """Both potentials in the widest dtype they are known in."""
        if self.fine_f is None or self.fine_g is None:
            return self.f, self.g
        return self.fine_f, self.fine_g

    def to(self, problem: Problem) -> Solution:
        """The same solution in the dtype of `problem`."""
        dtype = problem.dtype
        cast: dict[str, Any] = {
            field.name: part.to(dtype)
            for field in fields(self)
            if isinstance(part := getattr(self, field.name), Tensor)
            and part.is_floating_point()
            and not field.name.startswith("fine_")
        }
        if torch.finfo(self.f.dtype).eps < torch.finfo(dtype).eps:
            cast["fine_f"], cast["fine_g"] = self.f, self.g
        return replace(self, problem=problem, **cast)

    @staticmethod
    def concatenate(problem: Problem, parts: list[Solution]) -> Solution:
        """Join the solutions of consecutive slices of `problem`."""
        joined: dict[str, Any] = {}
        if any(part.fine_f is not None for part in parts):
            finest = [part._finest() for part in parts]
            wide = max((f.dtype for f, _ in finest), key=lambda dtype: -torch.finfo(dtype).eps)
            parts = [
                replace(part, fine_f=f.to(wide), fine_g=g.to(wide))
                for part, (f, g) in zip(parts, finest, strict=True)
            ]
        for field in fields(Solution):
            pieces = [getattr(part, field.name) for part in parts]
            if isinstance(pieces[0], Tensor):
                joined[field.name] = torch.cat(pieces)
        statuses = [part.status for part in parts]
        worst = max(statuses, key=list(Status).index)
        return replace(parts[0], problem=problem, status=worst, **joined)

    def __str__(self) -> str:
        done, batch = int(self.converged.sum()), self.problem.batch
        return (
            f"Solution({done} of {batch} converged, error at most {self.error.max():.1e}, "
            f"at most {int(self.n_iterations.max())} iterations). {self.status.value}"
        )
