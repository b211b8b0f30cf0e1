"""The compiled half of `NewtonCPU`: an example at a time, in scratch in the cache.

The mathematics is that of `transport/newton/solver.py` and `transport/conditions.py`. Labels are
processed in blocks: while a block is in the first-level cache, its exponents, shares, marginals and
its part of the Hessian are computed. What has the size of the support is in double precision.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from wassloss.kernels import newton_constants as constants
from wassloss.kernels.numba.vectorized import (
    compiled,
    exp,
    expm1,
    kept_on_disk,
    log,
    of_numbers,
    summing,
)

Reals = NDArray[Any]  # of the problem's dtype
Doubles = NDArray[np.float64]
Indices = NDArray[np.int64]

BLOCK = 256  # labels at a time
LOG_Y, POTENTIAL = 0, 3  # rows of `Scratch.vectors` that others than `ascend` look at


class Terms(NamedTuple):
    """What all examples have in common."""

    # The problem: which marginals are constraints is told by an infinite gamma.
    epsilon: float
    gamma_h: float
    gamma_y: float
    product: bool  # the regulariser
    unequal_price: float  # Objective.price_of_unequal_masses
    # The dtype, the exponent below which `transport/precision.py` neglects a term, and NO_LOG_MASS.
    eps: float
    tiny: float
    largest: float
    negligible: float
    no_log_mass: float
    # The budget; or just so many iterations of Algorithm 1.
    tol: float
    max_iterations: int
    fixed: bool


class Totals(NamedTuple):
    """The masses of one example."""

    h: float
    y: float


class Scratch(NamedTuple):
    """Memory for one thread."""

    present: Indices  # (support,), where the costs are of the targets that are not padding
    h: Reals  # (labels,)
    share: Reals  # (support + 1, block)
    lanes: Reals  # (4, block): top, total, T1 / total and sqrt(T1) / total of each label
    coupling: Doubles  # (support + 1, support + 1)
    vectors: Doubles  # (9, support), named in `ascend`


def new_scratch(support: int, labels: int, dtype: Any) -> Scratch:
    """Scratch for examples of one shape. Targets go in pairs: an odd last one needs a partner."""
    return Scratch(
        np.zeros(support, np.int64),
        np.zeros(labels, dtype),
        np.zeros((support + 1, BLOCK), dtype),
        np.zeros((4, BLOCK), dtype),
        np.zeros((support + 1, support + 1)),
        np.zeros((9, support)),
    )


# One block of labels


@summing
def exponentials(
    cost: Reals, rows: Indices, w: Doubles, rate: float, low: float,
    first: int, size: int, share: Reals, top: Reals, total: Reals,
) -> None:  # fmt: skip
    """`share = exp(w_j − M_ij rate − top_i)`, with `top` its largest exponent, `total` its sum."""
    real = cost.dtype.type
    rate_, low_ = real(rate), real(low)
    for i in range(size):
        top[i] = real(-math.inf)
        total[i] = real(0)
    for j in range(w.size):
        row, out, w_j = cost[rows[j], first:], share[j], real(w[j])
        for i in range(size):
            v, t = w_j - rate_ * row[i], top[i]
            out[i] = v
            top[i] = t if t > v else v
    for j in range(w.size):
        out = share[j]
        for i in range(size):
            v = out[i] - top[i]
            e = exp(low_ if v < low_ else v)  # a NaN stays one
            out[i] = e
            total[i] += e


@summing
def label_terms(
    log_h: Reals, h: Reals, epsilon: float, terms: Terms, size: int, lanes: Reals
) -> tuple[float, float, float]:
    """The block's part of the dual, of its rounding error and of the plan's mass.

    Reads the first two of `lanes` and fills the others.
    """
    real = log_h.dtype.type
    zero, one, half, inf = real(0), real(1), real(0.5), real(math.inf)
    lowest, highest = real(math.log(terms.tiny)), real(math.log(terms.largest / 2))
    no_mass = real(terms.no_log_mass)
    floor = real(terms.tiny**0.45)  # less is nothing, and would make denormal products
    top, total, weight, root = lanes[0], lanes[1], lanes[2], lanes[3]
    lead = zero if terms.product else one  # log h − α
    gamma, constrained = real(terms.gamma_h), math.isinf(terms.gamma_h)
    rate, unit = real(-1 / terms.gamma_h), real(damping(terms.gamma_h, epsilon) * epsilon)
    dual, rounding, mass = zero, zero, zero
    for i in range(size):
        f = unit * (lead * log_h[i] - (top[i] + log(total[i])))
        if constrained:
            r = h[i]
            dual += r * f
        else:
            x = rate * f
            z = log_h[i] + x
            r = exp(lowest if z < lowest else (highest if z > highest else z))
            r = inf if z > highest else r
            r = r if log_h[i] > no_mass else zero  # z has no digits there
            near = expm1(x if abs(x) < half else zero)
            dual += gamma * (-h[i] * near if abs(x) < half else h[i] - r)
        rounding += abs(r * f)
        mass += r
        inverse = one / total[i]
        r = zero if r < floor else r
        weight[i] = r * inverse
        root[i] = math.sqrt(r) * inverse
    return float(dual), float(rounding), float(mass)


@summing
def couple(
    size: int, tiny: float, share: Reals, lanes: Reals, mass: Doubles, coupling: Doubles
) -> None:
    """Add the block's part of `c = Tᵀ1` and of the lower half of `Pᵀ diag(T1) P`."""
    real = share.dtype.type
    zero, cut = real(0), real(tiny**0.25)
    weight, root = lanes[2], lanes[3]
    for j in range(mass.size):
        row, c = share[j], zero
        for i in range(size):
            e = row[i]
            c += e * weight[i]
            row[i] = zero if e < cut else e * root[i]
        mass[j] += c
    # Two by two, for each number that is read to be used twice. An odd last row has one of zeros.
    for j in range(0, mass.size, 2):
        p, q = share[j], share[j + 1]
        for k in range(0, j + 1, 2):
            r, s = share[k], share[k + 1]
            pr, ps, qr, qs = zero, zero, zero, zero
            for i in range(size):
                pr += p[i] * r[i]
                ps += p[i] * s[i]
                qr += q[i] * r[i]
                qs += q[i] * s[i]
            coupling[j, k] += pr
            coupling[j, k + 1] += ps
            coupling[j + 1, k] += qr
            coupling[j + 1, k + 1] += qs


# One example


@compiled
def damping(gamma: float, epsilon: float) -> float:
    """See `Objective.damping`."""
    return 1.0 if math.isinf(gamma) else gamma / (gamma + epsilon)


@compiled
def over_labels(
    log_h: Reals, h: Reals, cost: Reals, rows: Indices, w: Doubles, epsilon: float,
    terms: Terms, mass: Doubles, coupling: Doubles, share: Reals, lanes: Reals,
) -> tuple[float, float, float]:  # fmt: skip
    """`mass`, `coupling`, and the sums of `label_terms` over all blocks."""
    for j in range(w.size):
        mass[j] = 0
        for k in range(w.size):
            coupling[j, k] = 0
    dual, rounding, plan_mass = 0.0, 0.0, 0.0
    for first in range(0, log_h.size, BLOCK):
        size = min(BLOCK, log_h.size - first)
        exponentials(
            cost, rows, w, 1 / epsilon, terms.negligible, first, size, share, lanes[0], lanes[1]
        )
        part = label_terms(log_h[first:], h[first:], epsilon, terms, size, lanes)
        dual += part[0]
        rounding += part[1]
        plan_mass += part[2]
        couple(size, terms.tiny, share, lanes, mass, coupling)
    return dual, rounding, plan_mass


@compiled
def over_support(
    log_y: Doubles, g: Doubles, mass: Doubles, gamma: float, wanted: Doubles
) -> tuple[float, float, float, float]:
    """`wanted`, its part of the dual and of its rounding error, its sum, and its ℓ1 violation."""
    dual, rounding, asked, wrong = 0.0, 0.0, 0.0, 0.0
    for j in range(g.size):
        y, x = math.exp(log_y[j]), -g[j] / gamma
        wanted[j] = math.exp(log_y[j] + x)
        if math.isinf(gamma):
            dual += y * g[j]
        else:
            dual += gamma * (-y * math.expm1(x) if abs(x) < 0.5 else y - wanted[j])
        rounding += abs(wanted[j] * g[j])
        asked += wanted[j]
        wrong += abs(mass[j] - wanted[j])
    return dual, rounding, asked, wrong


@compiled
def sinkhorn_step(
    log_y: Doubles, g: Doubles, mass: Doubles, epsilon: float, terms: Terms, step: Doubles
) -> None:
    """From `g` to what Sinkhorn's update would make of it."""
    for j in range(g.size):
        best = epsilon * (log_y[j] - math.log(max(mass[j], terms.tiny))) + g[j]
        step[j] = damping(terms.gamma_y, epsilon) * best - g[j]


@summing
def cholesky_solve(system: Doubles, x: Doubles) -> bool:
    """Solve in place, given the lower half; False where it is not positive definite."""
    for j in range(x.size):
        for k in range(j + 1):
            rest = system[j, k]
            for i in range(k):
                rest -= system[j, i] * system[k, i]
            if k < j:
                system[j, k] = rest / system[k, k]
            elif rest > 0:  # False for a NaN
                system[j, j] = math.sqrt(rest)
            else:
                return False
    for j in range(x.size):
        for i in range(j):
            x[j] -= system[j, i] * x[i]
        x[j] /= system[j, j]
    for j in range(x.size - 1, -1, -1):
        x[j] /= system[j, j]
        for i in range(j):
            x[i] -= system[j, i] * x[j]
    return True


@compiled
def find_direction(
    log_y: Doubles, g: Doubles, mass: Doubles, wanted: Doubles, error: float, epsilon: float,
    terms: Terms, coupling: Doubles, direction: Doubles,
) -> float:  # fmt: skip
    """Newton's step or, where there is none, Sinkhorn's; its slope. `coupling` is used up."""
    ridge = constants.RIDGE * min(error, 1.0) + 100 * 2.0**-52
    for j in range(g.size):
        for k in range(j + 1):
            coupling[j, k] *= -damping(terms.gamma_h, epsilon)
        coupling[j, j] += mass[j] + epsilon / terms.gamma_y * wanted[j]
        coupling[j, j] += ridge * (mass[j] + wanted[j])
        direction[j] = wanted[j] - mass[j]
    usable, longest = cholesky_solve(coupling, direction), constants.LONGEST_STEP
    for j in range(g.size):
        usable = usable and abs(direction[j]) < math.inf
        longest = max(longest, abs(direction[j]))
    scale = epsilon * constants.LONGEST_STEP / longest
    if not usable:
        sinkhorn_step(log_y, g, mass, epsilon, terms, direction)
        scale = 1.0
    slope = 0.0
    for j in range(g.size):
        direction[j] *= scale
        slope += direction[j] * (wanted[j] - mass[j])
    return slope


@summing
def exponentiate(log_h: Reals, lowest: float, h: Reals) -> float:
    """`h` from its logarithm, and its sum."""
    low, total = log_h.dtype.type(lowest), 0.0
    for i in range(h.size):
        h[i] = exp(low if log_h[i] < low else log_h[i])
        total += h[i]
    return total


@of_numbers
def largest_cost(cost: Reals, rows: Indices) -> float:
    """The largest cost in some rows."""
    largest = cost.dtype.type(0)
    for j in rows:
        for c in cost[j]:
            largest = c if c > largest else largest
    return float(largest)


@compiled
def evaluate(
    log_h: Reals, totals: Totals, cost: Reals, columns: Indices, at: Doubles, epsilon: float,
    terms: Terms, scratch: Scratch, mass: Doubles, wanted: Doubles,
) -> tuple[float, float, float]:  # fmt: skip
    """The dual at the potential `at`, its error and its rounding; `mass` and `wanted` are filled.

    Leaves in `scratch` the couplings of the Hessian.
    """
    _, h, share, lanes, coupling, vectors = scratch
    logs, w = vectors[LOG_Y, : at.size], vectors[1, : at.size]
    for j in range(at.size):
        w[j] = at[j] / epsilon + (logs[j] if terms.product else -1.0)
    on_labels = over_labels(
        log_h, h, cost, columns, w, epsilon, terms, mass, coupling, share, lanes
    )
    on_support = over_support(logs, at, mass, terms.gamma_y, wanted)
    value = on_labels[0] + on_support[0] - epsilon * on_labels[2]
    if terms.product:
        value += epsilon * totals.h * totals.y
    error = on_support[3] / max(on_support[2], min(totals.h, totals.y))
    noise = 8 * terms.eps * (on_labels[1] + on_support[1] + abs(value))
    return value, error, noise


@compiled
def ascend(
    log_h: Reals, totals: Totals, cost: Reals, n: int, terms: Terms, scratch: Scratch
) -> tuple[float, float, int]:  # fmt: skip
    """`Newton.solve` for one example of `n` targets: the dual, the error, and iterations taken.

    `scratch` holds the prediction's masses, the targets' places in `cost` and, in `vectors`, the
    logs of their weights and the potential, which goes from its start to the best.
    """
    real = log_h.dtype.type
    for i in range(BLOCK):
        scratch.share[n, i] = 0
    columns, view = scratch.present[:n], scratch.vectors[:, :n]
    logs, direction = view[LOG_Y], view[2]
    g, mass, wanted = view[POTENTIAL], view[4], view[5]
    trial, trial_mass, trial_wanted = view[6], view[7], view[8]

    epsilon, near_enough = terms.epsilon, constants.STAGE_TOLERANCE
    reach = largest_cost(cost, columns)
    if terms.unequal_price > 0:
        reach += terms.unequal_price * abs(math.log(totals.h / totals.y))
    epsilon = max(epsilon, reach / constants.FIRST_EXPONENT)
    objective, noise, error, slope, step = -math.inf, 0.0, 0.0, 0.0, 0.0
    for iteration in range(terms.max_iterations + 1):
        for j in range(n):
            trial[j] = real(g[j] + step * direction[j]) if step > 0 else g[j]
        value, trial_error, trial_noise = evaluate(
            log_h, totals, cost, columns, trial, epsilon, terms, scratch, trial_mass, trial_wanted
        )
        needed = constants.SUFFICIENT_INCREASE * step * slope - noise
        # A NaN or an infinity compares false: such a point is refused, but for the first one.
        kept = value >= objective + needed and trial_error < math.inf
        if kept or iteration == 0:
            objective, error, noise, step = value, trial_error, trial_noise, 1.0
            for j in range(n):
                g[j], mass[j], wanted[j] = trial[j], trial_mass[j], trial_wanted[j]
            at_last = epsilon <= terms.epsilon
            # Half the tolerance: whoever measures again sums in another order.
            if at_last and error <= 0.5 * terms.tol and iteration > 0:
                return objective, error, iteration
            if at_last or error > near_enough or iteration == 0:
                slope = find_direction(
                    logs, g, mass, wanted, error, epsilon, terms, scratch.coupling, direction
                )
            else:
                # One stage's objective says nothing of the next: look around there first.
                epsilon = max(terms.epsilon, epsilon / constants.STAGE_FACTOR)
                near_enough = max(
                    constants.LAST_STAGE_TOLERANCE, near_enough / constants.STAGE_FACTOR
                )
                step, slope, objective = 0.0, 0.0, -math.inf
        else:
            step *= constants.SHRINK
            if step < constants.SMALLEST_STEP:
                sinkhorn_step(logs, g, mass, epsilon, terms, direction)
                step, slope, objective = 1.0, 0.0, -math.inf
    # However far it came, what is told is measured there, at the last ε.
    value, error, _ = evaluate(
        log_h, totals, cost, columns, g, terms.epsilon, terms, scratch, mass, wanted
    )
    return value, error, terms.max_iterations


@summing
def add_masses(
    share: Reals, h: Reals, total: Reals, size: int, weight: Reals, mass: Doubles
) -> None:
    """Add the block's part of a balanced plan's column sums; `weight` is scratch."""
    for i in range(size):
        weight[i] = h[i] / total[i]
    for j in range(mass.size):
        row, part = share[j], share.dtype.type(0)
        for i in range(size):
            part += row[i] * weight[i]
        mass[j] += part


@summing
def write_potential(
    log_h: Reals, cost: Reals, n: int, terms: Terms, scratch: Scratch, out: Reals, mass: Doubles
) -> float:
    """Write `f`, the best for the potential in `scratch`; its mean under `h`.

    `mass` is filled with the column sums of a balanced plan, or empty where nobody needs them.
    """
    real, h = log_h.dtype.type, scratch.h
    w, epsilon, total = scratch.vectors[1, :n], terms.epsilon, 0.0
    for j in range(n):
        reference = scratch.vectors[LOG_Y, j] if terms.product else -1.0
        w[j] = scratch.vectors[POTENTIAL, j] / epsilon + reference
    for j in range(mass.size):
        mass[j] = 0
    lead, unit = real(0 if terms.product else 1), real(damping(terms.gamma_h, epsilon) * epsilon)
    top, sums = scratch.lanes[0], scratch.lanes[1]
    for first in range(0, h.size, BLOCK):
        size, part = min(BLOCK, h.size - first), real(0)
        exponentials(
            cost, scratch.present[:n], w, 1 / epsilon, terms.negligible, first, size,
            scratch.share, top, sums,
        )  # fmt: skip
        logs, h_, out_ = log_h[first:], h[first:], out[first:]
        for i in range(size):
            f = unit * (lead * logs[i] - (top[i] + log(sums[i])))
            out_[i] = f
            part += h_[i] * f
        total += part
        if mass.size > 0:
            add_masses(scratch.share, h_, sums, size, scratch.lanes[2], mass)
    return total


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


@summing
def column_log_sum(f: Reals, log_h: Reals, row: Reals, terms: Terms, top: Reals) -> float:
    """`log Σ_i exp(α_i + (f_i − M_ij)/ε)` of the target with costs `row`; `top` is scratch."""
    real = f.dtype.type
    rate, low, follow = real(1 / terms.epsilon), real(terms.negligible), real(terms.product)
    largest, total = real(-math.inf), 0.0
    for i in range(BLOCK):
        top[i] = largest
    for first in range(0, f.size, BLOCK):
        f_, logs, row_ = f[first:], log_h[first:], row[first:]
        for i in range(min(BLOCK, f.size - first)):
            x, t = rate * (f_[i] - row_[i]) + follow * logs[i], top[i]
            top[i] = t if t > x else x
    for i in range(BLOCK):
        largest = max(largest, top[i])
    for first in range(0, f.size, BLOCK):
        f_, logs, row_, part = f[first:], log_h[first:], row[first:], real(0)
        for i in range(min(BLOCK, f.size - first)):
            x = rate * (f_[i] - row_[i]) + follow * logs[i] - largest
            part += exp(low if x < low else x)
        total += part
    return float(largest) + math.log(total)


@compiled
def best_for(f: Reals, log_h: Reals, cost: Reals, j: int, terms: Terms, scratch: Scratch) -> float:
    """The potential of target `j` that is best for `f`, by exponentials of its own."""
    row, log_y = cost[scratch.present[j]], scratch.vectors[LOG_Y, j]
    reference = log_y if terms.product else -1.0
    log_sum = column_log_sum(f, log_h, row, terms, scratch.lanes[0])
    strength = damping(terms.gamma_y, terms.epsilon) * terms.epsilon
    return float(strength * (log_y - reference - log_sum))


@kept_on_disk
def maximize(
    start: int, stop: int, log_h: Reals, log_y: Reals, cost: Reals, rows: Indices, terms: Terms,
    scratch: Scratch, value: Reals, f: Reals, g: Reals, n_iterations: Indices, error: Reals,
) -> None:  # fmt: skip
    """Solve examples `start` to `stop − 1`; `g` goes from its start to the best."""
    vectors = scratch.vectors
    for b in range(start, stop):
        total_h = exponentiate(log_h[b], math.log(terms.tiny), scratch.h)
        total_y, n = 0.0, 0
        for j in range(log_y.shape[1]):
            if log_y[b, j] > -math.inf:
                scratch.present[n] = rows[b, j]
                vectors[LOG_Y, n], vectors[POTENTIAL, n] = log_y[b, j], g[b, j]
                total_y += math.exp(log_y[b, j])
                n += 1
        totals = Totals(total_h, total_y)
        value[b], error[b], n_iterations[b] = ascend(log_h[b], totals, cost, n, terms, scratch)
        write_potential(log_h[b], cost, n, terms, scratch, f[b], vectors[4, :0])
        # The error all but overlooks targets of little mass; their potential follows from f.
        little, n = math.sqrt(terms.tol) * min(total_h, total_y), 0
        for j in range(log_y.shape[1]):
            if not log_y[b, j] > -math.inf:
                g[b, j] = 0
                continue
            g[b, j] = vectors[POTENTIAL, n]
            if math.exp(log_y[b, j]) <= little:
                g[b, j] = best_for(f[b], log_h[b], cost, n, terms, scratch)
            n += 1
