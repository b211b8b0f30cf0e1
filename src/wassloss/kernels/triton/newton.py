"""Newton's method on the semi-dual in one kernel: one program solves one example.

The algorithm and its names are those of `transport/newton/lockstep.py`. On one multiprocessor,
every pass over the labels reads the costs again, from the cache, and stores nothing but sums.
"""

# Triton compiles these functions itself, from a Python without types.
# mypy: ignore-errors

import math

import triton
import triton.language as tl

from wassloss.kernels import newton_constants as newton
from wassloss.kernels.triton.newton_passes import (
    LN_2,
    LOG2_E,
    at_labels,
    log2,
    mass_term,
    newton_step,
    sums,
)

FIRST_EXPONENT = tl.constexpr(newton.FIRST_EXPONENT)
STAGE_FACTOR = tl.constexpr(newton.STAGE_FACTOR)
STAGE_TOLERANCE = tl.constexpr(newton.STAGE_TOLERANCE)
LAST_STAGE_TOLERANCE = tl.constexpr(newton.LAST_STAGE_TOLERANCE)
SUFFICIENT_INCREASE = tl.constexpr(newton.SUFFICIENT_INCREASE)
SHRINK = tl.constexpr(newton.SHRINK)
SMALLEST_STEP = tl.constexpr(newton.SMALLEST_STEP)
RIDGE = tl.constexpr(newton.RIDGE)
LONGEST_STEP = tl.constexpr(newton.LONGEST_STEP)
SMALLEST_RIDGE = tl.constexpr(1e-14)  # of the masses
SMALLEST_PIVOT = tl.constexpr(1e-24)  # of all mass: targets of much less mass do not move
SMALLEST_MASS = tl.constexpr(2.0**-126)
INF = tl.constexpr(math.inf)


@triton.jit
def newton_kernel(
    cost, support, log_h, log_y,  # read
    f, g, value, error, n_iterations, converged,  # written
    labels, cost_row, cost_example, support_example, max_iterations,
    epsilon: tl.float64, gamma_a: tl.float64, gamma_b: tl.float64, unequal_price: tl.float64,
    tol: tl.float64,
    N: tl.constexpr, S: tl.constexpr, TILE: tl.constexpr, ALIGNED: tl.constexpr,
    UNROLLED: tl.constexpr, TABLE: tl.constexpr, PRODUCT: tl.constexpr,
    RELAXED_A: tl.constexpr, RELAXED_B: tl.constexpr,
):  # fmt: skip
    """Solve the example of this program, with the steps of `lockstep.maximize`."""
    dtype: tl.constexpr = log_h.dtype.element_ty
    labels = labels // ALIGNED * ALIGNED
    example = tl.program_id(0).to(tl.int64)
    log_h += example * labels
    f += example * labels
    g += example * N
    last = tl.full((), epsilon, dtype)
    gamma_a = tl.full((), gamma_a, dtype)
    gamma_b = tl.full((), gamma_b, dtype)
    tol = tl.full((), tol, dtype)

    # Offset of each target's column of costs, in a table of all labels or a block per example.
    slot = tl.arange(0, S)
    inside = tl.where(slot < N, slot, 0)
    if TABLE:
        rows = tl.load(support + example * support_example + inside).to(tl.int64) * cost_row
    else:
        rows = example * cost_example + inside.to(tl.int64) * cost_row
    rows = tl.multiple_of(rows, ALIGNED)

    log_y = tl.load(log_y + example * N + slot, mask=slot < N, other=-INF)  # (S,)
    present = log_y > -INF
    log_2_beta = (log_y if PRODUCT else tl.where(present, -1.0, log_y)) * LOG2_E
    mass_h, largest_cost = survey(cost, rows, log_h, labels, present, TILE)
    reach = largest_cost.to(dtype)
    if RELAXED_A or RELAXED_B:
        mass_y = tl.sum(tl.exp2(log_y * LOG2_E), 0)
        reach += tl.full((), unequal_price, dtype) * tl.abs(tl.log(mass_h / mass_y))
    stage = tl.maximum(reach / FIRST_EXPONENT, last)
    at = tl.zeros((S,), dtype)
    at, objective, violation, sum_f, _, count = ascend(
        cost, rows, log_h, labels, log_y, mass_h, at, stage, last, gamma_a, gamma_b, tol,
        max_iterations, N, S, TILE, ALIGNED, UNROLLED, PRODUCT, RELAXED_A, RELAXED_B,
    )  # fmt: skip

    scale = 1.0 / last * LOG2_E
    damping_a = gamma_a / (gamma_a + last) if RELAXED_A else tl.full((), 1.0, dtype)
    damping_b = gamma_b / (gamma_b + last) if RELAXED_B else tl.full((), 1.0, dtype)
    shift = tl.full((), 0.0, dtype)  # balanced potentials are centred
    if not (RELAXED_A or RELAXED_B):
        shift = sum_f / labels
    write_f(
        f, shift, cost, rows, log_h, labels, scale * at + log_2_beta, scale, damping_a * last,
        TILE, PRODUCT,
    )  # fmt: skip
    tl.store(g + slot, at + shift, mask=slot < N)
    # The error hardly depends on targets of little mass, so their potential is computed from f.
    y = tl.exp2(log_y * LOG2_E)
    little = present & (y <= tl.sqrt(tol) * tl.minimum(mass_h, tl.sum(y, 0)))
    if tl.max(little.to(tl.int32), 0) > 0:
        tl.debug_barrier()  # all threads have written f
        for j in range(N):
            here = slot == j
            if tl.max((little & here).to(tl.int32), 0) > 0:
                column = cost + tl.sum(tl.where(here, rows, 0), 0)
                log_sum = column_log_sum(f, column, log_h, labels, scale, TILE, PRODUCT)
                log_sum += tl.sum(tl.where(here, log_2_beta * LN_2, 0.0), 0)
                log_mass = tl.sum(tl.where(here, log_y, 0.0), 0)
                tl.store(g + j, damping_b * last * (log_mass - log_sum))
    tl.store(value + example, objective)
    tl.store(error + example, violation)
    tl.store(n_iterations + example, count)
    tl.store(converged + example, violation <= tol)


@triton.jit
def ascend(
    cost, rows, log_h, labels, log_y, mass_h, at, stage, last, gamma_a, gamma_b, tol,
    max_iterations, N: tl.constexpr, S: tl.constexpr, TILE: tl.constexpr, ALIGNED: tl.constexpr,
    UNROLLED: tl.constexpr, PRODUCT: tl.constexpr, RELAXED_A: tl.constexpr, RELAXED_B: tl.constexpr,
):  # fmt: skip
    """Maximise the semi-dual of one example, from the potential `at` and the first ε, `stage`.

    Returns the potential `(S,)`, the dual objective, the error, the sum of `f`, the dual's part
    from the labels (`Σ h f` when balanced), and the iterations taken.
    """
    dtype: tl.constexpr = at.dtype
    SINGLE: tl.constexpr = dtype == tl.float32
    ROUNDING: tl.constexpr = 2.0**-23 if SINGLE else 2.0**-52
    TERMS: tl.constexpr = 10 if SINGLE else 16
    present = log_y > -INF
    y = tl.exp2(log_y * LOG2_E)
    log_2_beta = (log_y if PRODUCT else tl.where(present, -1.0, log_y)) * LOG2_E
    mass_y = tl.sum(y, 0)
    least_mass = tl.minimum(mass_h, mass_y)

    # The current point and the step from it. An objective of −inf accepts any next point.
    direction = tl.zeros((S,), dtype)
    mass = tl.zeros((S,), dtype)
    step = tl.full((), 0.0, dtype)
    objective = tl.full((), -INF, dtype)
    slope = tl.full((), 0.0, dtype)
    noise = tl.full((), 0.0, dtype)
    violation = tl.full((), INF, dtype)
    sum_f = tl.full((), 0.0, dtype)
    sum_hf = tl.full((), 0.0, dtype)
    near_enough = tl.full((), STAGE_TOLERANCE, dtype)
    count = tl.full((), -1, tl.int32)
    running = count < max_iterations
    while running:
        count += 1
        # The final evaluation measures the point reached, at the last epsilon.
        closing = count == max_iterations
        step = tl.where(closing, 0.0, step)
        stage = tl.where(closing, last, stage)
        objective = tl.where(closing, -INF, objective)

        trial = at + step * direction
        scale = 1.0 / stage * LOG2_E
        damping_a = gamma_a / (gamma_a + stage) if RELAXED_A else tl.full((), 1.0, dtype)
        damping_b = gamma_b / (gamma_b + stage) if RELAXED_B else tl.full((), 1.0, dtype)
        trial_mass, coupling, over_labels = sums(
            cost, rows, log_h, labels, scale * trial + log_2_beta, scale, damping_a * stage,
            gamma_a, N, S, TILE, ALIGNED, UNROLLED, PRODUCT, RELAXED_A,
        )  # fmt: skip
        plan_mass, on_labels, size, trial_sum_f = over_labels
        if RELAXED_B:
            wanted = tl.exp2((log_y - trial / gamma_b) * LOG2_E)
            on_support = tl.sum(mass_term(y, wanted, trial, gamma_b, TERMS), 0)
        else:
            wanted = y
            on_support = tl.sum(y * trial, 0)
        if PRODUCT:
            plan_mass -= mass_h * mass_y
        gradient = wanted - trial_mass
        trial_violation = tl.sum(tl.abs(gradient), 0) / tl.maximum(tl.sum(wanted, 0), least_mass)
        trial_objective = on_labels + on_support - stage * plan_mass
        size += tl.sum(tl.abs(wanted * trial), 0) + tl.abs(trial_objective)
        needed = step * slope * SUFFICIENT_INCREASE - noise
        kept = (trial_objective >= objective + needed) & (trial_violation < INF)

        ridge = tl.minimum(trial_violation, 1.0) * RIDGE + SMALLEST_RIDGE
        excess = ridge * (trial_mass + wanted)
        if RELAXED_A:
            excess += stage / (gamma_a + stage) * trial_mass  # 1 − ρ_a, with all its digits
        if RELAXED_B:
            excess += stage / gamma_b * wanted
        excess = tl.where(present, tl.maximum(excess, least_mass * SMALLEST_PIVOT), 1.0)
        newton = newton_step(
            coupling, (excess / damping_a).to(tl.float32), (gradient / damping_a).to(tl.float32),
            N, S, UNROLLED,
        ).to(dtype)  # fmt: skip
        newton *= stage * tl.minimum(1.0 / tl.max(tl.abs(newton), 0) * LONGEST_STEP, 1.0)
        usable = tl.sum(tl.abs(newton), 0) < INF

        at = tl.where(kept, trial, at)
        mass = tl.where(kept, trial_mass, mass)
        objective = tl.where(kept, trial_objective, objective)
        noise = tl.where(kept, size * (8 * ROUNDING), noise)
        violation = tl.where(kept, trial_violation, violation)
        sum_f = tl.where(kept, trial_sum_f, sum_f)
        sum_hf = tl.where(kept, on_labels, sum_hf)
        step = tl.where(kept, 1.0, step * SHRINK)

        lower = kept & (stage > last) & (violation <= near_enough)
        stuck = (step < SMALLEST_STEP) & (kept == 0)
        log_mass = log2(tl.maximum(mass, SMALLEST_MASS)) * LN_2
        sinkhorn = damping_b * (stage * (log_y - log_mass) + at) - at
        sinkhorn = tl.where(present, sinkhorn, 0.0)
        direction = tl.where(kept, newton, direction)
        direction = tl.where(stuck | (kept & (usable == 0)), sinkhorn, direction)
        slope = tl.where(kept, tl.sum(direction * gradient, 0), slope)
        # Objectives of different stages are not comparable, so evaluate again before stepping.
        objective = tl.where(lower | stuck, -INF, objective)
        slope = tl.where(lower | stuck, 0.0, slope)
        step = tl.where(lower, 0.0, tl.where(stuck, 1.0, step))
        done = kept & (stage <= last) & (violation <= 0.5 * tol)
        stage = tl.where(lower, tl.maximum(stage / STAGE_FACTOR, last), stage)
        nearer = tl.maximum(near_enough / STAGE_FACTOR, LAST_STAGE_TOLERANCE)
        near_enough = tl.where(lower, nearer, near_enough)
        running = (count < max_iterations) & (done == 0)
    return at, objective, violation, sum_f, sum_hf, count


@triton.jit
def survey(cost, rows, log_h, labels, present, TILE: tl.constexpr):
    """The prediction's mass and the largest cost, in one pass over the labels."""
    mass = tl.zeros((TILE,), log_h.dtype.element_ty)
    largest = tl.zeros((TILE,), cost.dtype.element_ty)
    for first in range(0, labels, TILE):
        label = first + tl.arange(0, TILE)
        valid = label < labels
        mass += tl.exp2(tl.load(log_h + label, mask=valid, other=-INF) * LOG2_E)
        wanted = present[:, None] & valid[None, :]  # (S, TILE)
        columns = tl.load(cost + rows[:, None] + label[None, :], mask=wanted, other=0.0)
        largest = tl.maximum(largest, tl.max(columns, 0))
    return tl.sum(mass, 0), tl.max(largest, 0)


@triton.jit
def write_f(
    f, shift, cost, rows, log_h, labels, bias, scale, strength, TILE: tl.constexpr,
    PRODUCT: tl.constexpr,
):  # fmt: skip
    """Write the potential of the labels for `bias = g/ε + β`, minus `shift`."""
    for first in range(0, labels, TILE):
        label = first + tl.arange(0, TILE)
        valid = label < labels
        columns = tl.load(cost + rows[:, None] + label[None, :], mask=valid[None, :], other=0.0)
        exponent = bias[:, None] - scale * columns.to(bias.dtype)  # (S, TILE)
        largest = tl.max(exponent, 0)
        log_sum = largest + tl.log2(tl.sum(tl.exp2(exponent - largest[None, :]), 0))
        log_mass = tl.load(log_h + label, mask=valid, other=0.0)
        potential = at_labels(log_mass, valid, log_sum, strength, 1.0, PRODUCT, False)[0]
        tl.store(f + label, potential - shift, mask=valid)


@triton.jit
def column_log_sum(f, column, log_h, labels, scale, TILE: tl.constexpr, PRODUCT: tl.constexpr):
    """`log Σ_i exp(α_i + (f_i − M_ij)/ε)` of one target: its Sinkhorn update in terms of `f`."""
    dtype: tl.constexpr = log_h.dtype.element_ty
    largest = tl.full((TILE,), -INF, dtype)
    total = tl.zeros((TILE,), dtype)
    for first in range(0, labels, TILE):
        label = first + tl.arange(0, TILE)
        valid = label < labels
        costs = tl.load(column + label, mask=valid, other=0.0).to(dtype)
        exponent = scale * (tl.load(f + label, mask=valid, other=-INF) - costs)
        if PRODUCT:
            exponent += tl.load(log_h + label, mask=valid, other=0.0) * LOG2_E
        larger = tl.maximum(largest, exponent)
        safe = tl.where(larger > -INF, larger, 0.0)
        total = total * tl.exp2(largest - safe) + tl.exp2(exponent - safe)
        largest = larger
    top = tl.max(largest, 0)
    return (top + tl.log2(tl.sum(total * tl.exp2(largest - top), 0))) * LN_2
