"""Independent answers: the paper's formulas in NumPy, a convex solver, a linear program."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.special import xlogy

Array = NDArray[np.float64]
INF = math.inf


def divergence(w: Array, log_z: Array, total: float) -> float:
    """The paper's `KL~(w‖z)`; `z` is given by its log and sum, because it may underflow."""
    log_z = np.where(w > 0, log_z, 0)
    return float(np.sum(xlogy(w, w) - w * log_z - w) + total)


def objective(
    T: Array,
    h: Array,
    y: Array,
    M: Array,
    epsilon: float,
    gamma: tuple[float, float] = (INF, INF),
    regularizer: str = "plan",
) -> float:
    """The objective of the plan `T`, straight from the paper (constraints are not checked)."""
    with np.errstate(divide="ignore"):  # plans have no mass at labels without mass
        log_h, log_y = np.log(h), np.log(y)
    value = float(np.sum(T * M))
    if regularizer == "plan":
        value += epsilon * float(xlogy(T, T).sum())
    else:
        value += epsilon * divergence(T, log_h[:, None] + log_y, h.sum() * y.sum())
    if gamma[0] < INF:
        value += gamma[0] * divergence(T.sum(1), log_h, h.sum())
    if gamma[1] < INF:
        value += gamma[1] * divergence(T.sum(0), log_y, y.sum())
    return value


def convex(
    h: Array,
    y: Array,
    M: Array,
    epsilon: float,
    gamma: tuple[float, float] = (INF, INF),
    regularizer: str = "plan",
) -> tuple[float, Array]:
    """Optimal value and plan of the same objective from an interior-point solver."""
    import cvxpy as cp  # not needed by the other oracles

    T = cp.Variable(M.shape, nonneg=True)
    cost: Any = cp.sum(cp.multiply(T, M))
    if regularizer == "plan":
        cost -= epsilon * cp.sum(cp.entr(T))
    else:
        cost += epsilon * cp.sum(cp.kl_div(T, np.outer(h, y)))
    constraints = []
    for strength, marginal, mass in zip(
        gamma, (cp.sum(T, axis=1), cp.sum(T, axis=0)), (h, y), strict=True
    ):
        if strength < INF:
            cost += strength * cp.sum(cp.kl_div(marginal, mass))
        else:
            constraints.append(marginal == mass)
    problem = cp.Problem(cp.Minimize(cost), constraints)
    problem.solve(solver=cp.CLARABEL)
    return float(problem.value), np.asarray(T.value)


def linear_program(h: Array, y: Array, M: Array) -> float:
    """Exact transport as a plain linear program (HiGHS)."""
    K, S = M.shape
    rows = np.kron(np.eye(K), np.ones((1, S)))
    columns = np.kron(np.ones((1, K)), np.eye(S))
    # One constraint is redundant: drop it, because rounding might make them inconsistent.
    A, b = np.vstack([rows, columns])[:-1], np.concatenate([h, y])[:-1]
    result = linprog(M.ravel(), A_eq=A, b_eq=b, method="highs")
    return float(result.fun)


def algorithm_one(
    h: Array,
    y: Array,
    M: Array,
    lam: float,
    iterations: int,
    gamma: tuple[float, float] | None = None,
) -> tuple[Array, Array, Array]:
    """`u`, `v` and the gradient of the paper's Algorithm 1, transcribed, in its own dtype."""
    K = np.exp(-lam * M - 1)
    u = np.ones_like(h)
    if gamma is None:
        for _ in range(iterations):
            v = y / (K.T @ u)
            u = h / (K @ v)
        return u, v, np.log(u) / lam - np.log(u).sum() / (lam * len(h))
    a, b = (g * lam / (g * lam + 1) for g in gamma)
    for _ in range(iterations):
        u = h**a / (K @ (y / (K.T @ u)) ** b) ** a
    v = y**b / (K.T @ u) ** b
    return u, v, gamma[0] * (1 - u * (K @ v) / h)


def derivative(
    function: Callable[[Array], float], x: Array, direction: Array, step: float
) -> float:
    """Central difference along `direction`, with an error of order `step⁴`."""

    def at(t: float) -> float:
        return function(x + t * step * direction)

    return (8 * (at(1) - at(-1)) - (at(2) - at(-2))) / (12 * step)
