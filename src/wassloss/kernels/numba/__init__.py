"""Kernels for the CPU, compiled by Numba, which is slow to load: import them inside functions."""
