"""The shared library of compiled passes, if this installation has one."""

from __future__ import annotations

import ctypes
import sys
from ctypes import POINTER, Structure, c_char_p, c_double, c_int, c_int32, c_int64, c_void_p
from functools import cache
from pathlib import Path

ABI = 2  # WASSLOSS_ABI of wassloss.h, which the structures below match
_SUFFIX = {"win32": ".dll", "darwin": ".dylib"}.get(sys.platform, ".so")
PATH = Path(__file__).with_name(f"_core{_SUFFIX}")


class Settings(Structure):
    """`wassloss_settings`: the settings of a loss, created once per loss."""

    _fields_ = [
        *((name, c_double) for name in ("epsilon", "gamma_h", "gamma_y", "unequal_price")),
        *((name, c_double) for name in ("transport_weight", "kl_weight", "per_softening")),
        *((name, c_double) for name in ("tol", "mass_tolerance")),
        *((name, c_int64) for name in ("max_iterations", "ignore_index")),
        *((name, c_int32) for name in ("product", "fixed", "normalize", "threads")),
    ]


class Batch(Structure):
    """`wassloss_batch`: the arrays of one call."""

    _fields_ = [
        *((name, c_int64) for name in ("examples", "labels", "support")),
        *((name, c_void_p) for name in ("logits", "indices", "weights", "cost")),
        ("tabulated", c_int32),
        *((name, c_void_p) for name in ("value", "gradient", "status")),
        *((name, c_void_p) for name in ("g", "n_iterations", "error")),
        *(("last", c_void_p), ("members", c_void_p), ("places", c_int64)),
        *(("before", c_void_p), ("after", c_void_p), ("on_line", c_int32)),
    ]


@cache
def library() -> ctypes.CDLL | None:
    """The library, loaded once; None if it was not built, or has another ABI."""
    try:
        found = ctypes.CDLL(str(PATH))
        found.wassloss_abi.argtypes, found.wassloss_abi.restype = [], c_int
        if found.wassloss_abi() != ABI:
            return None
    except (OSError, AttributeError):
        return None
    for name in ("class_ids", "sets", "sparse", "maximize"):
        for precision in ("f32", "f64"):
            function = getattr(found, f"wassloss_{name}_{precision}")
            function.argtypes = [POINTER(Settings), POINTER(Batch)]
            function.restype = c_int
    found.wassloss_instructions.argtypes = []
    found.wassloss_instructions.restype = c_char_p
    found.wassloss_constants.argtypes = [c_int, POINTER(c_double)]
    found.wassloss_constants.restype = None
    return found


def available() -> bool:
    """Whether losses can be computed by compiled passes."""
    return library() is not None


def instructions() -> str | None:
    """The instruction set in use, "baseline", "avx2" or "avx512"; None without the core."""
    found = library()
    return None if found is None else found.wassloss_instructions().decode()
