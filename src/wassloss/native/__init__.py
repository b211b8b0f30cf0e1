"""The compiled core: passes over a batch on a CPU, written in C++ and called through ctypes."""

from wassloss.native.calls import class_ids, maximize, sets, settings, sparse, strips
from wassloss.native.library import Settings, available, instructions

__all__ = [
    "Settings",
    "available",
    "class_ids",
    "instructions",
    "maximize",
    "sets",
    "settings",
    "sparse",
    "strips",
]
