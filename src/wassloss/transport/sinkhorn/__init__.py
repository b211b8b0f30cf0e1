"""Sinkhorn's algorithm: plain scalings first, then over-relaxed steps in the log domain."""

from wassloss.transport.sinkhorn.solver import Sinkhorn, Symmetric

__all__ = ["Sinkhorn", "Symmetric"]
