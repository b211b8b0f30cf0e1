"""Newton's method on the semi-dual: second-order steps in the potentials of the target's support.

Eliminating `f` leaves a concave function of `g` alone, `F(g) = max_f D(f, g)`. With
`P_ij = softmax_j((g_j − M_ij)/ε + β_j)`, `r = T1` and `c = Tᵀ1 = Pᵀr`, in the unit `w = g/ε`,

    gradient   y e^{−g/γ_b} − c
    Hessian    −[diag(c + (ε/γ_b) y e^{−g/γ_b}) − ρ_a Pᵀ diag(r) P],

one small `support × support` system per example. Sinkhorn needs a number of iterations that grows
like `1/ε`; this needs some tens at any `ε`, which is why it is the default.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from wassloss.kernels import newton_constants as constants
from wassloss.transport.conditions import Conditions, conclude
from wassloss.transport.kernel_sums import BlockLogSums, log_sum_exp
from wassloss.transport.precision import negligible_exponent
from wassloss.transport.problem import Problem
from wassloss.transport.solution import Solution


def maximize(problem: Problem, tol: float, max_iterations: int) -> Solution:
    """Damped Newton steps on the semi-dual, with `ε` lowered in stages to stay near the optimum.

    A step is kept if it raises the dual objective enough; a refused step is shortened, and one
    that stays refused gives way to a Sinkhorn update, which always raises the objective. All
    examples advance in lockstep, with one evaluation per iteration, and leave the batch as they
    converge.
    """
    whole = DenseConditions.over_blocks(problem)
    g = torch.zeros_like(whole.log_y)
    n_iterations = torch.full((problem.batch,), max_iterations, device=g.device)

    last = problem.objective.epsilon
    reach = whole.sums.block.amax((1, 2)) + problem.shift()
    epsilon = (reach / constants.FIRST_EXPONENT).clamp(min=last).unsqueeze(1)

    active = torch.arange(problem.batch, device=g.device)
    conditions = whole.at(epsilon)
    point, step = Point.at(conditions, g), torch.ones_like(epsilon)
    near_enough = torch.full_like(point.error, constants.STAGE_TOLERANCE)
    for iteration in range(1, max_iterations + 1):
        trial = Point.at(conditions, point.g + step * point.direction)
        kept = trial.improves_on(point, step)
        point = trial.where(kept, point)
        step = torch.where(kept.unsqueeze(1), 1.0, constants.SHRINK * step)

        at_last = (epsilon <= last).squeeze(1)
        # Half the tolerance, because the final check sums in another order.
        done = kept & at_last & (point.error <= 0.5 * tol)
        if done.any():
            g[active[done]] = point.g[done]
            n_iterations[active[done]] = iteration
            left = ~done
            active, conditions, point = active[left], conditions[left], point.select(left)
            step, epsilon, near_enough = step[left], epsilon[left], near_enough[left]
            kept, at_last = kept[left], at_last[left]
            if not active.numel():
                break

        # Objectives of different stages are not comparable, so evaluate again before stepping.
        lower = kept & ~at_last & (point.error <= near_enough)
        stuck = ~kept & (step.squeeze(1) < constants.SMALLEST_STEP)
        turn = sinkhorn_step(conditions, point.g, point.mass)
        point = point._replace(
            direction=torch.where(stuck.unsqueeze(1), turn, point.direction),
            objective=point.objective.masked_fill(lower | stuck, -math.inf),
            slope=point.slope.masked_fill(lower | stuck, 0),
        )
        step = step.masked_fill(lower.unsqueeze(1), 0).masked_fill(stuck.unsqueeze(1), 1)
        epsilon = torch.where(lower.unsqueeze(1), epsilon / constants.STAGE_FACTOR, epsilon)
        epsilon = epsilon.clamp(min=last)
        near_enough = torch.where(lower, near_enough / constants.STAGE_FACTOR, near_enough)
        near_enough = near_enough.clamp(min=constants.LAST_STAGE_TOLERANCE)
        conditions = conditions.at(epsilon)
    g[active] = point.g
    return conclude(problem, whole, g, n_iterations, tol)


@dataclass(frozen=True)
class DenseConditions(Conditions):
    """Conditions with all terms in memory, at an `ε` that may differ between examples."""

    sums: BlockLogSums

    @classmethod
    def over_blocks(cls, problem: Problem) -> DenseConditions:
        epsilon = problem.log_h.new_full((problem.batch, 1, 1), problem.objective.epsilon)
        return cls.of(problem, BlockLogSums(problem.costs.block(), epsilon))

    def at(self, epsilon: Tensor) -> DenseConditions:
        """The same conditions at another `ε`, `(batch, 1)`."""
        return replace(self, epsilon=epsilon, sums=replace(self.sums, epsilon=epsilon.unsqueeze(2)))

    def f_and_shares(self, g: Tensor) -> tuple[Tensor, Tensor]:
        """`f_of(g)`, and the share of its row each target gets, `(batch, support, labels)`."""
        terms = self.sums.terms(self.log_v(g), over_labels=False)
        log_sum = log_sum_exp(terms, dim=1)
        share = (terms - log_sum.unsqueeze(1)).clamp_(min=negligible_exponent(terms.dtype)).exp_()
        return self.f_of_sum(log_sum), share


class Point(NamedTuple):
    """The semi-dual at one `g` per example: its value, its error, and the Newton step from it."""

    g: Tensor  # (batch, support)
    objective: Tensor  # (batch,); −inf accepts any next point
    noise: Tensor  # (batch,), rounding error of the objective
    error: Tensor  # (batch,)
    mass: Tensor  # (batch, support), Tᵀ1
    direction: Tensor  # (batch, support)
    slope: Tensor  # (batch,), rate of increase of the objective along the direction

    @classmethod
    def at(cls, conditions: DenseConditions, g: Tensor) -> Point:
        terms, epsilon = conditions.objective, conditions.epsilon
        f, share = conditions.f_and_shares(g)
        rows = terms.marginal(conditions.log_h, f, 0)  # T1
        plan = share * rows.unsqueeze(1)
        mass, wanted = plan.sum(2), conditions.wanted(g)
        gradient = (wanted - mass).where(conditions.present, 0)
        error = conditions.error(mass, wanted)

        damping = terms.damping(epsilon, 0)
        coupling = plan @ share.transpose(1, 2)  # Pᵀ diag(r) P
        damping = damping if isinstance(damping, float) else damping.unsqueeze(2)
        hessian = torch.diag_embed(mass + epsilon / terms.gamma[1] * wanted) - damping * coupling
        newton, usable = newton_step(hessian, gradient, mass + wanted, error, conditions.present)
        direction = torch.where(usable, epsilon * newton, sinkhorn_step(conditions, g, mass))

        objective = conditions.dual(f, g, rows.sum(1))
        size = (rows * f).abs().sum(1) + (wanted * g).abs().sum(1) + objective.abs()
        noise = 8 * torch.finfo(g.dtype).eps * size
        return cls(g, objective, noise, error, mass, direction, (direction * gradient).sum(1))

    def improves_on(self, before: Point, step: Tensor) -> Tensor:
        """Whether the step from `before` to here raised the objective enough, `(batch,)`."""
        needed = constants.SUFFICIENT_INCREASE * step.squeeze(1) * before.slope - before.noise
        # Comparisons with NaN are false, so such a point is rejected.
        return (self.objective >= before.objective + needed) & (self.error < math.inf)

    def where(self, rows: Tensor, other: Point) -> Point:
        """This point for the examples in `rows`, the other for the rest."""
        pairs = zip(self, other, strict=True)
        return Point(*(torch.where(rows.view(-1, *[1] * (a.dim() - 1)), a, b) for a, b in pairs))

    def select(self, rows: Tensor) -> Point:
        return Point(*(part[rows] for part in self))


def sinkhorn_step(conditions: DenseConditions, g: Tensor, mass: Tensor) -> Tensor:
    """The step from `g` to its Sinkhorn update, `(batch, support)`."""
    log_mass = mass.clamp(min=torch.finfo(mass.dtype).tiny).log()
    return conditions.g_of(log_mass - g / conditions.epsilon - conditions.beta) - g


def newton_step(
    hessian: Tensor, gradient: Tensor, scale: Tensor, error: Tensor, present: Tensor
) -> tuple[Tensor, Tensor]:
    """Solve `(H + ridge) w = gradient`; return the steps and a mask of the usable ones.

    Balanced, `H` is singular along the constants; far from the optimum it may be nearly so along
    targets that no mass reaches yet. A ridge in proportion to the masses themselves (so that small
    targets are not drowned) and to the error (so that it vanishes at the optimum) cures both.
    """
    # The systems are small and ill-conditioned: double precision costs nothing here.
    wide = torch.float64 if hessian.device.type != "mps" else hessian.dtype
    ridge = constants.RIDGE * error.clamp(max=1).to(wide) + 100 * torch.finfo(wide).eps
    diagonal = (ridge.unsqueeze(1) * scale.to(wide)).where(present, 1.0)
    system = hessian.to(wide) + torch.diag_embed(diagonal)
    factor, failed = torch.linalg.cholesky_ex(system.nan_to_num(nan=0.0, posinf=1.0, neginf=-1.0))
    step = torch.cholesky_solve(gradient.to(wide).unsqueeze(2), factor).squeeze(2)
    step = step * (constants.LONGEST_STEP / step.abs().amax(1, keepdim=True)).clamp(max=1)
    usable = (failed == 0).unsqueeze(1) & step.isfinite().all(1, keepdim=True)
    return step.to(hessian.dtype), usable
