"""Kernels for NVIDIA GPUs, compiled by Triton."""
