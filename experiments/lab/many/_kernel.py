"""Steps of small linear models in compiled code: one model after the other, each in the cache.

Every inner loop runs along the batch, which is contiguous in memory and longer than the number of
labels: it compiles to vector instructions, and a maximum or sum over labels needs no reduction
within a vector. Each loop uses few arrays, because a compiler that cannot rule out overlap checks
all pairs first, and gives up if there are many. Numba's arrays are not passed from loop to loop,
because counting their references costs more than processing a row.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numba import njit
from numpy.typing import NDArray

Reals = NDArray[np.float32]
Indices = NDArray[np.int64]
F = TypeVar("F", bound=Callable[..., Any])

LOWEST = np.float32(-87.0)  # clamp for `exp`, which handles only normal numbers


def compiled(function: F) -> F:
    """Compile inline into callers; a product and a sum may be fused."""
    made: F = njit(function, error_model="numpy", nogil=True, fastmath={"contract"},
                   forceinline=True)  # fmt: skip
    return made


def summing(function: F) -> F:
    """Compile a function whose sums may be reordered, as vectorisation requires."""
    fast = {"contract", "reassoc", "nsz", "arcp"}
    made: F = njit(function, error_model="numpy", nogil=True, fastmath=fast, forceinline=True)
    return made


def kept_on_disk(function: F) -> F:
    """Compile once; later processes load the result from disk."""
    made: F = njit(function, error_model="numpy", nogil=True, fastmath={"contract"}, cache=True)
    return made


LOG2_E, MAGIC, BIAS = np.float32(1 / math.log(2)), np.float32(1.5 * 2.0**23), np.int32(127)
LN2_HIGH, LN2_LOW = np.float32(0.693359375), np.float32(-2.12194440e-4)
TERMS = tuple(
    np.float32(term)
    for term in (0.0013926183587713494, 0.008363179052722578, 0.041666554617204574,
                 0.16666576989698775, 0.5)
)  # fmt: skip


@compiled
def exp(x: Any) -> Any:
    """`e^x = 2^n e^r` with a polynomial for `e^r`, because the C library's function is scalar."""
    t = x * LOG2_E + MAGIC  # adding MAGIC rounds to an integer, left in the lowest bits
    n = t - MAGIC
    r = (x - n * LN2_HIGH) - n * LN2_LOW
    q = TERMS[0]
    for term in TERMS[1:]:
        q = q * r + term
    power = np.int32((np.float32(t).view(np.int32) + BIAS) << np.int32(23)).view(np.float32)
    return (q * r * r + r) * power + power


class Task(NamedTuple):
    """What the models are trained on; see `LinearSteps`."""

    momentum: float
    features: Reals  # (sets, examples, inputs)
    ids: Indices  # (sets, examples)
    cost: Reals  # (tables, labels, labels): row κ has the costs to label κ
    features_of: Indices  # (models,), like the next two
    ids_of: Indices
    cost_of: Indices
    epsilon: Reals  # (models,)
    kl_weight: Reals  # (models,)
    rates: Reals  # (models,)
    decay: Reals  # (models, inputs)


class Scratch(NamedTuple):
    """Memory of one thread for a batch, with labels before examples."""

    x: Reals  # (inputs, batch)
    label: Indices  # (batch,)
    mass: Reals  # (labels, batch): logits, then masses up to their sum
    slope: Reals  # (labels, batch): of the loss in the masses, then in the logits
    top: Reals  # (batch,): the largest logit
    total: Reals  # (batch,): the sum of the masses, then its inverse
    mean: Reals  # (batch,): mean of the slopes, weighted by the masses
    gradient: Reals  # (inputs, labels)


def new_scratch(inputs: int, labels: int, batch: int) -> Scratch:
    def zeros(*shape: int) -> Reals:
        return np.zeros(shape, np.float32)

    return Scratch(
        zeros(inputs, batch),
        np.zeros(batch, np.int64),
        zeros(labels, batch),
        zeros(labels, batch),
        zeros(batch),
        zeros(batch),
        zeros(batch),
        zeros(inputs, labels),
    )


@compiled
def gather(features: Reals, ids: Indices, rows: Indices, x: Reals, label: Indices) -> None:
    for b in range(rows.size):
        row = features[rows[b]]
        label[b] = ids[rows[b]]
        for d in range(row.size):
            x[d, b] = row[d]


@compiled
def write_logits(theta: Reals, x: Reals, logits: Reals, top: Reals) -> None:
    """Write `θᵀx`, and the largest logit of each example."""
    top[:] = top.dtype.type(-math.inf)
    for k in range(logits.shape[0]):
        row, weight, input_ = logits[k], theta[0, k], x[0]
        for b in range(row.size):
            row[b] = weight * input_[b]
        for d in range(1, x.shape[0]):
            weight, input_ = theta[d, k], x[d]
            for b in range(row.size):
                row[b] += weight * input_[b]
        for b in range(row.size):
            v, t = row[b], top[b]
            top[b] = t if t > v else v


@compiled
def write_costs(cost: Reals, label: Indices, slope: Reals) -> None:
    for b in range(label.size):
        row = cost[label[b]]
        for k in range(row.size):
            slope[k, b] = row[k]


@compiled
def add_entropy(epsilon: float, logits: Reals, top: Reals, slope: Reals) -> None:
    """Add `ε log h` up to a constant per example, which the softmax cancels."""
    strength = slope.dtype.type(epsilon)
    for k in range(slope.shape[0]):
        row, out = logits[k], slope[k]
        for b in range(top.size):
            out[b] += strength * (row[b] - top[b])


@compiled
def exponentiate(logits: Reals, top: Reals, total: Reals) -> None:
    total[:] = total.dtype.type(0)
    for k in range(logits.shape[0]):
        row = logits[k]
        for b in range(top.size):
            v = row[b] - top[b]
            e = exp(LOWEST if v < LOWEST else v)
            row[b] = e
            total[b] += e


@compiled
def write_mean(mass: Reals, slope: Reals, mean: Reals) -> None:
    mean[:] = mean.dtype.type(0)
    for k in range(mass.shape[0]):
        row, slopes = mass[k], slope[k]
        for b in range(mean.size):
            mean[b] += row[b] * slopes[b]


@compiled
def through_softmax(mass: Reals, share: Reals, shift: Reals, slope: Reals) -> None:
    """Turn the slope in `h = share · mass` into the gradient of the logits, in place."""
    for k in range(mass.shape[0]):
        row, out = mass[k], slope[k]
        for b in range(share.size):
            out[b] = share[b] * row[b] * (out[b] + shift[b])


@summing
def write_gradient(x: Reals, slope: Reals, gradient: Reals) -> None:
    for d in range(x.shape[0]):
        input_ = x[d]
        for k in range(slope.shape[0]):
            row, total = slope[k], x.dtype.type(0)
            for b in range(row.size):
                total += input_[b] * row[b]
            gradient[d, k] = total


@compiled
def loss_of_batch(
    theta: Reals, cost: Reals, epsilon: float, kl_weight: float, scratch: Scratch
) -> float:
    """Return the sum of the batch's losses, and write its gradient to `scratch.gradient`."""
    x, label, mass, slope, top, total, mean, gradient = scratch
    one, kl, value = theta.dtype.type(1), theta.dtype.type(kl_weight), 0.0
    write_logits(theta, x, mass, top)
    for b in range(label.size):
        value -= kl_weight * (mass[label[b], b] - top[b])
    write_costs(cost, label, slope)
    if epsilon != 0:
        add_entropy(epsilon, mass, top, slope)
    exponentiate(mass, top, total)
    write_mean(mass, slope, mean)
    for b in range(label.size):
        share = one / total[b]
        average = mean[b] * share
        value += average + (kl_weight - epsilon) * math.log(total[b])
        total[b], mean[b] = share, kl - average
    through_softmax(mass, total, mean, slope)
    for b in range(label.size):
        slope[label[b], b] -= kl
    write_gradient(x, slope, gradient)
    return value


@compiled
def update(
    theta: Reals, velocity: Reals, gradient: Reals, decay_: Reals, share: float, lr: float,
    momentum_: float,
) -> None:  # fmt: skip
    """One step of SGD with momentum, as in torch; `decay_ (inputs,)` is that of the model."""
    real = theta.dtype.type
    share_, lr_, momentum = real(share), real(lr), real(momentum_)
    for d in range(theta.shape[0]):
        weights, moving, slopes, decay = theta[d], velocity[d], gradient[d], decay_[d]
        for k in range(weights.size):
            v = momentum * moving[k] + (slopes[k] * share_ + decay * weights[k])
            moving[k] = v
            weights[k] -= lr_ * v


@kept_on_disk
def advance_models(
    start: int, stop: int, task: Task, rows: Indices, order_of: Indices, scratch: Scratch,
    theta: Reals, velocity: Reals, bad: Indices,
) -> None:  # fmt: skip
    """Advance models `start` to `stop − 1` on examples `rows (orders, steps, batch)`.

    `bad` becomes the step, from 0, whose loss was not finite: the model stops before it.
    """
    steps, batch = rows.shape[1], rows.shape[2]
    for r in range(start, stop):
        features, ids = task.features[task.features_of[r]], task.ids[task.ids_of[r]]
        cost, epsilon, kl_weight = task.cost[task.cost_of[r]], task.epsilon[r], task.kl_weight[r]
        order, weights, moving = rows[order_of[r]], theta[r], velocity[r]
        for t in range(steps):
            gather(features, ids, order[t], scratch.x, scratch.label)
            loss = loss_of_batch(weights, cost, epsilon, kl_weight, scratch) / batch
            if not abs(loss) < math.inf:
                bad[r] = t
                break
            update(
                weights, moving, scratch.gradient, task.decay[r], 1 / batch, task.rates[r],
                task.momentum,
            )  # fmt: skip
