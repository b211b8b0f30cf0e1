"""Triton kernels for NVIDIA GPUs, and the statuses and constants that all compiled passes share.

Every kernel has a torch version elsewhere, which is its oracle and its fallback. `launch.py`
decides where kernels can run. Nothing here imports another part of wassloss.
"""
