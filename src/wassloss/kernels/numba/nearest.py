"""The compiled half of `NearestCPU`: one example at a time, in blocks that stay in the cache.

Numba's cache on disk watches this file and no other: after a change of `newton.py` or
`vectorized.py`, touch it.
"""

from __future__ import annotations

import math

from wassloss.kernels.numba.newton import (
    BLOCK,
    LOG_Y,
    POTENTIAL,
    Indices,
    Reals,
    Scratch,
    Terms,
    write_potential,
)
from wassloss.kernels.numba.vectorized import compiled, kept_on_disk, summing


@summing
def write_least_cost(h: Reals, cost: Reals, rows: Indices, out: Reals) -> float:
    """Write the least cost of each label to any of the targets; its mean under `h`."""
    real, total = out.dtype.type, 0.0
    for first in range(0, h.size, BLOCK):
        size, part, h_, out_ = min(BLOCK, h.size - first), real(0), h[first:], out[first:]
        for i in range(size):
            out_[i] = math.inf
        for j in rows:
            row = cost[j, first:]
            for i in range(size):
                c, least = row[i], out_[i]
                out_[i] = c if c < least else least
        for i in range(size):
            part += h_[i] * out_[i]
        total += part
    return total


@compiled
def write_nearest(
    log_h: Reals, h: Reals, cost: Reals, n: int, terms: Terms, scratch: Scratch, out: Reals
) -> float:
    """Write `f`, the best for the potential in `scratch`, at any ε; its mean under `h`."""
    if terms.epsilon > 0:
        return write_potential(log_h, h, cost, n, terms, scratch, out)
    return write_least_cost(h, cost, scratch.present[:n], out)


@kept_on_disk
def nearest_rows(
    start: int, stop: int, log_h: Reals, log_y: Reals, cost: Reals, rows: Indices, terms: Terms,
    scratch: Scratch, f: Reals,
) -> None:  # fmt: skip
    """Write `f` of examples `start` to `stop − 1`; NaN where there is no target at all."""
    for b in range(start, stop):
        n = 0
        for j in range(log_y.shape[1]):
            if log_y[b, j] > -math.inf:
                scratch.present[n] = rows[b, j]
                scratch.vectors[LOG_Y, n], scratch.vectors[POTENTIAL, n] = log_y[b, j], 0
                n += 1
        if n > 0:
            write_nearest(log_h[b], scratch.h, cost, n, terms, scratch, f[b])
        else:
            f[b, :] = math.nan
