"""Kernels for NVIDIA GPUs, compiled by Triton, which is optional: import them inside functions."""
