"""Kernels for the CPU, compiled by Numba, which is slow to load: import them inside functions.

Numba's cache on disk watches the file of a function marked `kept_on_disk` and no other: after a
change elsewhere in this folder or in `newton_constants.py`, touch those files.
"""
