"""Bounds that hold for any solve: a dual value below the optimum, a plan's cost above it.

Potentials come from a tight solve in double precision; the bounds are computed from them in NumPy.
A bad solve only makes the bounds wide, never wrong.
"""

import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from scipy.special import logsumexp

import wassloss as wl
from tests.oracles import INF, Array, linear_program, objective
from wassloss.transport import Newton


@dataclass(frozen=True)
class Bounds:
    """Bounds of a transport cost, and the size of the terms that it sums."""

    low: float
    high: float
    size: float

    @property
    def tight(self) -> bool:
        return self.high - self.low <= 1e-6 * self.size


def bounds(
    h: Array,
    y: Array,
    M: Array,
    epsilon: float,
    gamma: tuple[float, float] = (INF, INF),
    regularizer: str = "plan",
) -> Bounds:
    """Bounds for one example: `h`, `y` over all labels, `M` between them."""
    rows, columns = h > 0, y > 0
    h, y, M = h[rows], y[columns], M[np.ix_(rows, columns)]
    if gamma == (INF, INF):
        y = y * (h.sum() / y.sum())
    size = float(max(h.sum(), y.sum()) * M.max())
    if epsilon == 0:
        value = linear_program(h / h.sum(), y / h.sum(), M / max(M.max(), 1e-300))
        value *= h.sum() * max(M.max(), 1e-300)
        return Bounds(value, value, size)
    g = _potentials(h, y, M, epsilon, gamma, regularizer)
    with np.errstate(over="ignore"):  # an infinite bound is still valid
        low, plan = _dual(g, h, y, M, epsilon, gamma, regularizer)
    high = objective(_feasible(plan, h, y, gamma), h, y, M, epsilon, gamma, regularizer)
    logs = max(1.0, float(abs(np.log(h)).max()), float(abs(np.log(y)).max()))
    entropy = epsilon * logs * max(plan.sum(), h.sum(), y.sum())
    penalties = sum(strength * (h.sum() + y.sum()) for strength in gamma if strength < INF)
    if regularizer == "product":
        entropy += epsilon * h.sum() * y.sum()
    return Bounds(low, high, size + entropy + penalties)


def _potentials(
    h: Array, y: Array, M: Array, epsilon: float, gamma: tuple[float, float], regularizer: str
) -> Array:
    n, m = M.shape
    full = np.zeros((n + m, n + m))
    full[:n, n:], full[n:, :n] = M, M.T
    target = wl.SparseTarget(torch.arange(n, n + m)[None], torch.from_numpy(y)[None])
    source = torch.from_numpy(np.concatenate([h, np.zeros(m)]))[None]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", wl.ConvergenceWarning)
        solution = wl.solve(
            source,
            target,
            torch.from_numpy(full),
            epsilon=epsilon,
            gamma=gamma,
            regularizer=regularizer,
            solver=Newton(tol=1e-12, max_iterations=300),
        )
    return solution.g[0].numpy()


def _dual(
    g: Array,
    h: Array,
    y: Array,
    M: Array,
    epsilon: float,
    gamma: tuple[float, float],
    regularizer: str,
) -> tuple[float, Array]:
    product = regularizer == "product"
    alpha = np.log(h) if product else np.zeros_like(h)
    beta = np.log(y) if product else np.full_like(y, -1.0)
    log_sum = logsumexp(beta + (g - M) / epsilon, axis=1)
    damping = 1.0 if gamma[0] == INF else gamma[0] / (gamma[0] + epsilon)
    f = damping * epsilon * (np.log(h) - alpha - log_sum)
    plan = np.exp((f[:, None] + g - M) / epsilon + alpha[:, None] + beta)
    value = 0.0
    for strength, mass, potential in zip(gamma, (h, y), (f, g), strict=True):
        if strength == INF:
            value += float(mass @ potential)
        else:
            exponent = -potential / strength
            raised = np.where(
                abs(exponent) < 0.5,
                mass * np.expm1(exponent.clip(-1, 1)),
                np.exp(np.log(mass) + exponent) - mass,
            )
            value -= strength * float(raised.sum())
    reference = h.sum() * y.sum() if product else 0.0
    return value - epsilon * float(plan.sum() - reference), plan


def _feasible(plan: Array, h: Array, y: Array, gamma: tuple[float, float]) -> Array:
    """A plan near the given one that meets the marginals that are constraints."""
    if gamma[0] == INF:
        plan = plan * (h / np.maximum(plan.sum(1), 1e-300))[:, None]
        if gamma[1] < INF:
            return plan
        plan = plan * np.minimum(1.0, y / np.maximum(plan.sum(0), 1e-300))
        left, wanting = h - plan.sum(1), y - plan.sum(0)
        left, wanting = left.clip(min=0), wanting.clip(min=0)
        return plan + np.outer(left, wanting) / max(left.sum(), 1e-300)
    if gamma[1] == INF:
        return plan * (y / np.maximum(plan.sum(0), 1e-300))
    return plan


def dense(target: Any, labels: int) -> Array:
    """A target of any form as weights over labels, in double precision."""
    if isinstance(target, wl.SparseTarget):
        rows = np.zeros((len(target.indices), labels))
        for row, indices, weights in zip(
            rows, target.indices.tolist(), target.weights.double().tolist(), strict=True
        ):
            for index, weight in zip(indices, weights, strict=True):
                row[index] += weight
        return rows
    if target.layout != torch.strided:
        return target.to_dense().double().numpy()
    if target.is_floating_point():
        return target.double().numpy()
    return np.eye(labels)[target.numpy()]
