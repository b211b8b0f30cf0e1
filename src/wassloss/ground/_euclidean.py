"""Distances between a few vectors and many, by matrix products that lose no digits.

`|a − b|² = |a|² + |b|² − 2ab` turns the work into a product, which hardware does tens to hundreds
of times faster than differences. But what is left after the cancellation is only as exact as the
squares it came from: near vectors come out wrong, and equal ones apart. So the product is taken in
double precision (single is enough for single-precision costs on a GPU), and where the distance is a
small part of the vectors' length it is computed again from their difference.
"""

from __future__ import annotations

import torch
from torch import Tensor

from wassloss import _checks
from wassloss.kernels.launch import HAS_TRITON

# Of |a|² + |b|². Above it at most ten of the squares' roundings are left in the distance.
NEAR, NEAR_IN_SINGLE = 1e-3, 0.05
LARGEST_BLOCK = 2**22  # distances computed at once
# Fewer multiplications than that are done sooner by differences than in several steps.
WORTH_A_PRODUCT = 2**20


def by_differences(chosen: Tensor, vectors: Tensor) -> Tensor:
    """The plain way, differentiable; `chosen (n, features)`, `vectors (K, features)`."""
    return torch.cdist(chosen, vectors, compute_mode="donot_use_mm_for_euclid_dist")


def distances(chosen: Tensor, vectors: Tensor) -> Tensor:
    """Euclidean distances `(n, K)`, without gradient."""
    size = len(chosen) * vectors.numel()
    known = vectors.device.type in ("cpu", "cuda")
    if size < WORTH_A_PRODUCT or not known or not _checks.can_read_values():
        return by_differences(chosen, vectors)  # no looking at how many pairs are near
    # Mixed precision is for networks: a product in half precision would cancel to nothing.
    with torch.autocast(vectors.device.type, enabled=False):
        squares = vectors.double().square().sum(1)
        wide = vectors.double().T
        found = vectors.new_empty(len(chosen), len(vectors))
        step = max(1, LARGEST_BLOCK // len(vectors))
        for first in range(0, len(chosen), step):
            part = chosen[first : first + step]
            found[first : first + step] = _by_product(part, vectors, wide, squares)
    return found


def _by_product(chosen: Tensor, vectors: Tensor, wide: Tensor, squares: Tensor) -> Tensor:
    own = chosen.double()
    both = own.square().sum(1, keepdim=True) + squares  # (n, K)
    square = torch.addmm(both, own, wide, alpha=-2)
    rows, columns = (square < NEAR * both).nonzero(as_tuple=True)
    found = square.clamp_(min=0).sqrt_()
    found[rows, columns] = (own[rows] - vectors[columns].double()).norm(dim=1)
    return found


def fused_costs(chosen: Tensor, vectors: Tensor, power: float, scale: float) -> Tensor | None:
    """Costs `(n, K)` from one product and one kernel on an NVIDIA GPU; None where there is none."""
    if not (HAS_TRITON and vectors.is_cuda and vectors.dtype == torch.float32):
        return None
    if torch.compiler.is_compiling():
        return None
    from wassloss.kernels.triton.euclidean import launch

    with torch.autocast("cuda", enabled=False):
        # Users may have allowed products of fewer digits, which would leave none after cancelling.
        exact = torch.get_float32_matmul_precision() == "highest"
        wide = (lambda x: x) if exact else torch.Tensor.double
        costs = (wide(chosen) @ wide(vectors).T).float()
    launch(costs, chosen.contiguous(), vectors.contiguous(), power, scale, NEAR_IN_SINGLE)
    return costs
