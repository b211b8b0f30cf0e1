"""Newton's method on the semi-dual: in torch, and compiled for the CPU and for NVIDIA GPUs."""

from wassloss.transport.newton.solver import Newton

__all__ = ["Newton"]
