"""Where kernels can run, how they are launched, and the shape of their programs."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import math
from functools import cache, lru_cache
from typing import Any

import torch
from torch import Tensor

# Looked up once, because a tracer cannot follow the lookup.
HAS_TRITON = importlib.util.find_spec("triton") is not None and torch.version.hip is None

# In earlier releases, compiled kernels take different arguments.
RELAUNCHES_FROM = (3, 6)

# The largest support that fits in the registers of one Triton program.
LARGEST_SUPPORT = 64
# Up to this many target labels, the code is unrolled over pairs of them. This is up to three times
# faster, but takes long to compile: 1 s for 5 labels, 3 s for 8, 6 s for 12, and 18 s for 16.
MOST_UNROLLED = 12
# Larger supports use tiles. Labels per tile, warps, and numbers per load of a thread, for few and
# for many examples, tuned on an H200 with 1000 labels.
TILED = {
    16: ((128, 4, 1), (32, 1, 1)),
    32: ((128, 4, 4), (32, 1, 4)),
    64: ((64, 4, 4), (32, 2, 4)),
}
# One warp per example needs no barriers. More warps pay off with many labels, or with so few
# examples that multiprocessors have room for them.
MOST_LABELS_OF_A_WARP, MOST_LABELS_OF_EIGHT_WARPS = 4096, 32768
MOST_EXAMPLES_OF_MANY_WARPS = 256
LARGEST_TILE = 2048  # labels that a program of the closed form holds at a time


def triton_available(device: torch.device) -> bool:
    """Whether kernels can run on a device: they need an NVIDIA GPU and Triton."""
    return HAS_TRITON and device.type == "cuda"


_compiled: dict[tuple[object, ...], tuple[Any, tuple[object, ...]]] = {}
_MOST_COMPILED = 4096  # every new size of a batch adds an entry


def start_kernel(
    kernel: Any,
    programs: int,
    tensors: tuple[Tensor, ...],
    sizes: tuple[int, ...],
    strengths: tuple[float, ...],
    constants: dict[str, Any],
) -> None:
    """Start a Triton kernel whose parameters have this order.

    Triton inspects every argument to find the compiled kernel, which takes longer than most of our
    kernels run. Kernels are specialised on dtypes, alignments and sizes, so these identify the
    compiled kernel that was launched last time.
    """
    device = tensors[0].get_device()
    if device >= 0 and device != torch.cuda.current_device():
        with torch.cuda.device(device):
            start_kernel(kernel, programs, tensors, sizes, strengths, constants)
        return
    dtypes = tuple([x.dtype for x in tensors])
    pointers = [x.data_ptr() for x in tensors]
    aligned = tuple([pointer % 16 == 0 for pointer in pointers])
    key = (id(kernel), device, dtypes, aligned, sizes, *constants.values())
    found = _compiled.get(key)
    if found is not None:
        compiled, rest = found
        compiled[(programs, 1, 1)](*pointers, *sizes, *strengths, *rest)
        return
    arguments = (*tensors, *sizes, *strengths)
    compiled = kernel[(programs,)](*arguments, **constants)
    if compiled is not None and _relaunches():  # None in Triton's interpreter
        if len(_compiled) >= _MOST_COMPILED:
            _compiled.clear()
        rest = tuple(constants[name] for name in kernel.arg_names[len(arguments) :])
        _compiled[key] = compiled, rest


@cache
def _relaunches() -> bool:
    release = importlib.metadata.version("triton").split(".")
    return tuple(int(part) for part in release[:2]) >= RELAUNCHES_FROM


_counters: dict[tuple[int, int], Tensor] = {}  # by device and stream


def finished_programs(x: Tensor) -> Tensor:
    """A counter of a kernel's finished programs, `(1,)` on the device of `x`; 0 between kernels.

    There is one per stream, whose kernels run one after another. A CUDA graph has its own, because
    it may be replayed at the same time as kernels of the stream it was captured on.
    """
    device, stream = x.get_device(), 0
    if device >= 0:
        if torch.cuda.is_current_stream_capturing():
            return x.new_zeros(1, dtype=torch.int32)
        from triton.runtime import driver

        stream = driver.active.get_current_stream(device)
    counter = _counters.get((device, stream))
    if counter is None:
        counter = _counters[device, stream] = x.new_zeros(1, dtype=torch.int32)
    return counter


def shape_of_program(
    batch: int, labels: int, support: int, dtype: torch.dtype
) -> tuple[int, int, int]:
    """Labels per tile, warps per program, and the most numbers that a thread loads at once."""
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
    # Several labels per thread hide latencies, if their sums leave enough registers.
    labels_per_thread = 4 if single and support <= 8 else 1
    return 32 * warps * labels_per_thread, warps, 4 if single else 2


def solver_constants(
    cost: Tensor, strides: tuple[int, ...], support: int, batch: int, dtype: torch.dtype
) -> dict[str, Any]:
    """The compile-time constants of solver kernels; `strides[0]` is the number of labels."""
    return _solver_constants(cost.element_size(), strides, support, batch, dtype)


@lru_cache(_MOST_COMPILED)
def _solver_constants(
    bytes_per_cost: int, strides: tuple[int, ...], support: int, batch: int, dtype: torch.dtype
) -> dict[str, Any]:
    tile, warps, at_once = shape_of_program(batch, strides[0], support, dtype)
    return {
        "N": support,
        "S": _power_of_two(support),  # the size of tiles along the support
        "TILE": tile,
        "ALIGNED": math.gcd(*strides, at_once, 16 // bytes_per_cost),
        "UNROLLED": support <= MOST_UNROLLED,
        "num_warps": warps,
        "num_stages": 1,  # costs are in the cache: prefetching only takes registers
        "enable_fp_fusion": True,
    }


def _power_of_two(support: int) -> int:
    return max(2, 1 << (support - 1).bit_length())
