"""Solvers for problems with a closed-form solution, such as those on a line or in a tree."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import ClassVar, cast

import torch
from torch import Tensor

from wassloss.ground import Discrete, GroundMetric, Ordinal, Tree
from wassloss.transport import one_label
from wassloss.transport.conditions import Conditions
from wassloss.transport.kernel_sums import BlockLogSums
from wassloss.transport.network_simplex import simplex_plan
from wassloss.transport.objective import Regularizer
from wassloss.transport.problem import Problem
from wassloss.transport.solution import Solution
from wassloss.transport.solver import Solver


@dataclass(frozen=True)
class OneHot(Solver):
    """All of `h` goes to the one target κ: `W = Σ_i h_i M_iκ`, for any `epsilon` and regulariser.

    Only one plan meets both marginals. The regulariser adds its value at that plan: `ε Σ h log h`
    for ``"plan"``, nothing for ``"product"`` when the mass is 1.
    """

    traceable: ClassVar[bool] = True

    @classmethod
    def applies(cls, problem: Problem) -> bool:
        return problem.log_y.shape[1] == 1 and problem.objective.balanced

    def solve(self, problem: Problem) -> Solution:
        epsilon, log_y = problem.objective.epsilon, problem.log_y
        h, cost = problem.log_h.exp(), problem.cost().squeeze(1)
        if problem.objective.regularizer is Regularizer.PRODUCT:
            mass = log_y.exp().squeeze(1)  # (batch,)
            f, g = cost, -epsilon * log_y
            value = (h * cost).sum(1) - epsilon * mass * (log_y.squeeze(1) + 1 - mass)
        else:
            slope = one_label.slope(problem.log_h, cost, epsilon)
            f, g = slope + epsilon, torch.zeros_like(log_y)
            value = (h * slope).sum(1)
        return Solution.exact(problem, value, f, g, plan=h.unsqueeze(1))


@dataclass(frozen=True)
class ExactForm(Solver):
    """Exact transport under one kind of metric, for some powers of its distance."""

    traceable: ClassVar[bool] = True
    kind: ClassVar[type[GroundMetric]]
    powers: ClassVar[tuple[float, float]] = (1, 1)  # smallest and largest

    @classmethod
    def applies(cls, problem: Problem) -> bool:
        (least, most), metric = cls.powers, problem.metric
        fits = isinstance(metric, cls.kind) and least <= metric.power <= most
        return fits and problem.objective.exact and problem.objective.balanced


class ZeroOne(ExactForm):
    """Exact transport under the 0-1 metric: `W = ½ Σ |h − y|`, times the cost between labels."""

    kind = Discrete
    powers = (0, math.inf)

    def solve(self, problem: Problem) -> Solution:
        excess = problem.log_h.exp() - problem.dense_target()
        metric = problem.metric
        cost = (1.0 / metric.scale) ** metric.power
        return _between_labels(
            problem, 0.5 * cost * excess.abs().sum(1), 0.5 * cost * excess.sign()
        )


class LineArea(ExactForm):
    """Exact transport on a line at `power=1`: the area between the two cumulative sums, O(K)."""

    kind = Ordinal

    def solve(self, problem: Problem) -> Solution:
        position, order = _positions(problem).sort()
        gap = position.diff() / problem.metric.scale  # (labels - 1,)
        surplus = (problem.log_h.exp() - problem.dense_target())[:, order]
        # The mass that crosses each gap to the right; the last sum is zero up to rounding.
        crossing = surplus.cumsum(1)[:, :-1]
        # Mass at a label crosses every gap to its right, which costs or saves that gap.
        toll = gap * crossing.sign()
        f_sorted = torch.cat([toll.flip(1).cumsum(1).flip(1), toll.new_zeros(len(toll), 1)], 1)
        f = torch.empty_like(f_sorted)
        f[:, order] = f_sorted
        return _between_labels(problem, (gap * crossing.abs()).sum(1), f)


class LineQuantiles(ExactForm):
    """Exact transport on a line at `power ≥ 1`: equal quantiles are matched, O(K log K).

    Walk through the sorted breakpoints of both cumulative sums: between two of them a fixed pair
    (i, j) exchanges mass. Each step changes one of the two labels, and complementary slackness
    `f_i + g_j = M_ij` along the walk gives the potentials; a convex cost makes them feasible.
    """

    kind = Ordinal
    powers = (1, math.inf)

    def solve(self, problem: Problem) -> Solution:
        y, labels = problem.log_y.exp(), problem.log_h.shape[1]
        positions = _positions(problem)
        position, order = positions.sort()
        target, target_order = positions[problem.support].expand_as(y).sort(dim=1)

        cdf_h = problem.log_h.exp()[:, order].cumsum(1)
        cdf_y = y.gather(1, target_order).cumsum(1)
        breaks, source = torch.cat([cdf_h[:, :-1], cdf_y[:, :-1]], 1).sort(dim=1, stable=True)
        moves_h = source < labels - 1  # (batch, steps): whether i or j advances there
        i = _after_zero(moves_h.long().cumsum(1))
        j = _after_zero((~moves_h).long().cumsum(1))

        metric = problem.metric
        distance = (position[i] - target.gather(1, j)).abs()
        # (batch, steps + 1)
        cost = problem.costs.checked((distance / metric.scale) ** metric.power)
        edges = _after_zero(torch.cat([breaks, cdf_h[:, -1:]], 1))
        value = (edges.diff(dim=1).clamp(min=0) * cost).sum(1)

        # Steps in h first, then steps in y, each kind in the order of the walk.
        kind = moves_h.to(torch.int8).argsort(dim=1, descending=True, stable=True)
        change = cost.diff(dim=1).gather(1, kind)
        f_sorted = _after_zero(change[:, : labels - 1].cumsum(1))
        g_sorted = cost[:, :1] + _after_zero(change[:, labels - 1 :].cumsum(1))
        f = torch.empty_like(f_sorted)
        f[:, order] = f_sorted
        g = torch.empty_like(g_sorted).scatter_(1, target_order, g_sorted)
        return Solution.exact(problem, value, f, g, simplex_plan)


class TreeFlow(ExactForm):
    """Exact transport in a tree at `power=1`: `Σ_edges length · |h − y below it|`, O(nodes).

    In preorder a subtree is an interval, so the mass below every edge is a difference of two
    prefix sums, and so is the sum over a label's ancestors that its potential needs.
    """

    kind = Tree

    def solve(self, problem: Problem) -> Solution:
        tree = cast(Tree, problem.metric)
        length = tree.edge_length.to(problem.dtype) / tree.scale  # (nodes,)
        surplus = length.new_zeros(problem.batch, len(length))
        surplus.index_add_(1, tree.label_position, problem.log_h.exp() - problem.dense_target())

        prefix = _after_zero(surplus.cumsum(1))
        below = prefix[:, tree.subtree_end] - prefix[:, :-1]  # (batch, nodes)
        toll = length * below.sign()
        # Add each node's toll to all positions of its subtree, [x, end): a difference array.
        entering = torch.cat([toll, toll.new_zeros(len(toll), 1)], 1)
        total = entering.index_add(1, tree.subtree_end, -toll).cumsum(1)
        value = (length * below.abs()).sum(1)
        return _between_labels(problem, value, total[:, tree.label_position])


CLOSED_FORMS: list[type[Solver]] = [OneHot, ZeroOne, LineArea, LineQuantiles, TreeFlow]


def _between_labels(problem: Problem, value: Tensor, f: Tensor) -> Solution:
    """Solution where the cost is a distance: a target's potential is minus its label's."""
    return Solution.exact(problem, value, f, -problem.on_support(f), simplex_plan)


def _positions(problem: Problem) -> Tensor:
    positions = cast(Ordinal, problem.metric).positions.detach()
    # Shift first: the problem's dtype may not resolve the differences of large positions.
    return (positions - positions.min()).to(problem.log_h.dtype)


def _after_zero(x: Tensor) -> Tensor:
    """Put a column of zeros before `x (batch, n)`."""
    return torch.cat([x.new_zeros(len(x), 1), x], 1)


@dataclass(frozen=True)
class Nearest(Solver):
    """A free target marginal (`γ_b = 0`): labels do not compete for targets.

    The potential of a target is zero. That of a label is the cost of its nearest target or, with
    an entropy, the soft minimum of its costs, `−ε log Σ_j y_j e^{−M_ij/ε}` for ``"product"``.
    """

    @classmethod
    def applies(cls, problem: Problem) -> bool:
        return problem.objective.free_target

    def solve(self, problem: Problem) -> Solution:
        objective, log_h, log_y = problem.objective, problem.log_h, problem.log_y
        f, g = potential(problem), torch.zeros_like(log_y)
        plan_mass = objective.marginal(log_h, f, 0).sum(1)
        value = objective.dual(log_h, log_y, f, g, plan_mass, objective.epsilon)
        return Solution.exact(problem, value, f, g, nearest_plan if objective.exact else None)


def potential(problem: Problem) -> Tensor:
    """The potential `f` if the target's marginal is free, `(batch, labels)`."""
    objective = problem.objective
    if objective.exact:
        return _costs_of_present(problem).amin(1)
    sums = BlockLogSums(problem.costs.block(), objective.epsilon)
    return Conditions.of(problem, sums).f_of(torch.zeros_like(problem.log_y))


def nearest_plan(problem: Problem) -> Tensor:
    """The plan at `ε = 0`, `(batch, support, labels)`: all mass goes to the nearest target."""
    costs = _costs_of_present(problem)
    nearest, plan = costs.argmin(1, keepdim=True), costs.new_zeros(costs.shape)
    return plan.scatter_(1, nearest, problem.log_h.exp().unsqueeze(1))


def _costs_of_present(problem: Problem) -> Tensor:
    absent = (problem.log_y == -torch.inf).unsqueeze(2)
    return problem.cost().masked_fill(absent, torch.inf)
