"""Labels on a line: mass never crosses itself, so sorting solves the problem."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import torch
from torch import Tensor

from wassloss.ground import Ordinal
from wassloss.transport.network_simplex import simplex_plan
from wassloss.transport.problem import Problem
from wassloss.transport.solution import Solution
from wassloss.transport.solver import Solver


@dataclass(frozen=True)
class LineArea(Solver):
    """Exact transport on a line at `power=1`: the area between the two cumulative sums, O(K)."""

    traceable: ClassVar[bool] = True

    @classmethod
    def applies(cls, problem: Problem) -> bool:
        metric = problem.metric
        return problem.objective.exact and isinstance(metric, Ordinal) and metric.power == 1

    def solve(self, problem: Problem, start: Tensor | None = None) -> Solution:
        position, order = _positions(problem).sort()
        gap = position.diff() / problem.metric.scale  # (labels - 1,)
        surplus = (problem.log_h.exp() - problem.dense_target())[:, order]
        # What has to cross each gap to the right; the last sum is zero up to rounding.
        crossing = surplus.cumsum(1)[:, :-1]
        # Mass at a label crosses every gap to its right, at a gain or a loss of that gap.
        toll = gap * crossing.sign()
        f_sorted = torch.cat([toll.flip(1).cumsum(1).flip(1), toll.new_zeros(len(toll), 1)], 1)
        f = torch.empty_like(f_sorted)
        f[:, order] = f_sorted
        value = (gap * crossing.abs()).sum(1)
        return Solution.exact(problem, value, f, -problem.on_support(f), simplex_plan)


@dataclass(frozen=True)
class LineQuantiles(Solver):
    """Exact transport on a line at `power ≥ 1`: equal quantiles are matched, O(K log K).

    Walk through the sorted breakpoints of both cumulative sums: between two of them a fixed pair
    (i, j) exchanges mass. Each step changes one of the two labels, and complementary slackness
    `f_i + g_j = M_ij` along the walk gives the potentials; a convex cost makes them feasible.
    """

    traceable: ClassVar[bool] = True

    @classmethod
    def applies(cls, problem: Problem) -> bool:
        metric = problem.metric
        return problem.objective.exact and isinstance(metric, Ordinal) and metric.power >= 1

    def solve(self, problem: Problem, start: Tensor | None = None) -> Solution:
        y, labels = problem.log_y.exp(), problem.log_h.shape[1]
        position, order = _positions(problem).sort()
        target, target_order = _positions(problem)[problem.support].expand_as(y).sort(dim=1)

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


def _positions(problem: Problem) -> Tensor:
    if not isinstance(problem.metric, Ordinal):
        raise TypeError(f"metric must be Ordinal for a problem on a line, got {problem.metric!r}")
    places = problem.metric.positions.detach()
    # Relative to the first, in the metric's precision: the problem's may not resolve large ones.
    return (places - places.min()).to(problem.log_h.dtype)


def _after_zero(x: Tensor) -> Tensor:
    """Put a column of zeros before `x (batch, n)`."""
    return torch.cat([x.new_zeros(len(x), 1), x], 1)
