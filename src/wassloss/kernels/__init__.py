"""Compiled passes over arrays: Numba on the CPU, Triton on NVIDIA GPUs."""
