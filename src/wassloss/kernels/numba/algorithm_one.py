"""Algorithm 1 for one example in compiled code: an iteration is one pass over its costs.

With `f` the best for `g`, the shares computed for `f` are also those of the plan, so the column
sums of the next iteration need no exponentials of their own.
"""

from __future__ import annotations

import math

from wassloss.kernels.numba.newton import (
    BLOCK,
    LOG_Y,
    POTENTIAL,
    Doubles,
    Reals,
    Scratch,
    Terms,
    Totals,
    best_for,
    exponentials,
)
from wassloss.kernels.numba.vectorized import compiled, log, summing


@summing
def write_block(
    log_h: Reals, h: Reals, epsilon: float, product: bool, size: int, lanes: Reals, f: Reals
) -> float:
    """Write `f` of a block and, in the third of `lanes`, `h / total`; the mean of `f` under `h`."""
    real = log_h.dtype.type
    top, total, weight = lanes[0], lanes[1], lanes[2]
    lead, unit, mean = real(0 if product else 1), real(epsilon), real(0)
    for i in range(size):
        f[i] = unit * (lead * log_h[i] - (top[i] + log(total[i])))
        weight[i] = h[i] / total[i]
        mean += h[i] * f[i]
    return float(mean)


@summing
def add_masses(share: Reals, weight: Reals, size: int, mass: Doubles) -> None:
    """Add the block's part of the plan's column sums."""
    for j in range(mass.size):
        row, part = share[j], share.dtype.type(0)
        for i in range(size):
            part += row[i] * weight[i]
        mass[j] += part


@compiled
def write_scalings(
    log_h: Reals, cost: Reals, n: int, terms: Terms, scratch: Scratch, mass: Doubles, f: Reals
) -> float:
    """Write `f`, the best for the potential in `scratch`, and the plan's column sums; `⟨h, f⟩`."""
    w, mean = scratch.vectors[1, :n], 0.0
    for j in range(n):
        reference = scratch.vectors[LOG_Y, j] if terms.product else -1.0
        w[j] = scratch.vectors[POTENTIAL, j] / terms.epsilon + reference
        mass[j] = 0
    for first in range(0, log_h.size, BLOCK):
        size, lanes, rate = min(BLOCK, log_h.size - first), scratch.lanes, 1 / terms.epsilon
        exponentials(
            cost, scratch.present[:n], w, rate, terms.negligible, first, size, scratch.share,
            lanes[0], lanes[1],
        )  # fmt: skip
        mean += write_block(
            log_h[first:], scratch.h[first:], terms.epsilon, terms.product, size, lanes, f[first:]
        )
        add_masses(scratch.share, lanes[2], size, mass)
    return mean


@compiled
def iterate(
    log_h: Reals, totals: Totals, cost: Reals, n: int, terms: Terms, scratch: Scratch, f: Reals
) -> tuple[float, float]:  # fmt: skip
    """`AlgorithmOne.solve` for one balanced example of `n` targets: its dual, and `⟨h, f⟩`.

    Writes `f`; what `scratch` holds is told by `ascend`.
    """
    logs, g, mass = scratch.vectors[LOG_Y], scratch.vectors[POTENTIAL], scratch.vectors[4, :n]
    # Shares are no smaller than e^negligible: of a column that has not much more, most is made up.
    least = math.exp(terms.negligible) / terms.eps * totals.h
    for i in range(f.size):
        f[i] = 0
    for j in range(n):
        g[j] = best_for(f, log_h, cost, j, terms, scratch)
    mean = write_scalings(log_h, cost, n, terms, scratch, mass, f)
    for _ in range(terms.max_iterations - 1):
        for j in range(n):
            if mass[j] > least:
                g[j] += terms.epsilon * (logs[j] - math.log(mass[j]))
            else:
                g[j] = best_for(f, log_h, cost, j, terms, scratch)
        mean = write_scalings(log_h, cost, n, terms, scratch, mass, f)
    dual = mean - terms.epsilon * totals.h
    if terms.product:
        dual += terms.epsilon * totals.h * totals.y
    for j in range(n):
        dual += math.exp(logs[j]) * g[j]
    return dual, mean
