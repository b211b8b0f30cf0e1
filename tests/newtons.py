"""`Newton` as each of its translations: the solver itself takes whichever runs."""

from __future__ import annotations

from wassloss.transport import Newton, Solution
from wassloss.transport.newton import gpu, lockstep, native
from wassloss.transport.problem import Problem


class LockstepNewton(Newton):
    """In torch, all examples at once."""

    def solve(self, problem: Problem) -> Solution:
        return lockstep.maximize(problem, self.tolerance(problem), self.max_iterations)


class NativeNewton(Newton):
    """By the compiled core."""

    def solve(self, problem: Problem) -> Solution:
        return native.maximize(problem, self.tolerance(problem), self.max_iterations)


class TritonNewton(Newton):
    """By the Triton kernel, also where it is interpreted on the CPU."""

    def solve(self, problem: Problem) -> Solution:
        return gpu.maximize(problem, self.tolerance(problem), self.max_iterations)
