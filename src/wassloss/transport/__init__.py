"""The mathematics: a problem says what is asked, a solver how, a solution what came out."""

from wassloss.transport.algorithm_one import AlgorithmOne
from wassloss.transport.dispatch import choose_solver, solve_problem
from wassloss.transport.network_simplex import NetworkSimplex
from wassloss.transport.newton import Newton
from wassloss.transport.objective import Objective, Regularizer
from wassloss.transport.options import SolveOptions
from wassloss.transport.problem import Problem
from wassloss.transport.sinkhorn import Sinkhorn
from wassloss.transport.solution import ConvergenceWarning, Solution, Status
from wassloss.transport.solver import Solver

__all__ = [
    "AlgorithmOne",
    "ConvergenceWarning",
    "NetworkSimplex",
    "Newton",
    "Objective",
    "Problem",
    "Regularizer",
    "Sinkhorn",
    "Solution",
    "SolveOptions",
    "Solver",
    "Status",
    "choose_solver",
    "solve_problem",
]
