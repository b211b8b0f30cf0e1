"""Triton's kernels for NVIDIA GPUs, and what the compiled passes of all devices have in common.

Everything here has a version in torch elsewhere, which is its oracle and what runs without it.
`launch.py` says where kernels can run. Nothing here imports another part of wassloss.
"""
