"""The paper's Algorithm 1 for one example per program: each iteration is one pass over the costs.

Shapes are those of `newton_passes.py`: `S` targets, rounded up to a power of two, and
`TILE` labels at a time. All sums are in the log domain, so columns of little mass do not underflow.
"""

# Triton compiles these functions itself, from a Python without types.
# mypy: ignore-errors

import math

import triton
import triton.language as tl

from wassloss.kernels.triton.newton_passes import LN_2, LOG2_E, at_labels

INF = tl.constexpr(math.inf)


@triton.jit
def iterate(
    cost, rows, log_h, labels, log_y, mass_h, epsilon, iterations,
    S: tl.constexpr, TILE: tl.constexpr, PRODUCT: tl.constexpr,
):  # fmt: skip
    """`AlgorithmOne.solve` for one balanced example, `iterations` at least 1.

    Returns the potential of the targets `(S,)`, the dual objective, and `Σ h f`.
    """
    present = log_y > -INF
    beta = log_y if PRODUCT else tl.where(present, -1.0, log_y)
    scale = 1.0 / epsilon * LOG2_E
    bias = beta * LOG2_E
    log_sum, mean = column_log_sums(
        cost, rows, log_h, labels, bias, scale, epsilon, S, TILE, PRODUCT, True
    )
    at = tl.where(present, epsilon * (log_y - beta - log_sum), 0.0)
    for _ in range(1, iterations):
        log_mass, mean = column_log_sums(
            cost, rows, log_h, labels, scale * at + bias, scale, epsilon, S, TILE, PRODUCT, False
        )
        at = tl.where(present, at + epsilon * (log_y - log_mass), 0.0)
    _, mean = column_log_sums(
        cost, rows, log_h, labels, scale * at + bias, scale, epsilon, S, TILE, PRODUCT, False
    )
    y = tl.exp2(log_y * LOG2_E)
    plan_mass = mass_h
    if PRODUCT:
        plan_mass -= mass_h * tl.sum(y, 0)
    return at, mean + tl.sum(y * at, 0) - epsilon * plan_mass, mean


@triton.jit
def column_log_sums(
    cost, rows, log_h, labels, bias, scale, epsilon,
    S: tl.constexpr, TILE: tl.constexpr, PRODUCT: tl.constexpr, FIRST: tl.constexpr,
):  # fmt: skip
    """The logarithms of the plan's column sums `(S,)` for `bias = g/ε + β` to base 2, and `Σ h f`.

    If `FIRST`, there is no `g` yet: `f` is 0, and the sums are those of `exp(α − M/ε)`.
    """
    dtype: tl.constexpr = log_h.dtype.element_ty
    mean = tl.zeros((TILE,), dtype)
    largest = tl.full((S,), -INF, dtype)
    total = tl.zeros((S,), dtype)
    for first in range(0, labels, TILE):
        label = first + tl.arange(0, TILE)
        valid = label < labels
        places = rows[:, None] + label[None, :]  # (S, TILE)
        columns = tl.load(cost + places, mask=valid[None, :], other=0.0).to(dtype)
        log_mass = tl.load(log_h + label, mask=valid, other=0.0)
        if FIRST:
            exponent = -scale * columns
            if PRODUCT:
                exponent += (log_mass * LOG2_E)[None, :]
        else:
            exponent = bias[:, None] - scale * columns
            top = tl.max(exponent, 0)
            log_sum = top + tl.log2(tl.sum(tl.exp2(exponent - top[None, :]), 0))
            mean += at_labels(log_mass, valid, log_sum, epsilon, 1.0, PRODUCT, False)[2]
            exponent += (log_mass * LOG2_E - log_sum)[None, :]
        exponent = tl.where(valid[None, :], exponent, -INF)
        larger = tl.maximum(largest, tl.max(exponent, 1))
        safe = tl.where(larger > -INF, larger, 0.0)
        total = total * tl.exp2(largest - safe)
        total += tl.sum(tl.exp2(exponent - safe[:, None]), 1)
        largest = larger
    return (largest + tl.log2(total)) * LN_2, tl.sum(mean, 0)
