"""Compiled passes: arrays and numbers in, arrays out.

`numba/` is for the CPU, `triton/` for NVIDIA GPUs; both are optional, and everything here has a
version in torch elsewhere, which is its oracle and what runs without it. `launch.py` says where
each can run. Nothing here imports another part of wassloss.
"""
