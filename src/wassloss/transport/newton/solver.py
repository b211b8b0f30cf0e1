"""Newton's method on the semi-dual, wherever it runs fastest.

`lockstep.py` documents the method, and advances a whole batch by torch operations on any device.
Two translations solve one example from beginning to end: C++ for the CPU, and a Triton kernel for
NVIDIA GPUs.
"""

from __future__ import annotations

from wassloss.transport.kernel_sums import shares_kernel
from wassloss.transport.newton import gpu, lockstep, native
from wassloss.transport.problem import Problem
from wassloss.transport.solution import Solution
from wassloss.transport.solver import IterativeSolver, SolveOptions

# A Newton step solves a system of the size of the support; beyond this size, many cheap steps win.
# The limit is lower if one kernel serves the batch, because a cheap step is then a matrix product
# (see kernel_sums.py), over all labels if the examples differ in their support.
LARGEST_NEWTON_SUPPORT = 512
LARGEST_TABULATED_NEWTON_SUPPORT = 192
LARGEST_SHARED_NEWTON_SUPPORT = 128


class Newton(IterativeSolver):
    """Second-order steps on the semi-dual: a few tens of them at any `epsilon`.

    Args:
        tol: marginal error to solve to; None for the default of the dtype.
        max_iterations: iterations after which to give up, with a warning.
    """

    @classmethod
    def preferred(cls, problem: Problem, options: SolveOptions) -> bool:
        largest = LARGEST_NEWTON_SUPPORT
        if problem.costs.shared:
            largest = LARGEST_SHARED_NEWTON_SUPPORT
        elif problem.log_y.shape[1] > LARGEST_TABULATED_NEWTON_SUPPORT and shares_kernel(problem):
            largest = LARGEST_TABULATED_NEWTON_SUPPORT
        return problem.log_y.shape[1] <= largest and cls.applies(problem)

    def solve(self, problem: Problem) -> Solution:
        tol = self.tolerance(problem)
        if native.runs(problem):
            return native.maximize(problem, tol, self.max_iterations)
        if gpu.runs(problem):
            return gpu.maximize(problem, tol, self.max_iterations)
        return lockstep.maximize(problem, tol, self.max_iterations)
