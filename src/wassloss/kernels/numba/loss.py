"""Loss and gradient of each example in compiled code, for the CPU.

Softmax, transport, KL term and the gradient in the logits are computed while a row is in the cache.
If a row is invalid, its status says so: no separate pass has to look for it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from wassloss.kernels.numba.algorithm_one import iterate
from wassloss.kernels.numba.newton import (
    BLOCK,
    LOG_Y,
    POTENTIAL,
    Indices,
    Reals,
    Scratch,
    Terms,
    Totals,
    ascend,
    largest_cost,
    new_scratch,
    write_least_cost,
    write_potential,
)
from wassloss.kernels.numba.vectorized import compiled, exp, kept_on_disk, log, summing
from wassloss.kernels.status import FINE, IGNORED, INVALID, UNCONVERGED

__all__ = ["BLOCK", "RowScratch", "class_id_rows", "new_scratch", "softened_rows", "sparse_rows"]

Codes = NDArray[np.uint8]


class RowScratch(NamedTuple):
    """Memory for one thread."""

    log_h: Reals  # (labels,)
    h: Reals  # (labels,)
    top: Reals  # (block,)


@summing
def exponentials(
    x: Reals, scale: float, lowest: float, top: Reals, log_h: Reals, h: Reals
) -> tuple[float, float]:
    """Write `|scale| (±x − max ±x)`, with the sign of `scale`, and `exp` of that.

    Returns the maximum and the sum, maybe NaN.
    """
    real = x.dtype.type
    factor, sign = real(abs(scale)), real(1 if scale > 0 else -1)
    low, largest, total = real(lowest), real(-math.inf), 0.0
    width = min(BLOCK, x.size)
    for i in range(width):
        top[i] = largest
    for first in range(0, x.size, BLOCK):
        part = x[first:]
        for i in range(min(BLOCK, x.size - first)):
            v, t = sign * part[i], top[i]
            top[i] = t if t > v else v
    for i in range(width):
        largest = max(largest, top[i])
    for first in range(0, x.size, BLOCK):
        part, logs, powers, sum_ = x[first:], log_h[first:], h[first:], real(0)
        for i in range(min(BLOCK, x.size - first)):
            v = factor * (sign * part[i] - largest)  # NaN where x is NaN, inf, or −inf throughout
            e = exp(low if v < low else v)
            logs[i], powers[i] = v, e
            sum_ += e
        total += sum_
    return largest, total


@summing
def softmax(x: Reals, lowest: float, top: Reals, log_h: Reals, h: Reals) -> tuple[float, float]:
    """Write `softmax(x)` and its log, no less than `lowest`; its sum, or −1 where it has none.

    The other number is `log Σ exp(x)`, for a log of the softmax that is not raised to `lowest`.
    """
    largest, total = exponentials(x, 1.0, lowest, top, log_h, h)
    if not total < math.inf:
        return -1.0, 0.0
    real = x.dtype.type
    shift, share, low = real(math.log(total)), real(1 / total), real(lowest)
    least, mass = real(math.exp(lowest)), 0.0
    for first in range(0, x.size, BLOCK):
        logs, powers, sum_ = log_h[first:], h[first:], real(0)
        for i in range(min(BLOCK, x.size - first)):
            v, e = logs[i] - shift, powers[i] * share
            e = least if e < least else e
            logs[i] = low if v < low else v
            powers[i] = e
            sum_ += e
        mass += sum_
    return mass, largest + math.log(total)


@summing
def cost_of_one(
    log_h: Reals, h: Reals, total: float, cost: Reals, weight: float, epsilon: float,
    lowest: float, gradient: Reals,
) -> float:  # fmt: skip
    """`Σ h (weight M + ε log h)`, from what `exponentials` leaves, of sum `total`.

    The softmax is left in `h`, and the second factor of each summand in `gradient`.
    """
    real = log_h.dtype.type
    shift, share, low = real(math.log(total)), real(1 / total), real(lowest)
    least, scale, strength, charge = real(math.exp(lowest)), real(weight), real(epsilon), 0.0
    for first in range(0, h.size, BLOCK):
        logs, powers, cost_, out = log_h[first:], h[first:], cost[first:], gradient[first:]
        part = real(0)
        for i in range(min(BLOCK, h.size - first)):
            v, e = logs[i] - shift, powers[i] * share
            e = least if e < least else e
            slope = scale * cost_[i] + strength * (low if v < low else v)
            powers[i], out[i] = e, slope
            part += e * slope
        charge += part
    return charge


@compiled
def through_softmax(h: Reals, mean: float, kl: float, gradient: Reals) -> None:
    """From the slope in `h` to the gradient in the logits, with the part of KL that has `h`."""
    shift = h.dtype.type(kl - mean)
    for i in range(h.size):
        gradient[i] = h[i] * (gradient[i] + shift)


@summing
def softened_kl(
    column: Reals, per_softening: float, lowest: float, x: Reals, log_total: float, weight: float,
    scratch: RowScratch, gradient: Reals,
) -> float:  # fmt: skip
    """`Σ s log(s/softmax(x))` of `s = softmax(−per_softening · column)`.

    Takes `weight · s` from the gradient.
    """
    log_h, h, top = scratch
    _, total = exponentials(column, -per_softening, lowest, top, log_h, h)
    real, divergence = h.dtype.type, 0.0
    kl, low = real(weight / total), real(lowest)
    for first in range(0, h.size, BLOCK):
        logs, powers, logits, out = log_h[first:], h[first:], x[first:], gradient[first:]
        sum_ = real(0)
        for i in range(min(BLOCK, h.size - first)):
            v, e = logs[i], powers[i]
            sum_ += e * ((low if v < low else v) - logits[i])
            out[i] -= kl * e
        divergence += sum_
    return divergence / total - math.log(total) + log_total


@compiled
def write_invalid_row(b: int, code: int, value: Reals, gradient: Reals, status: Codes) -> int:
    """Write a loss of 0 for an ignored example, of NaN for an invalid one."""
    number = value.dtype.type(0.0 if code == IGNORED else math.nan)
    status[b], value[b] = code, number
    gradient[b, :] = number
    return code


@kept_on_disk
def class_id_rows(
    start: int, stop: int, logits: Reals, ids: Indices, cost: Reals, tabulated: bool,
    transport_weight: float, epsilon: float, kl_weight: float, per_softening: float, lowest: float,
    ignore_index: int, scratch: RowScratch,
    value: Reals, gradient: Reals, status: Codes,
) -> int:  # fmt: skip
    """Rows `start` to `stop − 1`: all of `h` goes to the one label of the target.

    `epsilon` has been multiplied by `transport_weight`. Returns the worst status of these rows.
    """
    log_h, h, top = scratch
    worst = FINE
    for b in range(start, stop):
        label = ids[b]
        if label == ignore_index:
            worst = max(worst, write_invalid_row(b, IGNORED, value, gradient, status))
            continue
        largest, total = exponentials(logits[b], 1.0, lowest, top, log_h, h)
        if not total < math.inf or not 0 <= label < h.size:
            worst = max(worst, write_invalid_row(b, INVALID, value, gradient, status))
            continue
        column = cost[label if tabulated else b]
        charge = cost_of_one(
            log_h, h, total, column, transport_weight, epsilon, lowest, gradient[b]
        )
        through_softmax(h, charge, kl_weight, gradient[b])
        log_total = largest + math.log(total)
        if per_softening > 0:
            charge += kl_weight * softened_kl(
                column, per_softening, lowest, logits[b], log_total, kl_weight, scratch, gradient[b]
            )
        elif kl_weight > 0:
            gradient[b, label] -= kl_weight
            charge -= kl_weight * (logits[b, label] - log_total)
        value[b] = charge
        status[b] = FINE if abs(value[b]) < math.inf else INVALID  # an infinite cost
        worst = max(worst, int(status[b]))
    return worst


@compiled
def read_labels(
    b: int, indices: Indices, weights: Reals, labels: int, tabulated: bool, lowest: float,
    least: float, normalize: bool, mass_tolerance: float, scratch: Scratch,
) -> tuple[int, float]:  # fmt: skip
    """The number of targets and their mass; −1 if they are invalid.

    `lowest` is the log of the least mass of a label, `least` that mass. Unless `normalize`, the sum
    may be off by `mass_tolerance`.
    """
    n, width, total = 0, indices.shape[1], 0.0
    for j in range(width):
        weight, label = weights[b, j], indices[b, j]
        if weight == 0:
            continue
        if not (0 < weight < math.inf) or not 0 <= label < labels:  # False for a NaN
            return -1, 0.0
        for k in range(j):
            if indices[b, k] == label and weights[b, k] > 0:
                return -1, 0.0
        scratch.present[n] = label if tabulated else b * width + j
        scratch.vectors[LOG_Y, n] = lowest if weight <= least else math.log(weight)
        scratch.vectors[POTENTIAL, n] = 0
        total += weight
        n += 1
    near_one = normalize or abs(total - 1) <= mass_tolerance
    return (n if n > 0 and near_one else -1), total


@kept_on_disk
def sparse_rows(
    start: int, stop: int, logits: Reals, indices: Indices, weights: Reals, cost: Reals,
    tabulated: bool, terms: Terms, transport_weight: float, kl_weight: float, lowest: float,
    least: float, normalize: bool, mass_tolerance: float, scratch: tuple[Scratch, RowScratch],
    value: Reals, gradient: Reals, status: Codes,
) -> int:  # fmt: skip
    """Rows `start` to `stop − 1`: a transport problem each, and its gradient in the logits.

    Returns the worst status of these rows.
    """
    solving, (log_h, _, top) = scratch
    h, worst, free = solving.h, FINE, terms.gamma_y == 0
    for b in range(start, stop):
        n, mass = read_labels(
            b, indices, weights, h.size, tabulated, lowest, least, normalize, mass_tolerance,
            solving,
        )  # fmt: skip
        total, log_total = softmax(logits[b], lowest, top, log_h, h)
        if n < 0 or total < 0:
            worst = max(worst, write_invalid_row(b, INVALID, value, gradient, status))
            continue
        to_total = math.log(total / mass)  # balanced masses are equal to the last digit
        for j in range(n):
            solving.vectors[LOG_Y, j] += to_total
        dual, mean, error = 0.0, 0.0, 0.0
        totals = Totals(total, total)
        if transport_weight == 0:
            gradient[b, :] = 0
        elif terms.fixed:
            dual, mean = iterate(log_h, totals, cost, n, terms, solving, gradient[b])
        else:
            if not free:
                dual, error, _ = ascend(log_h, totals, cost, n, terms, solving)
            if terms.epsilon > 0:
                none = solving.vectors[4, :0]
                mean = write_potential(log_h, cost, n, terms, solving, gradient[b], none)
            else:
                mean = write_least_cost(h, cost, solving.present[:n], gradient[b])
            if free:  # the potential of the targets is zero: the labels' own makes the dual
                dual = mean if terms.product else mean - terms.epsilon * total
        if transport_weight != 1:
            dual, mean = transport_weight * dual, transport_weight * mean
            for i in range(h.size):
                gradient[b, i] *= transport_weight
        divergence, share = 0.0, mass if normalize else 1.0
        kl_mass = mass / share
        through_softmax(h, mean, kl_weight * kl_mass, gradient[b])
        for j in range(indices.shape[1]):
            weight = weights[b, j] / share
            if weight > 0 and kl_weight > 0:
                at = logits[b, indices[b, j]] - log_total
                divergence += weight * (math.log(max(weight, least)) - at)
                gradient[b, indices[b, j]] -= kl_weight * weight
        value[b] = dual + kl_weight * divergence
        # A table's rounding is known beforehand; see `wassloss.losses.fused`.
        rounding = 0.0
        if not (tabulated or free or terms.fixed or transport_weight == 0):
            rounding = 0.5 * terms.eps * largest_cost(cost, solving.present[:n])
        converged = error <= terms.tol and rounding <= terms.tol * terms.epsilon  # not so for NaN
        held = abs(value[b]) < math.inf and abs(mean) < math.inf  # slopes too, not their sum alone
        status[b] = UNCONVERGED if not converged else FINE if held else INVALID
        worst = max(worst, int(status[b]))
    return worst


@summing
def add_softened(
    column: Reals, weight: float, per_softening: float, lowest: float, scratch: RowScratch,
    soft: Reals,
) -> None:  # fmt: skip
    """Add `weight · softmax(−per_softening · column)` to `soft`."""
    log_h, h, top = scratch
    _, total = exponentials(column, -per_softening, lowest, top, log_h, h)
    share = h.dtype.type(weight / total)
    for i in range(h.size):
        soft[i] += share * h[i]


@summing
def add_kl(
    soft: Reals, mass: float, x: Reals, lowest: float, least: float, weight: float,
    scratch: RowScratch, gradient: Reals,
) -> float:  # fmt: skip
    """`Σ soft log(soft/softmax(x))`, and `weight` times its gradient added; clears `soft`."""
    log_h, h, top = scratch
    _, total = exponentials(x, 1.0, lowest, top, log_h, h)
    real, divergence = h.dtype.type, 0.0
    shift, share, kl, tiny = real(math.log(total)), real(mass / total), real(weight), real(least)
    for first in range(0, h.size, BLOCK):
        logs, powers, part, out = log_h[first:], h[first:], soft[first:], gradient[first:]
        sum_ = real(0)
        for i in range(min(BLOCK, h.size - first)):
            s = part[i]
            sum_ += s * (log(tiny if s < tiny else s) - (logs[i] - shift))
            out[i] += kl * (share * powers[i] - s)
            part[i] = real(0)
        divergence += sum_
    return divergence


@kept_on_disk
def softened_rows(
    start: int, stop: int, logits: Reals, indices: Indices, weights: Reals, cost: Reals,
    tabulated: bool, nearest: bool, kl_weight: float, per_softening: float, lowest: float,
    least: float, normalize: bool, scratch: tuple[Scratch, RowScratch],
    value: Reals, gradient: Reals, status: Codes,
) -> int:  # fmt: skip
    """Add KL on softened labels to rows that `sparse_rows` found without KL.

    The labels are softened one by one or, if `nearest`, by their least cost. Apart from
    `sparse_rows`, which takes long enough to compile. Returns the worst status of these rows.
    """
    (solving, row), width, worst = scratch, indices.shape[1], FINE
    soft, near = solving.h, np.empty_like(solving.h)
    soft[:] = 0
    for b in range(start, stop):
        worst = max(worst, int(status[b]))
        if status[b] > FINE:
            continue
        mass = 0.0
        for j in range(width):
            mass += weights[b, j]
        share = mass if normalize or nearest else 1.0
        near[:] = math.inf
        for j in range(width):
            if weights[b, j] > 0:
                column = cost[indices[b, j] if tabulated else b * width + j]
                if nearest:
                    for i in range(near.size):
                        near[i] = min(near[i], column[i])
                else:
                    add_softened(column, weights[b, j] / share, per_softening, lowest, row, soft)
        if nearest:
            add_softened(near, 1.0, per_softening, lowest, row, soft)
        value[b] += kl_weight * add_kl(
            soft, mass / share, logits[b], lowest, least, kl_weight, row, gradient[b]
        )
        status[b] = FINE if abs(value[b]) < math.inf else INVALID
        worst = max(worst, int(status[b]))
    return worst
