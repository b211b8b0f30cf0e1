"""Costs from products of vectors, in one kernel; near vectors are subtracted instead."""

# Triton compiles these functions itself, from a Python without types.
# mypy: ignore-errors

import torch
import triton
import triton.language as tl

TILE = 1024  # products that a program turns into costs


def launch(products, chosen, vectors, power, scale, near):
    """Turn `products (n, K)` of `chosen (n, features)` and `vectors (K, features)` into costs."""
    (count, labels), features = products.shape, vectors.shape[1]
    if not count:
        return
    own, other = chosen.square().sum(1), vectors.square().sum(1)
    with torch.cuda.device_of(vectors):
        # The number of rows may exceed the limit of a grid's second dimension, but not its first.
        costs_kernel[(count, triton.cdiv(labels, TILE))](
            products, chosen, vectors, own, other, labels, features, near, power, 1 / scale,
            TILE=TILE, POWER=int(power) if power in (0, 1, 2) else -1,
        )  # fmt: skip


@triton.jit
def costs_kernel(
    products, chosen, vectors, own, other, labels, features, near, power, per_scale,
    TILE: tl.constexpr, POWER: tl.constexpr,
):  # fmt: skip
    """Some costs of one row; see `wassloss.ground.embedding` for the arithmetic."""
    row = tl.program_id(0).to(tl.int64)
    column = tl.program_id(1) * TILE + tl.arange(0, TILE)
    valid = column < labels
    place = products + row * labels + column
    both = tl.load(own + row) + tl.load(other + column, mask=valid, other=0.0)
    square = both - 2.0 * tl.load(place, mask=valid, other=0.0)
    close = (square < near * both) & valid
    if tl.max(close.to(tl.int32), 0) > 0:
        total = tl.zeros((TILE,), tl.float32)
        for feature in range(features):
            a = tl.load(chosen + row * features + feature)
            b = tl.load(vectors + column.to(tl.int64) * features + feature, mask=close, other=0.0)
            total += (a - b) * (a - b)
        square = tl.where(close, total, square)
    square = tl.maximum(square, 0.0)
    if POWER == 0:
        cost = tl.where(square > 0.0, 1.0, 0.0)
    elif POWER == 1:
        cost = tl.sqrt(square) * per_scale
    elif POWER == 2:
        cost = square * (per_scale * per_scale)
    else:
        cost = tl.exp2(power * tl.log2(tl.sqrt(square) * per_scale))  # log2(0) = -inf: cost 0
    tl.store(place, cost, mask=valid)
