"""The mathematics: a problem says what is asked, a solver how, a solution what came out."""

from wassloss.transport.newton import Newton
from wassloss.transport.problem import Problem
from wassloss.transport.sinkhorn import Sinkhorn
from wassloss.transport.solution import ConvergenceWarning, Solution, Status
from wassloss.transport.solver import SolveOptions, Solver

__all__ = [
    "ConvergenceWarning",
    "Newton",
    "Problem",
    "Sinkhorn",
    "Solution",
    "SolveOptions",
    "Solver",
    "Status",
]
