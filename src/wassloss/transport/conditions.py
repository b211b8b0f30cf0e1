"""The optimality conditions of an entropic problem, shared by the solvers that iterate on them.

State is the pair of potentials `f (batch, labels)` and `g (batch, support)`; every exponential is
taken of a difference from its row's maximum, so nothing overflows or underflows at any `epsilon`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass, replace
from typing import Any

import torch
from torch import Tensor

from wassloss.transport.costs import Costs
from wassloss.transport.objective import Objective
from wassloss.transport.precision import negligible_exponent
from wassloss.transport.problem import Problem
from wassloss.transport.solution import Solution, Status


@dataclass(frozen=True)
class OptimalityConditions(ABC):
    """The optimality conditions of a batch; `epsilon` is a number or `(batch, 1)`.

    Subclasses say how the two sums over the kernel are taken.
    """

    log_h: Tensor  # (batch, labels)
    log_y: Tensor  # (batch, support)
    alpha: Tensor  # (batch, labels)
    beta: Tensor  # (batch, support)
    least_mass: Tensor  # (batch,), of the prediction or the target, whichever has less
    epsilon: float | Tensor
    objective: Objective

    @staticmethod
    def parts_of(problem: Problem) -> dict[str, Any]:
        """What the conditions of a problem consist of, by name."""
        log_h, log_y, objective = problem.log_h, problem.log_y, problem.objective
        alpha, beta = objective.log_reference(log_h, log_y)
        least_mass = torch.minimum(*problem.masses()).squeeze(1)
        return {
            "log_h": log_h,
            "log_y": log_y,
            "alpha": alpha,
            "beta": beta,
            "least_mass": least_mass,
            "epsilon": objective.epsilon,
            "objective": objective,
        }

    @abstractmethod
    def column_log_sum(self, f: Tensor) -> Tensor:
        """`log Σ_i exp(α_i + (f_i − M_ij)/ε)`, the paper's `log Kᵀu`, `(batch, support)`."""

    @abstractmethod
    def _row_log_sum(self, g: Tensor) -> Tensor:
        """`log Σ_j exp(β_j + (g_j − M_ij)/ε)`, the paper's `log Kv`, `(batch, labels)`."""

    def parts_in(self, rows: Tensor) -> dict[str, Any]:
        """The tensors of some examples, by name."""
        return {
            "log_h": self.log_h[rows],
            "log_y": self.log_y[rows],
            "alpha": self.alpha[rows],
            "beta": self.beta[rows],
            "least_mass": self.least_mass[rows],
        }

    @property
    def present(self) -> Tensor:
        """Where the target's support is not padding, `(batch, support)`."""
        return self.log_y > -torch.inf

    def f_of(self, g: Tensor) -> Tensor:
        """The best `f` for a given `g`: `T1` is then exactly the marginal `f` asks for.

        Proposition 4.2 (i): `f = ρ_a ε (log h − log K v)`.
        """
        return self._f(self._row_log_sum(g))

    def column_mass(self, log_sum: Tensor, g: Tensor) -> Tensor:
        """`Tᵀ1` of the plan whose columns sum to `log_sum` before they are scaled by `g`."""
        return (log_sum + g / self.epsilon + self.beta).exp()

    def g_of(self, log_sum: Tensor) -> Tensor:
        """The best `g` given the columns' sums; 0 on padding. Proposition 4.2 (ii)."""
        damping = self.objective.damping(self.epsilon, 1)
        return (damping * self.epsilon * (self.log_y - self.beta - log_sum)).where(self.present, 0)

    def wanted(self, g: Tensor) -> Tensor:
        """`y e^{−g/γ_b}`, which `Tᵀ1` equals at the optimum: `y` itself when balanced."""
        return self.objective.marginal(self.log_y, g, 1)

    def error(self, mass: Tensor, g: Tensor) -> Tensor:
        """ℓ1 violation of the target's marginal, relative to the mass that is moved, `(batch,)`."""
        return distance_of_marginals(mass, *self.target_marginal(g))

    def target_marginal(self, g: Tensor) -> tuple[Tensor, Tensor]:
        """`wanted(g)`, and the mass that a distance from it is relative to, `(batch,)`."""
        wanted = self.wanted(g)
        # Where almost nothing is moved, an error is relative to what there was to move.
        return wanted, torch.maximum(wanted.sum(1), self.least_mass)

    def dual(self, f: Tensor, g: Tensor, plan_mass: Tensor) -> Tensor:
        """The dual objective `D(f, g)`, `(batch,)`, given the plan's total mass `(batch,)`."""
        epsilon = self.epsilon.squeeze(1) if isinstance(self.epsilon, Tensor) else self.epsilon
        return self.objective.dual(self.log_h, self.log_y, f, g, plan_mass, epsilon)

    def _f(self, log_sum: Tensor) -> Tensor:
        damping = self.objective.damping(self.epsilon, 0)
        return damping * self.epsilon * (self.log_h - self.alpha - log_sum)


@dataclass(frozen=True)
class DenseConditions(OptimalityConditions):
    """Sums taken term by term over the costs of each example, as Newton's method needs them."""

    costs: Costs

    @classmethod
    def of(cls, problem: Problem) -> DenseConditions:
        return cls(**cls.parts_of(problem), costs=problem.costs.gathered())

    def __getitem__(self, rows: Tensor) -> DenseConditions:
        epsilon = self.epsilon[rows] if isinstance(self.epsilon, Tensor) else self.epsilon
        return replace(self, **self.parts_in(rows), epsilon=epsilon, costs=self.costs[rows])

    def f_and_conditional(self, g: Tensor) -> tuple[Tensor, Tensor]:
        """`f_of(g)`, and the share of its row each target gets, `(batch, support, labels)`."""
        terms = self._row_terms(g)
        log_sum = log_sum_exp(terms, dim=1)
        share = (terms - log_sum.unsqueeze(1)).clamp_(min=negligible_exponent(terms.dtype)).exp_()
        return self._f(log_sum), share

    def column_log_sum(self, f: Tensor) -> Tensor:
        terms = (f / self.epsilon + self.alpha).unsqueeze(1) - self._scaled_cost()
        return log_sum_exp(terms, dim=2)

    def _row_log_sum(self, g: Tensor) -> Tensor:
        return log_sum_exp(self._row_terms(g), dim=1)

    def _row_terms(self, g: Tensor) -> Tensor:
        return (g / self.epsilon + self.beta).unsqueeze(2) - self._scaled_cost()

    def _scaled_cost(self) -> Tensor:
        epsilon = self.epsilon.unsqueeze(2) if isinstance(self.epsilon, Tensor) else self.epsilon
        return self.costs.block() / epsilon


def distance_of_marginals(mass: Tensor, wanted: Tensor, scale: Tensor) -> Tensor:
    """The ℓ1 distance of two marginals `(batch, support)`, relative to `scale (batch,)`."""
    distance: Tensor = torch.linalg.vector_norm(mass - wanted, 1, dim=1)
    return distance / scale


def log_sum_exp(x: Tensor, dim: int) -> Tensor:
    """`log Σ exp(x)` along `dim`, clear of overflow, underflow and denormal numbers."""
    largest = x.amax(dim, keepdim=True)
    terms = (x - largest).clamp_(min=negligible_exponent(x.dtype)).exp_()
    return largest.squeeze(dim) + terms.sum(dim).log()


def conclude(
    problem: Problem, conditions: OptimalityConditions, g: Tensor, n_iterations: Tensor, tol: float
) -> Solution:
    """The solution at target potentials `g`, with its error measured, not assumed."""
    f = conditions.f_of(g)
    log_sum = conditions.column_log_sum(f)
    error = conditions.error(conditions.column_mass(log_sum, g), g)
    converged = error <= tol
    status = Status.of(problem, converged, tol)
    plan_mass = problem.objective.marginal(problem.log_h, f, 0).sum(1)
    value = conditions.dual(f, g, plan_mass)
    # The error hardly depends on targets of little mass; their potential follows from f. What that
    # takes from the prediction's marginal is part of the error.
    little = problem.log_y.exp() <= math.sqrt(tol) * conditions.least_mass.unsqueeze(1)
    g = torch.where(little, conditions.g_of(log_sum), g)
    return Solution(problem, value, f, g, n_iterations, error, converged, status).centred()


def initial_potential(conditions: OptimalityConditions, start: Tensor | None) -> Tensor:
    """Where `g` starts: at an earlier solution's, or at zero."""
    zero = torch.zeros_like(conditions.log_y)
    return zero if start is None else torch.where(conditions.present, start.to(zero), zero)
