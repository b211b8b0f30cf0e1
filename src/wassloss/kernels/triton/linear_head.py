"""Sums over the logits of a chunk of tokens, and the gradient written over these logits.

Costs are computed on demand from the ground metric's data for each word: its position on a line,
its vector, or its index in a subset. Tokens and words are split into tiles, a few tiles per
program. Vectors are multiplied on tensor cores.
"""

# Triton compiles these functions itself, from a Python without types.
# mypy: ignore-errors

import triton
import triton.language as tl

from wassloss.kernels.triton.newton_passes import LOG2_E

FEATURES = 32  # of vectors, per product
TILES = 8  # of words, per program of the sums
LOWEST = tl.constexpr(-1e30)  # a finite maximum that every logit exceeds


def tile(kind):
    """Tokens and words per tile, and warps per program."""
    return (64, 128, 4) if kind == "vectors" else (8, 256, 8)


@triton.jit
def cost_tile(
    own, others, own_squares, squares, width, power, per_scale, token, word, known, valid,
    is_target, ROWS: tl.constexpr, COLUMNS: tl.constexpr, KIND: tl.constexpr,
    POWER: tl.constexpr, FEATURES: tl.constexpr, ALIGNED: tl.constexpr, PRECISION: tl.constexpr,
):  # fmt: skip
    """Costs from words to the tokens' targets, `(ROWS, COLUMNS)`."""
    mask = known[:, None] & valid[None, :]
    width = width // ALIGNED * ALIGNED
    row = own + token[:, None] * width
    if KIND == "rows":  # rows of costs over words
        cost = tl.load(row + word[None, :], mask=mask, other=0.0)
    elif KIND == "places":  # rows of costs over indices in a subset
        place = tl.load(others + word, mask=valid, other=0)
        cost = tl.load(row + place[None, :], mask=mask, other=0.0)
        cost = tl.where(is_target, 0.0, cost)
    else:
        if KIND == "vectors":
            product = tl.zeros((ROWS, COLUMNS), tl.float32)
            for first in range(0, width, FEATURES):
                feature = first + tl.arange(0, FEATURES)
                inside = feature < width
                a = tl.load(
                    row + feature[None, :], mask=known[:, None] & inside[None, :], other=0.0
                )
                b = tl.load(
                    others + word[None, :].to(tl.int64) * width + feature[:, None],
                    mask=inside[:, None] & valid[None, :], other=0.0,
                )  # fmt: skip
                product = tl.dot(a, b, product, input_precision=PRECISION)
            here = tl.load(own_squares + token, mask=known, other=0.0)
            there = tl.load(squares + word, mask=valid, other=0.0)
            square = tl.maximum(here[:, None] + there[None, :] - 2.0 * product, 0.0)
            distance = tl.where(is_target, 0.0, tl.sqrt(square)) * per_scale
        else:
            here = tl.load(own + token, mask=known, other=0.0)
            there = tl.load(others + word, mask=valid, other=0.0)
            distance = tl.abs(here[:, None] - there[None, :]) * per_scale
        if POWER == 1:
            cost = distance
        elif POWER == 2:
            cost = distance * distance
        else:
            cost = tl.where(distance > 0, tl.exp2(power * tl.log2(distance)), 0.0)
    return cost


@triton.jit
def capped(x, softcap, CAPPED: tl.constexpr):
    """`softcap · tanh(x / softcap)`."""
    if CAPPED:
        decay = tl.exp2(tl.abs(x) / softcap * -2.0 * LOG2_E)  # at most 1, whatever x
        size = softcap * (1.0 - decay) / (1.0 + decay)
        return tl.where(x < 0, -size, size)
    return x


@triton.jit
def sums_kernel(
    logits, target, found, tokens, words, softcap,
    own, others, own_squares, squares, width, power, per_scale,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, TILES: tl.constexpr, CAPPED: tl.constexpr,
    KIND: tl.constexpr, POWER: tl.constexpr, FEATURES: tl.constexpr, ALIGNED: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Sums over some of the words, for a few tokens."""
    token = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    known = token < tokens
    part = tl.program_id(1)
    top = tl.full((ROWS,), LOWEST, tl.float32)
    total = tl.zeros((ROWS,), tl.float32)
    spread = tl.zeros((ROWS,), tl.float32)
    cost = tl.zeros((ROWS,), tl.float32)
    own_word = tl.load(target + token, mask=known, other=-1)
    begin = part * TILES * COLUMNS
    for first in range(begin, min(begin + TILES * COLUMNS, words), COLUMNS):
        word = first + tl.arange(0, COLUMNS)
        valid = word < words
        place = logits + token[:, None].to(tl.int64) * words + word[None, :]
        mask = known[:, None] & valid[None, :]
        z = capped(tl.load(place, mask=mask, other=0.0).to(tl.float32), softcap, CAPPED)
        z = tl.where(mask, z, -float("inf"))
        is_target = word[None, :] == own_word[:, None]
        costs = cost_tile(
            own, others, own_squares, squares, width, power, per_scale, token, word, known, valid,
            is_target, ROWS, COLUMNS, KIND, POWER, FEATURES, ALIGNED, PRECISION,
        )  # fmt: skip
        larger = tl.maximum(top, tl.max(z, 1))  # may ignore a NaN, but the sum keeps it
        shift = top - larger
        shrink = tl.exp2(shift * LOG2_E)
        gap = z - larger[:, None]
        e = tl.exp2(gap * LOG2_E)
        spread = (spread + shift * total) * shrink + tl.sum(tl.where(e > 0, e * gap, 0.0), 1)
        total = total * shrink + tl.sum(e, 1)
        cost = cost * shrink + tl.sum(e * costs, 1)
        top = larger
    stride = tl.num_programs(1) * tokens
    at = found + part * tokens + token
    tl.store(at, top, mask=known)
    tl.store(at + stride, total, mask=known)
    tl.store(at + 2 * stride, spread, mask=known)
    tl.store(at + 3 * stride, cost, mask=known)


@triton.jit
def gradient_kernel(
    logits, target, terms, tokens, words, softcap, transport, entropy, kl_weight, lowest,
    own, others, own_squares, squares, width, power, per_scale,
    ROWS: tl.constexpr, COLUMNS: tl.constexpr, CAPPED: tl.constexpr,
    KIND: tl.constexpr, POWER: tl.constexpr, FEATURES: tl.constexpr, ALIGNED: tl.constexpr,
    PRECISION: tl.constexpr,
):  # fmt: skip
    """Overwrite one tile of logits by its gradient."""
    token = tl.program_id(0) * ROWS + tl.arange(0, ROWS)
    word = tl.program_id(1) * COLUMNS + tl.arange(0, COLUMNS)
    known, valid = token < tokens, word < words
    mask = known[:, None] & valid[None, :]
    is_target = word[None, :] == tl.load(target + token, mask=known, other=-1)[:, None]
    costs = cost_tile(
        own, others, own_squares, squares, width, power, per_scale, token, word, known, valid,
        is_target, ROWS, COLUMNS, KIND, POWER, FEATURES, ALIGNED, PRECISION,
    )  # fmt: skip
    log_total = tl.load(terms + token, mask=known, other=0.0)
    mean = tl.load(terms + tokens + token, mask=known, other=0.0)
    scale = tl.load(terms + 2 * tokens + token, mask=known, other=0.0)
    place = logits + token[:, None].to(tl.int64) * words + word[None, :]
    z = capped(tl.load(place, mask=mask, other=0.0).to(tl.float32), softcap, CAPPED)
    log_h = z - log_total[:, None]
    slope = transport * costs + entropy * tl.maximum(log_h, lowest)
    pull = tl.where(is_target, kl_weight, 0.0)
    found = tl.exp2(log_h * LOG2_E) * (slope - mean[:, None] + kl_weight) - pull
    if CAPPED:
        found = found * (1.0 - (z / softcap) * (z / softcap))
    found = tl.where(scale[:, None] == 0, 0.0, found * scale[:, None])
    tl.store(place, found.to(logits.dtype.element_ty), mask=mask)
