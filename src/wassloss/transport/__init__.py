"""Optimal transport: problems, their solvers and their solutions."""

from wassloss.transport.newton import Newton
from wassloss.transport.sinkhorn import Sinkhorn
from wassloss.transport.solution import ConvergenceWarning, Solution, Status

__all__ = ["ConvergenceWarning", "Newton", "Sinkhorn", "Solution", "Status"]


def __dir__() -> list[str]:
    return __all__
