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
LARGEST_SUPPORT = 64
# Up to this many target labels the code is unrolled over their pairs: up to three times faster, and
# compiled in a second for 5 labels, 3 for 8, 6 for 12, but 18 for 16.
MOST_UNROLLED = 12
# Beyond, in tiles. Labels in a tile, warps, and numbers that a thread loads at once: with few
# examples, and with many. As measured on an H200 with 1000 labels.
TILED = {
    16: ((128, 4, 1), (32, 1, 1)),
    32: ((128, 4, 4), (32, 1, 4)),
    64: ((128, 8, 4), (32, 2, 4)),
}
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
) -> tuple[int, int, int]:
    """Labels in a tile, warps in a program, and the most numbers that a thread loads at once."""
    single = dtype == torch.float32
    many = batch > MOST_EXAMPLES_OF_MANY_WARPS and labels <= MOST_LABELS_OF_A_WARP
    if support > MOST_UNROLLED:
        tile, warps, at_once = TILED[_power_of_two(support)][many]
        return (tile, warps, at_once) if single else (max(16, tile // 2), warps, min(at_once, 2))
    warps = 4
    if single and labels > MOST_LABELS_OF_A_WARP:
        warps = 8 if labels <= MOST_LABELS_OF_EIGHT_WARPS else 16
    elif single and many:
        warps = 1
    # Several labels per thread hide latencies, as long as their sums leave registers for them.
    labels_per_thread = 4 if single and support <= 8 else 1
    return 32 * warps * labels_per_thread, warps, 4 if single else 2


def solver_constants(
    cost: Tensor, strides: tuple[int, ...], support: int, batch: int, dtype: torch.dtype
) -> dict[str, Any]:
    """What kernels that solve are compiled for; the first of the strides is that of the labels."""
    tile, warps, at_once = shape_of_program(batch, strides[0], support, dtype)
    return {
        "N": support,
        "S": _power_of_two(support),  # what tiles have room for
        "TILE": tile,
        "ALIGNED": math.gcd(*strides, at_once, 16 // cost.element_size()),
        "UNROLLED": support <= MOST_UNROLLED,
        "num_warps": warps,
        "num_stages": 1,  # costs come from the cache: loading ahead only takes registers
        "enable_fp_fusion": True,
    }


def _power_of_two(support: int) -> int:
    return max(2, 1 << (support - 1).bit_length())
