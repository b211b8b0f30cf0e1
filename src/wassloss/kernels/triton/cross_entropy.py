"""Cross-entropy and its gradient in the logits, in their own precision: one program per token.

Torch reads and writes the logits twice each, and in half precision once more to widen them. Here
a row is read from memory once (the second pass finds it in the cache) and its gradient written.
"""

# Triton compiles these functions itself, from a Python without types.
# mypy: ignore-errors

import triton
import triton.language as tl

from wassloss.kernels.triton.newton_passes import LN_2, LOG2_E

LARGEST_TILE = 4096  # words at a time
LOWEST = tl.constexpr(-1e30)  # a finite maximum that every logit exceeds


@triton.jit
def cross_entropy_kernel(
    logits, ids, value, largest, log_rest, gradient, words,
    TILE: tl.constexpr, GRADIENT: tl.constexpr,
):  # fmt: skip
    """Write `log Σ exp(logits) − logits[id]`, the largest logit, and the logarithm's rest."""
    token = tl.program_id(0).to(tl.int64)
    logits += token * words
    own = tl.load(ids + token)
    top = tl.full((), LOWEST, tl.float32)
    total = tl.zeros((TILE,), tl.float32)
    for first in range(0, words, TILE):
        word = first + tl.arange(0, TILE)
        x = tl.load(logits + word, mask=word < words, other=-float("inf")).to(tl.float32)
        larger = tl.maximum(top, tl.max(x, 0))  # may ignore a NaN, but the sum keeps it
        total = total * tl.exp2((top - larger) * LOG2_E) + tl.exp2((x - larger) * LOG2_E)
        top = larger
    rest = tl.log2(tl.sum(total, 0)) * LN_2  # not added to `top`, which may lack the digits
    tl.store(value + token, rest - (tl.load(logits + own).to(tl.float32) - top))
    tl.store(largest + token, top)
    tl.store(log_rest + token, rest)
    if GRADIENT:
        gradient += token * words
        for first in range(0, words, TILE):
            word = first + tl.arange(0, TILE)
            x = tl.load(logits + word, mask=word < words, other=0.0).to(tl.float32)
            found = tl.exp2((x - top - rest) * LOG2_E) - (word == own).to(tl.float32)
            tl.store(gradient + word, found.to(gradient.dtype.element_ty), mask=word < words)
