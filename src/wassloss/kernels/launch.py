"""Where compiled kernels can run, and how their programs are shaped."""

from __future__ import annotations

import importlib.util
import math
from typing import Any

import torch
from torch import Tensor

# Looked up once, because a tracer cannot follow the lookup.
HAS_NUMBA = importlib.util.find_spec("numba") is not None
HAS_TRITON = importlib.util.find_spec("triton") is not None and torch.version.hip is None

# How many costs make one more thread worth its 0.1 ms of coming and going: in a solve, and in a
# closed form, which takes a nanosecond per cost.
WORTH_SOLVING = 2**14
WORTH_PASSING = 2**19

# The largest support that fits in the registers of one Triton program.
LARGEST_SUPPORT = 32
# Up to this many target labels the code is unrolled over their pairs: up to three times faster, and
# compiled in a second for 5 labels, 3 for 8, 6 for 12, but 18 for 16.
MOST_UNROLLED = 12
# One warp per example needs no barriers. More are worth theirs where there are many labels, or so
# few examples that multiprocessors have room for them.
MOST_LABELS_OF_A_WARP, MOST_LABELS_OF_EIGHT_WARPS = 4096, 32768
MOST_EXAMPLES_OF_MANY_WARPS = 256
LARGEST_TILE = 2048  # labels that a program of the closed form holds at a time


def triton_available(device: torch.device) -> bool:
    """Whether kernels can run on a device: they need an NVIDIA GPU and Triton."""
    return HAS_TRITON and device.type == "cuda"


def as_array(x: Tensor) -> Any:
    """The same numbers as a NumPy array, in the same memory if they are contiguous there."""
    return x.detach().contiguous().numpy()


def shape_of_program(
    batch: int, labels: int, support: int, dtype: torch.dtype
) -> tuple[int, int, bool]:
    """Labels in a tile, warps in a program, and whether its code is unrolled over the support."""
    single = dtype == torch.float32
    if support > MOST_UNROLLED:
        return 64 if single else 32, 2, False
    warps = 4
    if single and labels > MOST_LABELS_OF_A_WARP:
        warps = 8 if labels <= MOST_LABELS_OF_EIGHT_WARPS else 16
    elif single and batch > MOST_EXAMPLES_OF_MANY_WARPS:
        warps = 1
    # Several labels per thread hide latencies, as long as their sums leave registers for them.
    labels_per_thread = 4 if single and support <= 8 else 1
    return 32 * warps * labels_per_thread, warps, True


def solver_constants(
    cost: Tensor, strides: tuple[int, ...], support: int, batch: int, dtype: torch.dtype
) -> dict[str, Any]:
    """What kernels that solve are compiled for; the first of the strides is that of the labels."""
    tile, warps, unrolled = shape_of_program(batch, strides[0], support, dtype)
    return {
        "N": support,
        "S": max(2, 1 << (support - 1).bit_length()),  # tiles have room for a power of two
        "TILE": tile,
        "ALIGNED": math.gcd(*strides, 16 // cost.element_size()),  # numbers loaded at once
        "UNROLLED": unrolled,
        "num_warps": warps,
        "enable_fp_fusion": True,
    }
