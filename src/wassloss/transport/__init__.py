"""The mathematics: a problem says what is asked, a solver how, a solution what came out."""

from wassloss.transport.algorithm_one import AlgorithmOne
from wassloss.transport.line import LineArea, LineQuantiles
from wassloss.transport.nearest import Nearest
from wassloss.transport.nearest_cpu import NearestCPU
from wassloss.transport.network_simplex import NetworkSimplex
from wassloss.transport.newton import Newton
from wassloss.transport.newton_cpu import NewtonCPU
from wassloss.transport.newton_gpu import NewtonGPU
from wassloss.transport.objective import Objective, Regularizer
from wassloss.transport.one_hot import OneHot
from wassloss.transport.problem import Problem
from wassloss.transport.sinkhorn import Sinkhorn
from wassloss.transport.solution import ConvergenceWarning, Solution, Status
from wassloss.transport.solve import Solver, choose_solver, solve_problem
from wassloss.transport.symmetric import Symmetric
from wassloss.transport.tree import TreeFlow
from wassloss.transport.zero_one import ZeroOne

__all__ = [
    "AlgorithmOne",
    "ConvergenceWarning",
    "LineArea",
    "LineQuantiles",
    "Nearest",
    "NearestCPU",
    "NetworkSimplex",
    "Newton",
    "NewtonCPU",
    "NewtonGPU",
    "Objective",
    "OneHot",
    "Problem",
    "Regularizer",
    "Sinkhorn",
    "Solution",
    "Solver",
    "Status",
    "Symmetric",
    "TreeFlow",
    "ZeroOne",
    "choose_solver",
    "solve_problem",
]
