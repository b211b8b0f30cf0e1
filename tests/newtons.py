"""Each implementation of `Newton`; the solver itself chooses the one that applies."""

from __future__ import annotations

from wassloss.transport import Newton, Solution
from wassloss.transport.newton import gpu, lockstep, native
from wassloss.transport.problem import Problem


class LockstepNewton(Newton):
    """In torch, with all examples in lockstep."""

    def solve(self, problem: Problem) -> Solution:
        return lockstep.maximize(problem, self.tolerance(problem), self.max_iterations)


class NativeNewton(Newton):
    """In the compiled core."""

    def solve(self, problem: Problem) -> Solution:
        return native.maximize(problem, self.tolerance(problem), self.max_iterations)


class TritonNewton(Newton):
    """In Triton, also interpreted on the CPU."""

    def solve(self, problem: Problem) -> Solution:
        return gpu.maximize(problem, self.tolerance(problem), self.max_iterations)
