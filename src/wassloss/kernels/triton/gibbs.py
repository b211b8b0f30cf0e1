"""The kernel `exp(−M/ε)` of a table of costs in one pass, for NVIDIA GPUs.

Operations of torch would write exponents and exponentials in double precision, several times as
much memory as the table, and read them again.
"""

# Triton compiles these functions itself, from a Python without types.
# mypy: ignore-errors

import triton
import triton.language as tl

from wassloss.kernels.launch import start_kernel

TILE = 2048  # costs per program


def gibbs_kernel(cost, epsilon, lowest, dtype):
    """`exp(−cost/ε)` in `dtype`, computed in double precision; 0 where the exponent is lower."""
    cost = cost.contiguous()
    kernel = cost.new_empty(cost.shape, dtype=dtype)
    if size := cost.numel():
        programs, strengths = triton.cdiv(size, TILE), (epsilon, lowest)
        start_kernel(exponentials, programs, (cost, kernel), (size,), strengths, {"TILE": TILE})
    return kernel


@triton.jit
def exponentials(cost, kernel, size, epsilon: tl.float64, lowest: tl.float64, TILE: tl.constexpr):
    """The exponentials of one tile of costs."""
    place = tl.program_id(0).to(tl.int64) * TILE + tl.arange(0, TILE)
    inside = place < size
    exponent = -tl.load(cost + place, mask=inside, other=0.0).to(tl.float64) / epsilon
    value = tl.where(exponent < lowest, 0.0, tl.exp(exponent))
    tl.store(kernel + place, value.to(kernel.dtype.element_ty), mask=inside)
