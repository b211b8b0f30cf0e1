"""The right answer: bounds of the value, its slope, and how well that is determined."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import ot
from scipy.special import xlogy

from tests.fuzz.long import entropic
from tests.fuzz.long.entropic import Problem, State
from tests.oracles import INF, Array


@dataclass(frozen=True)
class Answer:
    """The answer for a batch; the value lies between `low` and `high`, however good the solve."""

    problem: Problem
    low: Array  # (batch,)
    high: Array  # (batch,)
    size: Array  # (batch,), size of the terms that the value sums
    slopes: tuple[Array, Array]  # with respect to log h (batch, labels) and log y (batch, support)
    wobbles: tuple[Array, Array]  # change of the slopes per unit of marginal error
    firm: Array  # (batch,), marginal error up to which `wobbles` holds; 0 if never
    moved: Array  # (batch,), mass that marginal errors are relative to
    f: Array
    g: Array
    plan: Array  # (batch, labels, support)

    @property
    def tight(self) -> Array:
        return self.high - self.low <= 1e-6 * self.size

    @property
    def slope(self) -> Array:
        return self.slopes[0]

    @property
    def masses(self) -> tuple[Array, Array]:
        return self.problem.h, self.problem.y


def answer(p: Problem) -> Answer:
    """Solve, and prove how accurate the solution is."""
    if p.balanced:
        missing = _log_mass(p.log_h) - _log_mass(p.log_y)
        p = Problem(p.log_h, p.log_y + missing, p.cost, p.epsilon, p.gamma, p.product)
    return _exact(p) if p.epsilon == 0 else _entropic(p)


def _log_mass(log_mass: Array) -> Array:
    top = log_mass.max(1, keepdims=True)
    return top + np.log(np.exp(log_mass - top).sum(1, keepdims=True))


def _entropic(p: Problem) -> Answer:
    s = entropic.evaluate(p, np.zeros_like(p.log_y)) if p.gamma[1] == 0 else entropic.solve(p)
    with np.errstate(all="ignore"):
        plan = s.row[:, :, None] * s.share
        high = objective(_feasible(plan, p), p)
        wobbles, firm = _wobbles(p, s)
        least = np.minimum(p.h.sum(1), p.y.sum(1))
        return Answer(
            problem=p,
            low=np.nan_to_num(s.dual, nan=-INF),
            high=np.nan_to_num(high, nan=INF),
            size=_size(p, plan),
            slopes=(log_slope(p, 0, s.f, s.row), log_slope(p, 1, s.g, s.wanted)),
            wobbles=wobbles,
            firm=firm,
            moved=np.maximum(s.wanted.sum(1), least),
            f=s.f,
            g=s.g,
            plan=plan,
        )


def log_slope(p: Problem, side: int, potential: Array, marginal: Array) -> Array:
    """The derivative of the value in the log of a side's masses; if balanced, up to a constant."""
    mass, other = (p.h, p.y) if side == 0 else (p.y, p.h)
    gamma = p.gamma[side]
    if gamma == INF:
        slope = mass * potential
    elif gamma == 0:
        slope = np.zeros_like(mass)
    else:
        exponent = -potential / gamma
        near = -mass * np.expm1(np.clip(exponent, -1, 1))
        slope = gamma * np.where(abs(exponent) < 0.5, near, mass - marginal)
    if p.product and not p.balanced:
        slope = slope - p.epsilon * (marginal - mass * other.sum(1, keepdims=True))
    return slope


def _wobbles(p: Problem, s: State) -> tuple[tuple[Array, Array], Array]:
    """By the implicit function theorem: a marginal error `e` moves `g` by `curvature⁻¹ e`."""
    if p.gamma[1] == 0:  # closed form
        return (np.zeros_like(p.log_h), np.zeros_like(p.log_y)), np.full(len(p.log_h), INF)
    support = p.log_y.shape[1]
    identity = np.broadcast_to(np.eye(support), (len(p.log_y), support, support))
    inverse = entropic.inverse_times(entropic.curvature(p, s), identity.copy())
    absent = ~np.isfinite(p.log_y)
    inverse[absent[:, :, None] | absent[:, None, :]] = 0.0
    both = [
        _felt(p, 0, s.row)[:, :, None] * s.share,
        _felt(p, 1, s.wanted)[:, :, None] * np.eye(support),
    ]
    if p.balanced:  # along the simplex
        for side, mass in enumerate((p.h, p.y)):
            total = both[side].sum(1, keepdims=True) / mass.sum(1)[:, None, None]
            both[side] = both[side] - mass[:, :, None] * total
    wobbles = [abs(moves @ inverse).max(2) for moves in both]
    firm = 0.2 * p.epsilon / np.maximum(abs(inverse).max((1, 2)), 1e-300)
    known = np.isfinite(wobbles[0]).all(1) & np.isfinite(firm) & (s.error < 1e-9)
    held = [np.where(known[:, None], wobble, INF) for wobble in wobbles]
    return (held[0], held[1]), np.where(known, firm, 0.0)


def _felt(p: Problem, side: int, marginal: Array) -> Array:
    """The change of the slope in the log of each mass per unit of its potential."""
    if p.gamma[side] == INF:
        return p.h if side == 0 else p.y
    strength = p.gamma[side] + (p.epsilon if p.product else 0.0)
    own = p.gamma[side] + p.epsilon if side == 0 else p.gamma[side]  # f follows from g, damped
    return strength / own * marginal


def _size(p: Problem, plan: Array) -> Array:
    """The size of the terms of the objective, to which rounding is relative."""
    h, y = p.h.sum(1), p.y.sum(1)
    most = np.maximum(h, y)
    size = most * _largest_cost(p)
    if p.epsilon:
        logs = np.maximum(1.0, np.maximum(_largest_log(p.log_h), _largest_log(p.log_y)))
        size = size + p.epsilon * logs * np.maximum(plan.sum((1, 2)), most)
        if p.product:
            size = size + p.epsilon * h * y
    for strength in p.gamma:
        if strength < INF:  # created mass costs the log of its growth
            size = size + strength * (h + y) * (1 + abs(np.log(h / y)))
    return size


def _largest_cost(p: Problem) -> Array:
    """The largest cost that is used in an example, `(batch,)`."""
    pairs = np.isfinite(p.log_h)[:, :, None] & np.isfinite(p.log_y)[:, None, :]
    return np.where(pairs, p.cost, 0.0).max((1, 2))


def _largest_log(log_mass: Array) -> Array:
    return abs(np.where(np.isfinite(log_mass), log_mass, 0.0)).max(1)


def objective(plan: Array, p: Problem) -> Array:
    """The objective of a plan, straight from the definition, `(batch,)`."""
    log_h, log_y = (np.where(np.isfinite(x), x, 0.0) for x in (p.log_h, p.log_y))
    h, y = p.h, p.y
    value = (plan * p.cost).sum((1, 2))
    entropy = xlogy(plan, plan).sum((1, 2))
    if p.product:
        reference = (plan * (log_h[:, :, None] + log_y[:, None, :])).sum((1, 2))
        entropy = entropy - reference - plan.sum((1, 2)) + h.sum(1) * y.sum(1)
    value = value + p.epsilon * entropy
    for strength, marginal, log_mass, mass in (
        (p.gamma[0], plan.sum(2), log_h, h),
        (p.gamma[1], plan.sum(1), log_y, y),
    ):
        if 0 < strength < INF:
            divergence = xlogy(marginal, marginal) - marginal * log_mass - marginal + mass
            value = value + strength * divergence.sum(1)
    return value


def _feasible(plan: Array, p: Problem) -> Array:
    """A plan near the given one that meets the marginals that are constraints."""
    h, y = p.h, p.y
    if p.gamma[0] == INF:
        plan = plan * (h / np.maximum(plan.sum(2), 1e-300))[:, :, None]
        if p.gamma[1] < INF:
            return plan
        plan = plan * np.minimum(1.0, y / np.maximum(plan.sum(1), 1e-300))[:, None, :]
        left = np.maximum(h - plan.sum(2), 0.0)
        wanting = np.maximum(y - plan.sum(1), 0.0)
        total = np.maximum(left.sum(1), 1e-300)[:, None, None]
        return plan + left[:, :, None] * wanting[:, None, :] / total
    if p.gamma[1] == INF:
        return plan * (y / np.maximum(plan.sum(1), 1e-300))[:, None, :]
    return plan


def _exact(p: Problem) -> Answer:
    """Solve the linear program by a network simplex, and prove the answer by its dual."""
    batch, labels = p.log_h.shape
    mass = p.h.sum(1, keepdims=True)
    h, y, unit = p.h / mass, p.y / mass, float(p.cost.max(initial=0.0)) or 1.0
    cost = p.cost / unit
    plan, f = np.zeros((batch, labels, p.log_y.shape[1])), np.zeros((batch, labels))
    g = np.zeros_like(p.log_y)
    for b in range(batch):
        if p.gamma[1] == 0:
            break
        rows, columns = h[b] > 1e-14, y[b] > 1e-14
        source, sink = h[b, rows], y[b, columns]
        part = np.ascontiguousarray(cost[np.ix_(rows, columns)])
        found, log = ot.lp.emd(source / source.sum(), sink / sink.sum(), part, log=True)
        plan[b][np.ix_(rows, columns)] = found
        # The largest f that g allows, then the largest g: feasible for any result of the solver.
        f[b] = (cost[:, columns] - log["v"]).min(1)
        g[b] = (cost - f[b][:, None])[rows].min(0)
    if p.gamma[1] == 0:  # to the nearest target, whatever its weight
        reach = np.where(np.isfinite(p.log_y)[:, None, :], cost, INF)
        f = reach.min(2)
        plan = h[:, :, None] * (np.arange(cost.shape[1]) == reach.argmin(2)[:, :, None])
    else:
        plan = _feasible(
            plan, Problem(np.log(np.maximum(h, 1e-300)), p.log_y - np.log(mass), cost, 0.0)
        )
    scale = unit * mass[:, 0]
    low = ((h * f).sum(1) + (y * g).sum(1)) * scale
    high = (plan * cost).sum((1, 2)) * scale
    # Rounding errors of masses may move to, and from, any label.
    size = np.maximum(p.h.sum(1), p.y.sum(1)) * unit
    return Answer(
        problem=p,
        low=low,
        high=high,
        size=size,
        slopes=(p.h * f * unit, p.y * g * unit),
        wobbles=(np.zeros_like(p.log_h), np.zeros_like(p.log_y)),
        firm=np.full(batch, INF if p.gamma[1] == 0 else 0.0),  # slopes may not be unique
        moved=mass[:, 0],
        f=f * unit,
        g=g * unit,
        plan=plan * mass[:, :, None],
    )
