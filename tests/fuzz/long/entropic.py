"""Entropic transport in plain NumPy and double precision, a batch at a time.

This does not use wassloss. The potentials come from Newton's method on the dual in `g`, with the
prediction's `f` eliminated; `Bounds` then proves their accuracy: a dual value is below every
optimum and the cost of a feasible plan above it, however they were found.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tests.oracles import INF, Array

FIRST_EXPONENT = 10.0  # M/ε of the first stage
STAGE_FACTOR = 4.0
STAGE_TOLERANCE = 1e-3
ROUNDING = 1e-15
MOST_ITERATIONS = 60  # per stage


@dataclass(frozen=True)
class Problem:
    """`min <T,M> + ε · regulariser + penalties` from each prediction to its target."""

    log_h: Array  # (batch, labels); −inf where there is no mass
    log_y: Array  # (batch, support), likewise
    cost: Array  # (labels, support)
    epsilon: float
    gamma: tuple[float, float] = (INF, INF)
    product: bool = False

    @property
    def h(self) -> Array:
        return np.exp(self.log_h)

    @property
    def y(self) -> Array:
        return np.exp(self.log_y)

    @property
    def alpha(self) -> Array:
        return self.log_h if self.product else np.zeros_like(self.log_h)

    @property
    def beta(self) -> Array:
        return self.log_y if self.product else np.where(np.isfinite(self.log_y), -1.0, -INF)

    @property
    def balanced(self) -> bool:
        return self.gamma == (INF, INF)

    def damping(self, side: int) -> float:
        strength = self.gamma[side]
        return 1.0 if strength == INF else strength / (strength + self.epsilon)

    def take(self, rows: Array) -> Problem:
        return replace(self, log_h=self.log_h[rows], log_y=self.log_y[rows])


@dataclass(frozen=True)
class State:
    """Quantities that follow from target potentials `g`: the best `f`, and the plan's marginals."""

    g: Array  # (batch, support)
    f: Array  # (batch, labels)
    share: Array  # (batch, labels, support), of each row's mass
    row: Array  # (batch, labels), the plan's mass in each row
    column: Array  # (batch, support)
    wanted: Array  # (batch, support), the value of `column` at the optimum
    dual: Array  # (batch,)

    @property
    def error(self) -> Array:
        """Relative distance of the marginals in ℓ1, `(batch,)`; NaN or inf far from the optimum."""
        scale = np.maximum(self.wanted.sum(1), self.column.sum(1))
        return abs(self.wanted - self.column).sum(1) / np.maximum(scale, 1e-300)

    def put(self, rows: Array, other: State) -> State:
        """Replace some examples."""
        parts = {}
        for name in ("g", "f", "share", "row", "column", "wanted", "dual"):
            whole = getattr(self, name).copy()
            whole[rows] = getattr(other, name)
            parts[name] = whole
        return State(**parts)

    def take(self, rows: Array) -> State:
        names = ("g", "f", "share", "row", "column", "wanted", "dual")
        return State(**{name: getattr(self, name)[rows] for name in names})


def evaluate(p: Problem, g: Array) -> State:
    """Compute the best `f` for these `g`, and the value of the pair."""
    e, (gamma_h, gamma_y) = p.epsilon, p.gamma
    terms = (p.beta + g / e)[:, None, :] - p.cost / e
    top = terms.max(2, keepdims=True)
    weights = np.exp(terms - top)
    total = weights.sum(2, keepdims=True)
    log_sum = (top + np.log(total))[:, :, 0]
    has_mass = np.isfinite(p.log_h)
    lift = np.zeros_like(log_sum) if p.product else np.where(has_mass, p.log_h, 0.0)
    f = np.where(has_mass, p.damping(0) * e * (lift - log_sum), 0.0)
    row = p.h if gamma_h == INF else np.exp(p.log_h - f / gamma_h)
    share = weights / total
    column = np.einsum("bk,bks->bs", row, share)
    wanted = p.y if gamma_y == INF else column  # a free marginal may have any value
    if 0 < gamma_y < INF:
        wanted = np.exp(p.log_y - g / gamma_y)
    plan_mass = row.sum(1) - (p.h.sum(1) * p.y.sum(1) if p.product else 0.0)
    dual = mass_terms(p.log_h, f, gamma_h) + mass_terms(p.log_y, g, gamma_y) - e * plan_mass
    return State(g, f, share, row, column, wanted, dual)


def mass_terms(log_mass: Array, potential: Array, gamma: float) -> Array:
    """`Σ γ m (1 − e^{−p/γ})`, or `Σ m p` for a constraint, `(batch,)`."""
    mass = np.exp(log_mass)
    if gamma == INF:
        return (mass * potential).sum(1)
    if gamma == 0:
        return np.zeros(len(mass))
    exponent = -potential / gamma
    terms = np.where(
        abs(exponent) < 0.5,
        -mass * np.expm1(np.clip(exponent, -1, 1)),
        mass - np.exp(log_mass + exponent),
    )
    return gamma * terms.sum(1)


def curvature(p: Problem, s: State) -> Array:
    """Minus the dual's Hessian in `g`, `(batch, support, support)`; 1 on labels without mass."""
    e, (_, gamma_y) = p.epsilon, p.gamma
    weighted = s.share * s.row[:, :, None]
    matrix = -(p.damping(0) / e) * (weighted.transpose(0, 2, 1) @ s.share)
    diagonal = s.column / e + (0.0 if gamma_y == INF else s.wanted / gamma_y)
    absent = ~np.isfinite(p.log_y)
    matrix[absent[:, :, None] | absent[:, None, :]] = 0.0
    places = np.arange(p.log_y.shape[1])
    matrix[:, places, places] += np.where(absent, 1.0, diagonal)
    if p.balanced:  # g is determined up to a constant: fix it
        column = np.where(absent, 0.0, s.column)
        mass = np.maximum(column.sum(1), 1e-300)
        matrix += column[:, :, None] * column[:, None, :] / (e * mass)[:, None, None]
    return matrix


def inverse_times(matrix: Array, right: Array, ridge: Array | float = 1e-13) -> Array:
    """`matrix⁻¹ right`, both `(batch, n, …)`, scaled so that tiny masses keep their digits."""
    scale = np.sqrt(np.maximum(np.diagonal(matrix, axis1=1, axis2=2), 1e-300))
    scaled = matrix / (scale[:, :, None] * scale[:, None, :])
    places = np.arange(matrix.shape[1])
    scaled[:, places, places] += ridge
    bad = ~np.isfinite(scaled).all((1, 2))
    scaled[bad] = np.eye(matrix.shape[1])
    try:
        solved = np.linalg.solve(scaled, right / scale[:, :, None])
    except np.linalg.LinAlgError:  # singular to the last digit, in some example
        scaled[:, places, places] += 1e-8
        solved = np.linalg.solve(scaled, right / scale[:, :, None])
    return solved / scale[:, :, None]


def sinkhorn(p: Problem, f: Array) -> Array:
    """The best `g` for these `f`."""
    e = p.epsilon
    start = np.where(np.isfinite(p.log_h), p.alpha + f / e, -INF)
    terms = start[:, :, None] - p.cost / e
    top = terms.max(1, keepdims=True)
    log_sum = (top + np.log(np.exp(terms - top).sum(1, keepdims=True)))[:, 0]
    has_mass = np.isfinite(p.log_y)
    lift = np.zeros_like(log_sum) if p.product else np.where(has_mass, p.log_y + 1.0, 0.0)
    return np.where(has_mass, p.damping(1) * e * (lift - log_sum), 0.0)


def solve(p: Problem) -> State:
    """The optimum, up to double precision."""
    with np.errstate(all="ignore"):  # steps that overflow are detected and rejected
        g = np.zeros_like(p.log_y)
        largest = float(p.cost.max(initial=0.0))
        e = max(p.epsilon, (largest + _paid_for_unequal_masses(p)) / FIRST_EXPONENT)
        if not np.isfinite(e):  # no number of stages would reduce it
            raise ValueError(f"costs and strengths must be finite, got {largest} and {p.gamma}")
        while e > p.epsilon:
            g = _climb(replace(p, epsilon=e), g, STAGE_TOLERANCE).g
            e = max(p.epsilon, e / STAGE_FACTOR)
        state = _climb(p, g, max(1e-13, ROUNDING * largest / p.epsilon))
        # The error is insensitive to targets of tiny mass, whose potential follows from the others.
        settled = evaluate(p, sinkhorn(p, state.f))
        better = settled.dual >= state.dual
        return state.put(better, settled.take(better))


def _paid_for_unequal_masses(p: Problem) -> float:
    """Bound on the part of potentials that is not due to costs."""
    priced = [strength for strength in p.gamma if strength < INF]
    if not priced or not len(p.log_h):
        return 0.0
    ratio = np.log(p.h.sum(1)) - np.log(p.y.sum(1))
    return float(abs(ratio).max() / sum(1 / strength for strength in priced))


def _climb(p: Problem, g: Array, tol: float) -> State:
    best = evaluate(p, g)
    rows = np.arange(len(g))
    idle = np.zeros(len(g), dtype=int)
    for _ in range(MOST_ITERATIONS):
        running = ~(best.error[rows] <= tol) & (idle[rows] < 3)
        rows = rows[running]
        if not len(rows):
            break
        part, now = p.take(rows), best.take(rows)
        new = _step(part, now)
        gained = (new.dual > now.dual) | (new.error < 0.5 * now.error)
        gained &= np.isfinite(new.dual)
        idle[rows] = np.where(gained, 0, idle[rows] + 1)
        best = best.put(rows[gained], new.take(gained))
    return best


def _step(p: Problem, now: State) -> State:
    """A Newton step, shortened if necessary; if it does not help, a Sinkhorn step."""
    residual = now.wanted - now.column
    # If no mass reaches a target yet, the curvature is nearly singular: shorten the step.
    ridge = 1e-2 * np.minimum(np.nan_to_num(now.error, nan=1.0), 1.0)[:, None] + 1e-13
    step = inverse_times(curvature(p, now), residual[:, :, None], ridge)[:, :, 0]
    slope = (residual * step).sum(1)
    new = evaluate(p, sinkhorn(p, now.f))
    todo = np.flatnonzero(np.isfinite(step).all(1) & (slope > 0))
    shortest = 0.1 * p.epsilon / np.maximum(abs(step).max(1), 1e-300)
    length = 1.0
    while len(todo):
        tried = evaluate(p.take(todo), now.g[todo] + length * step[todo])
        rounding = 1e-14 * abs(now.dual[todo])
        enough = tried.dual >= now.dual[todo] + 0.1 * length * slope[todo] - rounding
        better = enough & (tried.dual >= new.dual[todo] - rounding)
        new = new.put(todo[better], tried.take(better))
        length /= 8
        todo = todo[~enough & (length >= shortest[todo])]
    return new
