"""The mathematics: a problem says what is asked, a solver how, a solution what came out."""

from wassloss.transport.algorithm_one import AlgorithmOne
from wassloss.transport.closed_forms.line import LineArea, LineQuantiles
from wassloss.transport.closed_forms.nearest import Nearest
from wassloss.transport.closed_forms.nearest_cpu import NearestCPU
from wassloss.transport.closed_forms.one_hot import OneHot
from wassloss.transport.closed_forms.tree import TreeFlow
from wassloss.transport.closed_forms.zero_one import ZeroOne
from wassloss.transport.dispatch import Solver, choose_solver, solve_problem
from wassloss.transport.network_simplex import NetworkSimplex
from wassloss.transport.newton.cpu import NewtonCPU
from wassloss.transport.newton.gpu import NewtonGPU
from wassloss.transport.newton.solver import Newton
from wassloss.transport.objective import Objective, Regularizer
from wassloss.transport.problem import Problem
from wassloss.transport.sinkhorn.solver import Sinkhorn
from wassloss.transport.sinkhorn.symmetric import Symmetric
from wassloss.transport.solution import ConvergenceWarning, Solution, Status

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
