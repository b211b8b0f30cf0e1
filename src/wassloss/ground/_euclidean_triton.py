"""Costs between vectors in one kernel: products, differences where they are near, power, scale."""

# Triton compiles these functions itself, from a Python without types.
# mypy: ignore-errors

import torch
import triton
import triton.language as tl

ROWS, COLUMNS, FEATURES = 64, 128, 16  # of the tiles


def launch(chosen, vectors, power, scale, near):
    """Costs `(n, K)` between `chosen (n, features)` and `vectors (K, features)`."""
    (count, features), labels = chosen.shape, len(vectors)
    costs = vectors.new_empty(count, labels)
    if count:
        grid = (triton.cdiv(labels, COLUMNS), triton.cdiv(count, ROWS))
        with torch.cuda.device_of(vectors):
            costs_kernel[grid](
                chosen, vectors, costs, count, labels, features, near, power, 1 / scale,
                ROWS=ROWS, COLUMNS=COLUMNS, FEATURES=FEATURES,
                POWER=int(power) if power in (0, 1, 2) else -1,
            )  # fmt: skip
    return costs


@triton.jit
def costs_kernel(
    chosen, vectors, costs, count, labels, features, near, power, per_scale,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, FEATURES: tl.constexpr, POWER: tl.constexpr,
):  # fmt: skip
    """One tile of the costs; see `wassloss.ground._euclidean` for the arithmetic."""
    row = tl.program_id(1) * ROWS + tl.arange(0, ROWS)
    column = tl.program_id(0) * COLUMNS + tl.arange(0, COLUMNS)
    some_rows, some_columns = row < count, column < labels
    own = chosen + row[:, None].to(tl.int64) * features
    other = vectors + column[:, None].to(tl.int64) * features
    product = tl.zeros((ROWS, COLUMNS), tl.float32)
    own_square = tl.zeros((ROWS,), tl.float32)
    other_square = tl.zeros((COLUMNS,), tl.float32)
    for first in range(0, features, FEATURES):
        feature = first + tl.arange(0, FEATURES)
        valid = (feature < features)[None, :]
        a = tl.load(own + feature[None, :], mask=some_rows[:, None] & valid, other=0.0)
        b = tl.load(other + feature[None, :], mask=some_columns[:, None] & valid, other=0.0)
        product = tl.dot(a, tl.trans(b), product, input_precision="ieee")
        own_square += tl.sum(a * a, 1)
        other_square += tl.sum(b * b, 1)
    both = own_square[:, None] + other_square[None, :]
    square = both - 2.0 * product
    close = (square < near * both) & some_rows[:, None] & some_columns[None, :]
    if tl.max(tl.max(close.to(tl.int32), 1), 0) > 0:
        total = tl.zeros((ROWS, COLUMNS), tl.float32)
        for feature in range(features):
            a = tl.load(chosen + row.to(tl.int64) * features + feature, mask=some_rows, other=0.0)
            b = tl.load(
                vectors + column.to(tl.int64) * features + feature, mask=some_columns, other=0.0
            )
            difference = a[:, None] - b[None, :]
            total += difference * difference
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
    place = row[:, None].to(tl.int64) * labels + column[None, :]
    tl.store(costs + place, cost, mask=some_rows[:, None] & some_columns[None, :])
