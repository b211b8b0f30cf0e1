"""Loss and gradient of each example in one kernel, for NVIDIA GPUs: one program per example.

The kernel computes the softmax, the transport, the KL term and the gradient in the logits. It also
writes a status per example, so that the host need not synchronise.
"""

# Triton compiles these functions itself, from a Python without types.
# mypy: ignore-errors

import math

import triton
import triton.language as tl

from wassloss.kernels import status as codes
from wassloss.kernels.triton.algorithm_one import iterate
from wassloss.kernels.triton.newton import FIRST_EXPONENT, ascend, survey
from wassloss.kernels.triton.newton_passes import LN_2, LOG2_E, at_labels

FINE = tl.constexpr(codes.FINE)
IGNORED = tl.constexpr(codes.IGNORED)
UNCONVERGED = tl.constexpr(codes.UNCONVERGED)
INVALID = tl.constexpr(codes.INVALID)
INF = tl.constexpr(math.inf)
SUMMED = tl.constexpr(1024)  # losses that are added up at a time


@triton.jit
def log_of_sum(logits, labels, TILE: tl.constexpr):
    """`log Σ exp(logits)`; not finite if the logits have no softmax."""
    dtype: tl.constexpr = logits.dtype.element_ty
    largest = tl.full((TILE,), -INF, dtype)
    total = tl.zeros((TILE,), dtype)
    for first in range(0, labels, TILE):
        label = first + tl.arange(0, TILE)
        x = tl.load(logits + label, mask=label < labels, other=-INF) * LOG2_E
        # A maximum may ignore a NaN, but the sum keeps it.
        larger = tl.maximum(largest, x)
        safe = tl.where(larger > -INF, larger, 0.0)
        total = total * tl.exp2(largest - safe) + tl.exp2(x - safe)
        largest = larger
    top = tl.max(largest, 0)
    safe = tl.where(top > -INF, top, 0.0)
    return (top + tl.log2(tl.sum(total * tl.exp2(largest - safe), 0))) * LN_2


@triton.jit
def least_and_log_sum(cost, rows, labels, scale, S: tl.constexpr, TILE: tl.constexpr):
    """The least cost of each of S rows, and `log2 Σ exp2(scale (least − cost))`; both `(S,)`."""
    dtype: tl.constexpr = scale.dtype
    least = tl.full((S, TILE), INF, dtype)
    total = tl.zeros((S, TILE), dtype)
    for first in range(0, labels, TILE):
        label = first + tl.arange(0, TILE)
        valid = (label < labels)[None, :]
        costs = tl.load(cost + rows[:, None] + label[None, :], mask=valid, other=INF).to(dtype)
        less = tl.minimum(least, costs)
        # Lanes without a label have infinite costs, and inf − inf is NaN.
        safe = tl.where(less < INF, less, 0.0)
        total = total * tl.exp2(scale * (safe - least)) + tl.exp2(scale * (safe - costs))
        least = less
    lowest = tl.min(least, 1)
    return lowest, tl.log2(tl.sum(total * tl.exp2(scale * (lowest[:, None] - least)), 1))


@triton.jit
def softened(cost, rows, label, valid, weight, scale, least, log_sum):
    """Shares of labels `(TILE,)`: the weighted sum of softmax(−cost/softening) over rows."""
    costs = tl.load(cost + rows[:, None] + label[None, :], mask=valid[None, :], other=INF)
    logs = scale * (least[:, None] - costs.to(scale.dtype)) - log_sum[:, None]
    return tl.sum(weight[:, None] * tl.exp2(logs), 0)


@triton.jit
def softened_kl(
    cost, rows, logits, log_total, labels, weight, scale, least, log_sum, tiny,
    TILE: tl.constexpr,
):  # fmt: skip
    """`Σ s log(s/softmax(logits))` of the shares `s` that :func:`softened` gives."""
    sum_ = tl.zeros((TILE,), scale.dtype)
    for first in range(0, labels, TILE):
        label = first + tl.arange(0, TILE)
        valid = label < labels
        s = softened(cost, rows, label, valid, weight, scale, least, log_sum)
        log_h = tl.load(logits + label, mask=valid, other=0.0) - log_total
        # A share of zero must not meet an infinite log.
        sum_ += tl.where(s != 0, s * (tl.log(tl.maximum(s, tiny)) - log_h), 0.0)
    return tl.sum(sum_, 0)


@triton.jit
def summarize(value, status, mean, share, worst, finished):
    """Reduce the losses of the batch, in the last of its programs to finish.

    Writes the mean of the losses that count, the factor of each in it (`share`), and the worst
    status. If none counts, the mean is NaN, as in `CrossEntropyLoss`, and the share 0. `finished`
    counts programs and is 0 before and after.
    """
    tl.debug_barrier()  # this program's loss is written before it counts as finished
    examples = tl.num_programs(0)
    if tl.atomic_add(finished, 1) == examples - 1:
        sums = tl.zeros((SUMMED,), value.dtype.element_ty)
        counts = tl.zeros((SUMMED,), tl.int32)
        codes = tl.full((SUMMED,), FINE, tl.int32)
        for first in range(0, examples, SUMMED):
            example = first + tl.arange(0, SUMMED)
            valid = example < examples
            # Other multiprocessors wrote these: a copy in this one's own cache may be stale.
            sums += tl.load(value + example, mask=valid, other=0.0, cache_modifier=".cg")
            code = tl.load(status + example, mask=valid, other=FINE, cache_modifier=".cg")
            counts += (valid & (code != IGNORED)).to(tl.int32)
            codes = tl.maximum(codes, code.to(tl.int32))
        sum_ = tl.sum(sums, 0)
        count = tl.sum(counts, 0).to(sum_.dtype)
        tl.store(mean, sum_ / count)
        tl.store(share, tl.where(count > 0, 1.0 / tl.maximum(count, 1.0), 0.0))
        tl.store(worst, tl.max(codes, 0))
        tl.store(finished, 0)


@triton.jit
def class_id_kernel(
    cost, ids, logits, value, gradient, status, mean_value, share, worst, finished, unsolved,
    labels, cost_row, ignore_index,
    epsilon: tl.float64, kl_weight: tl.float64, per_softening: tl.float64, lowest: tl.float64,
    least_mass: tl.float64,
    TILE: tl.constexpr, TABLE: tl.constexpr, SUM: tl.constexpr, TALLY: tl.constexpr,
    SOFT: tl.constexpr,
):  # fmt: skip
    """The loss of one label per example, to which all of `h` goes, and its gradient.

    `epsilon` is the strength of that plan's entropy. If `SOFT`, KL is on softened labels.
    """
    dtype: tl.constexpr = logits.dtype.element_ty
    example = tl.program_id(0).to(tl.int64)
    logits += example * labels
    gradient += example * labels
    strength = tl.full((), epsilon, dtype)
    kl = tl.full((), kl_weight, dtype)
    low = tl.full((), lowest, dtype)
    target = tl.load(ids + example)
    known = (target >= 0) & (target < labels)
    place = tl.where(known, target, 0)
    row = (place if TABLE else example) * cost_row
    column = cost + row
    log_total = log_of_sum(logits, labels, TILE)
    if SOFT:
        rows = tl.full((1,), 0, tl.int64) + row
        whole = tl.full((1,), 1.0, dtype)
        scale = tl.full((), per_softening, dtype) * LOG2_E
        least, log_sum = least_and_log_sum(cost, rows, labels, scale, 1, TILE)

    sum_ = tl.zeros((TILE,), dtype)
    for first in range(0, labels, TILE):
        label = first + tl.arange(0, TILE)
        valid = label < labels
        log_h = tl.maximum(tl.load(logits + label, mask=valid, other=-INF) - log_total, low)
        slope = tl.load(column + label, mask=valid, other=0.0).to(dtype) + strength * log_h
        sum_ += tl.where(valid, tl.exp2(log_h * LOG2_E) * slope, 0.0)
    mean = tl.sum(sum_, 0)
    if SOFT:
        divergence = softened_kl(
            cost, rows, logits, log_total, labels, whole, scale, least, log_sum,
            tl.full((), least_mass, dtype), TILE,
        )  # fmt: skip
    else:
        divergence = log_total - tl.load(logits + place)  # not raised to `low`: it may be large
    loss = mean + tl.where(kl > 0, kl * divergence, 0.0)

    # Where the target's logit is −inf, the loss is +inf, as in `CrossEntropyLoss`.
    finite = (tl.abs(mean) < INF) & (loss > -INF) & (tl.abs(log_total) < INF)
    code = tl.where(known & finite, FINE, INVALID)
    code = tl.where(target == ignore_index, IGNORED, code)
    for first in range(0, labels, TILE):
        label = first + tl.arange(0, TILE)
        valid = label < labels
        log_h = tl.maximum(tl.load(logits + label, mask=valid, other=-INF) - log_total, low)
        slope = tl.load(column + label, mask=valid, other=0.0).to(dtype) + strength * log_h
        if SOFT:
            pull = kl * softened(cost, rows, label, valid, whole, scale, least, log_sum)
        else:
            pull = tl.where(label == place, kl, 0.0)
        found = tl.exp2(log_h * LOG2_E) * (slope - mean + kl) - pull
        found = tl.where(code == FINE, found, tl.where(code == IGNORED, 0.0, float("nan")))
        tl.store(gradient + label, found, mask=valid)
    loss = tl.where(code == FINE, loss, tl.where(code == IGNORED, 0.0, float("nan")))
    tl.store(value + example, loss)
    tl.store(status + example, code)
    if SUM:
        summarize(value, status, mean_value, share, worst, finished)
    if TALLY:
        tl.atomic_add(unsolved, (code > IGNORED).to(tl.int64))


@triton.jit
def sparse_kernel(
    cost, indices, weights, logits, value, gradient, status, mean_value, share, worst, finished,
    unsolved,
    labels, cost_row, cost_example, max_iterations,
    epsilon: tl.float64, tol: tl.float64, kl_weight: tl.float64, per_softening: tl.float64,
    lowest: tl.float64, least: tl.float64, mass_tolerance: tl.float64,
    N: tl.constexpr, S: tl.constexpr, TILE: tl.constexpr, ALIGNED: tl.constexpr,
    UNROLLED: tl.constexpr, TABLE: tl.constexpr, PRODUCT: tl.constexpr, NORMALIZE: tl.constexpr,
    SUM: tl.constexpr, TALLY: tl.constexpr, FIXED: tl.constexpr, SOFT: tl.constexpr,
):  # fmt: skip
    """The loss of a few labels per example, solved as in `newton_kernel`, and its gradient.

    If `FIXED`, exactly `max_iterations` of Algorithm 1 run. If `SOFT`, KL is on softened labels.
    """
    dtype: tl.constexpr = logits.dtype.element_ty
    labels = labels // ALIGNED * ALIGNED
    example = tl.program_id(0).to(tl.int64)
    logits += example * labels
    gradient += example * labels
    last = tl.full((), epsilon, dtype)
    tol = tl.full((), tol, dtype)
    kl = tl.full((), kl_weight, dtype)
    low = tl.full((), lowest, dtype)
    least = tl.full((), least, dtype)
    infinite = tl.full((), INF, dtype)

    slot = tl.arange(0, S)
    inside = tl.where(slot < N, slot, 0)
    label_of = tl.load(indices + example * N + inside).to(tl.int64)
    weight = tl.load(weights + example * N + slot, mask=slot < N, other=0.0)
    used = weight != 0  # true for a NaN
    known = (label_of >= 0) & (label_of < labels)
    sensible = (weight > 0) & (weight < INF) & known
    twice = (label_of[:, None] == label_of[None, :]) & (slot[:, None] < slot[None, :])
    twice = twice & used[:, None] & used[None, :]
    total = tl.sum(weight, 0)
    wrong = tl.max((used & (sensible == 0)).to(tl.int32), 0) + tl.max(
        tl.max(twice.to(tl.int32), 1), 0
    )
    fine = (wrong == 0) & (total > 0)
    if not NORMALIZE:
        fine = fine & (tl.abs(total - 1.0) <= mass_tolerance)
    log_total = log_of_sum(logits, labels, TILE)
    fine = fine & (tl.abs(log_total) < INF)
    label_of = tl.where(known, label_of, 0)
    if TABLE:  # noqa: SIM108
        rows = label_of * cost_row
    else:
        rows = example * cost_example + inside.to(tl.int64) * cost_row
    rows = tl.multiple_of(rows, ALIGNED)

    # The memory of the gradient holds the log of the prediction until the gradient is known.
    log_h = gradient
    for first in range(0, labels, TILE):
        label = first + tl.arange(0, TILE)
        valid = label < labels
        logs = tl.maximum(tl.load(logits + label, mask=valid, other=-INF) - log_total, low)
        tl.store(log_h + label, logs, mask=valid)
    tl.debug_barrier()

    mass_h, largest_cost = survey(cost, rows, log_h, labels, used, TILE)
    log_weight = tl.where(weight > least, tl.log(tl.maximum(weight, least)), low)
    log_y = log_weight + tl.log(mass_h / total)  # balanced masses are equal to the last digit
    log_y = tl.where(used, log_y, -INF)
    log_2_beta = (log_y if PRODUCT else tl.where(used, -1.0, log_y)) * LOG2_E
    if FIXED:
        at, objective, mean = iterate(
            cost, rows, log_h, labels, log_y, mass_h, last, max_iterations, S, TILE, PRODUCT
        )
        violation = tl.full((), 0.0, dtype)
    else:
        at = tl.zeros((S,), dtype)
        stage = tl.maximum(largest_cost.to(dtype) / FIRST_EXPONENT, last)
        at, objective, violation, _, mean, _ = ascend(
            cost, rows, log_h, labels, log_y, mass_h, at, stage, last, infinite, infinite, tol,
            tl.where(fine, max_iterations, 0), N, S, TILE, ALIGNED, UNROLLED, PRODUCT, False, False,
        )  # fmt: skip

    if NORMALIZE:
        weight = weight / total
    if SOFT:
        per = tl.full((), per_softening, dtype) * LOG2_E
        nearest, log_sums = least_and_log_sum(cost, rows, labels, per, S, TILE)
        divergence = softened_kl(
            cost, rows, logits, log_total, labels, weight, per, nearest, log_sums, least, TILE
        )
    else:
        log_h_at = tl.load(logits + label_of, mask=used, other=0.0) - log_total  # not raised
        log_weight = tl.log(tl.maximum(weight, least))
        divergence = tl.sum(tl.where(used, weight * (log_weight - log_h_at), 0.0), 0)
    loss = objective + tl.where(kl > 0, kl * divergence, 0.0)
    fine = fine & (tl.abs(loss) < INF) & (tl.abs(mean) < INF)  # slopes too, not only their sum
    tl.debug_barrier()  # all threads have read what is overwritten now

    scale = 1.0 / last * LOG2_E
    bias = scale * at + log_2_beta
    shift = kl * tl.sum(weight, 0) - mean
    for first in range(0, labels, TILE):
        label = first + tl.arange(0, TILE)
        valid = label < labels
        columns = tl.load(cost + rows[:, None] + label[None, :], mask=valid[None, :], other=0.0)
        exponent = bias[:, None] - scale * columns.to(dtype)  # (S, TILE)
        largest = tl.max(exponent, 0)
        log_sum = largest + tl.log2(tl.sum(tl.exp2(exponent - largest[None, :]), 0))
        logs = tl.load(log_h + label, mask=valid, other=0.0)
        f = at_labels(logs, valid, log_sum, last, 1.0, PRODUCT, False)[0]
        found = tl.exp2(logs * LOG2_E) * (f + shift)
        if SOFT:
            found -= kl * softened(cost, rows, label, valid, weight, per, nearest, log_sums)
        tl.store(gradient + label, tl.where(fine, found, float("nan")), mask=valid)
    if not SOFT:
        tl.debug_barrier()
        found = tl.load(gradient + label_of, mask=used, other=0.0)
        tl.store(gradient + label_of, found - kl * weight, mask=used)

    # If rounding M/ε alone can keep the error above `tol`, this dtype cannot verify convergence.
    ROUNDING: tl.constexpr = 2.0**-24 if dtype == tl.float32 else 2.0**-53
    solved = violation <= tol
    if not FIXED:
        solved = solved & (largest_cost.to(dtype) / last * ROUNDING <= tol)
    code = tl.where(solved, FINE, UNCONVERGED)
    code = tl.where(fine, code, INVALID)
    tl.store(value + example, tl.where(fine, loss, float("nan")))
    tl.store(status + example, code)
    if SUM:
        summarize(value, status, mean_value, share, worst, finished)
    if TALLY:
        tl.atomic_add(unsolved, (code > IGNORED).to(tl.int64))
