"""Sums over the labels for a Newton step on the GPU, and the step itself; see `newton.py`.

Quantities over the target's support have two forms. For a few targets, each has its own variables,
in tuples: nothing is padded, a pair of targets costs one multiply-add per label, and every thread
solves the small system in registers. For more targets, tiles `(S, TILE)` and the tensor cores take
over: they pad, but their code does not grow with the support.

Shapes: `S` is the number `N` of targets rounded up to a power of two; `TILE` labels are processed
at a time. Exponentials and logarithms are to base 2, as in the hardware.
"""

# Triton compiles these functions itself, from a Python without types or unpacking.
# mypy: ignore-errors
# ruff: noqa: RUF005

import math
import os

import triton
import triton.language as tl
from triton.language.extra import libdevice

from wassloss.kernels import newton_constants

LOG2_E = tl.constexpr(math.log2(math.e))
LN_2 = tl.constexpr(math.log(2.0))
NO_LOG_MASS = tl.constexpr(newton_constants.NO_LOG_MASS)
MOST_ELIMINATED = tl.constexpr(32)  # targets; for 64, an H200 takes twice as long as by products
SMALLEST_NORMAL = tl.constexpr(2.0**-126)
LESS_THAN_ONE = tl.constexpr(1 - 2.0**-23)  # a row must not exceed the share that still walks
NEARLY_ENDED = tl.constexpr(1e-2)  # the next step corrects the error of this one
MOST_PRODUCTS = tl.constexpr(40)  # each doubles the walks; in single precision, all have ended
INTERPRETED = tl.constexpr(os.environ.get("TRITON_INTERPRET") == "1")


@triton.jit
def log2(x):
    """The hardware's logarithm, if any; `tl.log2` takes 25 instructions for the last digit."""
    if INTERPRETED or x.dtype != tl.float32:  # noqa: SIM108
        result = tl.log2(x)
    else:
        result = libdevice.fast_log2f(x)
    return result


@triton.jit
def entries(vector, N: tl.constexpr, S: tl.constexpr):
    """The first N entries of a vector `(S,)` as a tuple."""
    slot = tl.arange(0, S)
    found = ()
    for j in tl.static_range(N):
        found = found + (tl.sum(tl.where(slot == j, vector, tl.zeros_like(vector)), 0),)
    return found


@triton.jit
def vector_of(entries, N: tl.constexpr, S: tl.constexpr):
    """A tuple of N numbers as a vector `(S,)`, padded with zeros."""
    slot = tl.arange(0, S)
    vector = tl.zeros((S,), entries[0].dtype)
    for j in tl.static_range(N):
        vector = tl.where(slot == j, entries[j], vector)
    return vector


@triton.jit
def mass_term(mass, asked, potential, gamma, TERMS: tl.constexpr):
    """`γ m (1 − e^{−p/γ})`, where `asked = m e^{−p/γ}`; see `Objective.mass_term`."""
    x = -potential / gamma
    series = 1.0 + x * (1.0 / TERMS)  # of (eˣ − 1)/x, by Horner's rule
    for n in tl.static_range(TERMS - 1, 1, -1):
        series = 1.0 + x * (1.0 / n) * series
    return gamma * tl.where(tl.abs(x) < 0.5, -mass * x * series, mass - asked)


@triton.jit
def at_labels(log_h, valid, log_sum, strength, gamma, PRODUCT: tl.constexpr, RELAXED: tl.constexpr):
    """From `log2 Σ_j exp((g_j − M_ij)/ε + β_j)`: `f`, `T1` and the dual's summand of each label."""
    f = -strength * log_sum * LN_2
    if not PRODUCT:
        f += strength * log_h
    h = tl.exp2(log_h * LOG2_E)
    if RELAXED:
        rows = tl.exp2((log_h - f / gamma) * LOG2_E)
        rows = tl.where(log_h > NO_LOG_MASS, rows, 0.0)
        terms: tl.constexpr = 10 if log_h.dtype == tl.float32 else 16
        summand = mass_term(h, rows, f, gamma, terms)
    else:
        rows, summand = h, h * f
    return tl.where(valid, f, 0.0), tl.where(valid, rows, 0.0), tl.where(valid, summand, 0.0)


@triton.jit
def sums(
    cost, rows, log_h, labels, bias, scale, strength, gamma,
    N: tl.constexpr, S: tl.constexpr, TILE: tl.constexpr, ALIGNED: tl.constexpr,
    UNROLLED: tl.constexpr, PRODUCT: tl.constexpr, RELAXED: tl.constexpr,
):  # fmt: skip
    """One pass over the labels, with `bias = g/ε + β` and `scale = 1/ε` to base 2.

    Returns `Tᵀ1` `(S,)`, the couplings in the form `newton_step` takes, and sums over the labels:
    of `T1`, of the dual's summands, of the sizes that set its rounding error, and of `f`.
    """
    if UNROLLED:
        mass, coupling, over_labels = sums_unrolled(
            cost, entries(rows, N, S), log_h, labels, entries(bias, N, S), scale, strength, gamma,
            N, TILE, ALIGNED, PRODUCT, RELAXED,
        )  # fmt: skip
        mass = vector_of(mass, N, S)
    else:
        mass, coupling, over_labels = sums_tiled(
            cost, rows, log_h, labels, bias, scale, strength, gamma, S, TILE, PRODUCT, RELAXED
        )
    return mass, coupling, over_labels


@triton.jit
def sums_unrolled(
    cost, rows, log_h, labels, bias, scale, strength, gamma,
    N: tl.constexpr, TILE: tl.constexpr, ALIGNED: tl.constexpr,
    PRODUCT: tl.constexpr, RELAXED: tl.constexpr,
):  # fmt: skip
    """`sums` in tuples: `mass` has N numbers, `coupling[j][k − j − 1]` is that of a pair j < k."""
    dtype: tl.constexpr = log_h.dtype.element_ty
    zero = tl.zeros((TILE,), dtype)
    plan_mass, on_labels, size, sum_f = zero, zero, zero, zero
    mass = ()
    coupling = ()
    for j in tl.static_range(N):
        mass = mass + (zero,)
        row = ()
        for _ in tl.static_range(j + 1, N):
            row = row + (tl.zeros((TILE,), tl.float32),)
        coupling = coupling + (row,)

    for first in range(0, labels, TILE):
        label = first + tl.arange(0, TILE)
        valid = label < labels
        exponent = ()
        for j in tl.static_range(N):
            row = rows[j] // ALIGNED * ALIGNED  # tells the compiler to load 16 bytes
            column = tl.load(cost + row + label, mask=valid, other=0.0).to(dtype)
            exponent = exponent + (bias[j] - scale * column,)
        largest = exponent[0]
        for j in tl.static_range(1, N):
            largest = tl.maximum(largest, exponent[j])
        power = ()
        total = tl.zeros((TILE,), dtype)
        for j in tl.static_range(N):
            power = power + (tl.exp2(exponent[j] - largest),)
            total += power[j]

        log_mass = tl.load(log_h + label, mask=valid, other=0.0)
        log_total = log2(total)
        log_sum = largest + log_total
        f, asked, summand = at_labels(log_mass, valid, log_sum, strength, gamma, PRODUCT, RELAXED)
        plan_mass += asked
        on_labels += summand
        size += tl.abs(asked * f)
        sum_f += f
        share = tl.exp2(-log_total)  # cheaper than a division
        weight = asked * share
        new_mass = ()
        new_coupling = ()
        for j in tl.static_range(N):
            plan = weight * power[j]
            new_mass = new_mass + (mass[j] + plan,)
            plan = (plan * share).to(tl.float32)
            row = ()
            for k in tl.static_range(j + 1, N):
                row = row + (coupling[j][k - j - 1] + plan * power[k].to(tl.float32),)
            new_coupling = new_coupling + (row,)
        mass = new_mass
        coupling = new_coupling

    total_mass = ()
    total_coupling = ()
    for j in tl.static_range(N):
        total_mass = total_mass + (tl.sum(mass[j], 0),)
        row = ()
        for k in tl.static_range(j + 1, N):
            row = row + (tl.sum(coupling[j][k - j - 1], 0),)
        total_coupling = total_coupling + (row,)
    sums = (tl.sum(plan_mass, 0), tl.sum(on_labels, 0), tl.sum(size, 0), tl.sum(sum_f, 0))
    return total_mass, total_coupling, sums


@triton.jit
def sums_tiled(
    cost, rows, log_h, labels, bias, scale, strength, gamma,
    S: tl.constexpr, TILE: tl.constexpr, PRODUCT: tl.constexpr, RELAXED: tl.constexpr,
):  # fmt: skip
    """`sums` in tiles: `rows`, `bias` and `mass` are `(S,)`, `coupling` is `(S, S)`."""
    dtype: tl.constexpr = log_h.dtype.element_ty
    zero = tl.zeros((TILE,), dtype)
    plan_mass, on_labels, size, sum_f = zero, zero, zero, zero
    mass = tl.zeros((S, TILE), dtype)
    coupling = tl.zeros((S, S), tl.float32)
    for first in range(0, labels, TILE):
        label = first + tl.arange(0, TILE)
        valid = label < labels
        places = rows[:, None] + label[None, :]  # (S, TILE)
        columns = tl.load(cost + places, mask=valid[None, :], other=0.0).to(dtype)
        exponent = bias[:, None] - scale * columns
        largest = tl.max(exponent, 0)
        power = tl.exp2(exponent - largest[None, :])

        log_mass = tl.load(log_h + label, mask=valid, other=0.0)
        log_total = log2(tl.sum(power, 0))
        log_sum = largest + log_total
        f, asked, summand = at_labels(log_mass, valid, log_sum, strength, gamma, PRODUCT, RELAXED)
        plan_mass += asked
        on_labels += summand
        size += tl.abs(asked * f)
        sum_f += f
        share = tl.exp2(-log_total)  # cheaper than a division
        mass += power * (asked * share)[None, :]
        # W = Qᵀ Q. The ten bits of the tensor cores are enough: the next step corrects this one.
        root = (power * (tl.sqrt(asked) * share)[None, :]).to(tl.float32)
        coupling = tl.dot(root, tl.trans(root), coupling)
    sums = (tl.sum(plan_mass, 0), tl.sum(on_labels, 0), tl.sum(size, 0), tl.sum(sum_f, 0))
    return tl.sum(mass, 1), coupling, sums


@triton.jit
def newton_step(coupling, excess, right, N: tl.constexpr, S: tl.constexpr, UNROLLED: tl.constexpr):
    """Solve `(diag(excess + Σ_k W_jk) − W) x = right`, `(S,)`.

    As the shares of a row sum to one, the Hessian is the Laplacian of a graph whose weights are
    the couplings `W = Pᵀ diag(r) P`, plus a positive diagonal. The elimination of Grassmann,
    Taksar and Heyman (1985) never subtracts: single precision keeps all its digits, and no pivot
    can fail. With many targets the system is solved as a random walk, in fewer steps.
    """
    if UNROLLED:
        x = eliminate_unrolled(coupling, entries(excess, N, S), entries(right, N, S), N)
        x = vector_of(x, N, S)
    elif S <= MOST_ELIMINATED:
        x = eliminate_tiled(coupling, excess, right, N, S)
    else:
        x = random_walk(coupling, excess, right, S)
    return x


@triton.jit
def eliminate_unrolled(coupling, excess, right, N: tl.constexpr):
    """`newton_step` in tuples of numbers."""
    inverse = ()
    for k in tl.static_range(N):
        pivot = excess[k]
        for j in tl.static_range(k + 1, N):
            pivot += coupling[k][j - k - 1]
        inverse = inverse + (1.0 / pivot,)
        new_coupling = ()
        new_excess = ()
        new_right = ()
        for i in tl.static_range(N):
            row = ()
            if i > k:
                factor = coupling[k][i - k - 1] * inverse[k]
                new_excess = new_excess + (excess[i] + factor * excess[k],)
                new_right = new_right + (right[i] + factor * right[k],)
                for j in tl.static_range(i + 1, N):
                    row = row + (coupling[i][j - i - 1] + factor * coupling[k][j - k - 1],)
            else:
                new_excess = new_excess + (excess[i],)
                new_right = new_right + (right[i],)
                row = coupling[i]
            new_coupling = new_coupling + (row,)
        coupling = new_coupling
        excess = new_excess
        right = new_right
    x = ()  # the solution for targets k, k + 1, …
    for k in tl.static_range(N - 1, -1, -1):
        x_k = right[k]
        for n in tl.static_range(N - 1 - k):
            x_k += coupling[k][n] * x[n]
        x = (x_k * inverse[k],) + x
    return x


@triton.jit
def eliminate_tiled(coupling, excess, right, N: tl.constexpr, S: tl.constexpr):
    """`newton_step` in tiles, `coupling` `(S, S)` and the rest `(S,)`: all rows at once.

    Rows above the pivot are eliminated too, which keeps the couplings symmetric, although those
    among such rows are not read again: a row of `W` is then also a column.
    """
    slot = tl.arange(0, S)
    pivots = tl.full((S,), 1.0, tl.float32)
    for k in range(N):
        here = slot == k
        coupled = tl.sum(tl.where(here[:, None], coupling, 0.0), 0)
        coupled = tl.where(here, 0.0, coupled)
        excess_k = tl.sum(tl.where(here, excess, 0.0), 0)
        right_k = tl.sum(tl.where(here, right, 0.0), 0)
        pivot = tl.sum(tl.where(slot > k, coupled, tl.where(here, excess, 0.0)), 0)
        factor = coupled / pivot
        coupling += factor[:, None] * coupled[None, :]
        excess += tl.where(slot > k, factor * excess_k, 0.0)
        right += factor * right_k
        pivots = tl.where(here, pivot, pivots)
    return right / pivots


@triton.jit
def random_walk(coupling, excess, right, S: tl.constexpr):
    """`newton_step` in tiles, `coupling` `(S, S)` and the rest `(S,)`.

    Divided by its diagonal the system is `(I − Q) x = b`: `Q` moves a walker along the graph, and
    what its rows lack of 1 ends the walk. Hence `x = (I + Q)(I + Q²)(I + Q⁴)… b`, until nearly all
    walks have ended: some seven products of matrices on the tensor cores, where elimination has N
    dependent steps. The share of ended walks is summed separately, and the rows of each product
    are scaled to the rest, so that rounding to ten bits does not accumulate.
    """
    slot = tl.arange(0, S)
    moves = tl.where(slot[:, None] == slot[None, :], 0.0, coupling)
    diagonal = excess + tl.sum(moves, 1)
    moves = moves / diagonal[:, None]
    ended = excess / diagonal
    x = right / diagonal
    count = 0
    walking = tl.max(1.0 - ended, 0) > 0.0
    while walking:
        x += tl.sum(moves * x[None, :], 1)
        ended += tl.sum(moves * ended[None, :], 1)
        left = tl.maximum(1.0 - ended, 0.0)
        twice = tl.dot(moves, moves)
        scale = left / tl.maximum(tl.sum(twice, 1), SMALLEST_NORMAL) * LESS_THAN_ONE
        moves = twice * scale[:, None]
        count += 1
        walking = (tl.max(left, 0) > NEARLY_ENDED) & (count < MOST_PRODUCTS)
    return x
