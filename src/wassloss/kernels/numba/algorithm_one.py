"""Algorithm 1 for one example in compiled code: an iteration is one pass over its costs.

With `f` the best for `g`, the shares computed for `f` are also those of the plan, so the column
sums of the next iteration need no exponentials of their own.
"""

from __future__ import annotations

import math

from wassloss.kernels.numba.newton import (
    LOG_Y,
    POTENTIAL,
    Reals,
    Scratch,
    Terms,
    Totals,
    best_for,
    write_potential,
)
from wassloss.kernels.numba.vectorized import compiled


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
    mean = write_potential(log_h, cost, n, terms, scratch, f, mass)
    for _ in range(terms.max_iterations - 1):
        for j in range(n):
            if mass[j] > least:
                g[j] += terms.epsilon * (logs[j] - math.log(mass[j]))
            else:
                g[j] = best_for(f, log_h, cost, j, terms, scratch)
        mean = write_potential(log_h, cost, n, terms, scratch, f, mass)
    dual = mean - terms.epsilon * totals.h
    if terms.product:
        dual += terms.epsilon * totals.h * totals.y
    for j in range(n):
        dual += math.exp(logs[j]) * g[j]
    return dual, mean
