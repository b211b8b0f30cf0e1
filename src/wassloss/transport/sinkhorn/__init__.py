"""Sinkhorn's algorithm: plain scalings first, then over-relaxed steps in the log domain."""

from wassloss.transport.sinkhorn.solver import Sinkhorn
from wassloss.transport.sinkhorn.symmetric import Symmetric

__all__ = ["Sinkhorn", "Symmetric"]
