"""Sinkhorn's alternating updates, over-relaxed, each example until it has converged."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from wassloss.transport.entropic import conclude, default_tolerance, initial_potential
from wassloss.transport.kernel_equations import (
    CutTooShortError,
    KernelEquations,
    largest_cost,
    solved_by_products,
)
from wassloss.transport.log_sums import LARGEST_PLAIN_EXPONENT
from wassloss.transport.problem import Problem
from wassloss.transport.solution import Solution
from wassloss.transport.walk import Walk, repeated

# Iterations between looks at the error: few at first, for easy problems are done in twenty. On a
# GPU a look, with its hundred small calls, takes as long as ten iterations.
FIRST_STRIDE = {"cpu": 5, "cuda": 10}
STRIDE, STRIDE_FROM = 20, 40
# Iterations at which a walk with a cut kernel is given up, should it have come to need the rest.
LOOKS = (10, 40, 200, 1000, 4000)
# Iterations after which single precision is given up: noise may be what keeps the error up.
SINGLE_ITERATIONS = 200
# The share of finished examples at which the batch is made smaller. On a GPU the time of a step
# hardly depends on the batch, and new shapes need a new CUDA graph.
WORTH_LEAVING = {"cpu": 0.1, "cuda": 0.5}


@dataclass(frozen=True)
class Sinkhorn:
    """Alternate `f ← f(g)` and `g ← g(f)`, each step lengthened by a factor `1 ≤ ω < 2`.

    Balanced or relaxed, the two updates differ only in the damping of Proposition 4.2. How far to
    lengthen is learned on the way: see `over_relaxation.py`. Every few iterations the error is
    looked at, and the examples within `tol` leave.
    """

    tol: float | None = None
    max_iterations: int = 10_000

    @staticmethod
    def applies(problem: Problem) -> bool:
        return not problem.objective.exact

    def solve(self, problem: Problem, start: Tensor | None = None) -> Solution:
        tol = self.tol if self.tol is not None else default_tolerance(problem.log_h.dtype)
        if problem.log_h.dtype == torch.float64 or problem.log_h.device.type == "mps":
            return self._solve(problem, start, tol, self.max_iterations)
        used: Tensor | int = 0
        if fits_single_precision(problem, tol):
            budget = min(self.max_iterations, SINGLE_ITERATIONS)
            single = self._solve(problem, start, tol, budget)
            if bool(single.converged.all()) or budget == self.max_iterations:
                return single
            start, used = single.g, single.n_iterations
        left = self.max_iterations - int(used.max() if isinstance(used, Tensor) else used)
        double = self._solve(problem.to(torch.float64), start, tol, left)
        return replace(double, n_iterations=double.n_iterations + used).to(problem)

    def _solve(
        self, problem: Problem, start: Tensor | None, tol: float, max_iterations: int
    ) -> Solution:
        """Solve in the problem's own precision."""

        def iterate(equations: KernelEquations) -> Solution:
            return self._iterate(problem, equations, start, tol, max_iterations)

        return solved_by_products(problem, tol, iterate)

    def _iterate(
        self,
        problem: Problem,
        equations: KernelEquations,
        start: Tensor | None,
        tol: float,
        max_iterations: int,
    ) -> Solution:
        result = initial_potential(equations, start)
        n_iterations = torch.full((problem.batch,), max_iterations, device=result.device)
        worth_leaving = WORTH_LEAVING.get(result.device.type, 0.1)

        active = torch.arange(problem.batch, device=result.device)
        finished = torch.zeros_like(active, dtype=torch.bool)
        walk, iteration, gone = Walk(equations, result), 0, 0
        if start is not None:  # which may be good enough as it is
            walk.step(0)
        first_stride = FIRST_STRIDE.get(result.device.type, 5)
        replay = None
        while True:
            done = (walk.error <= tol) & ~finished
            count = int(done.sum())  # the one time the host waits for the device
            if count or iteration == max_iterations:
                running = ~finished  # who has finished keeps the potentials that were enough
                result[active[running]] = walk.g()[running]
                n_iterations[active[done]] = iteration
                finished, gone = finished | done, gone + count
                if gone == len(active) or iteration == max_iterations:
                    break
                if gone >= worth_leaving * len(active):
                    left = ~finished
                    active, finished, walk = active[left], finished[left], walk[left]
                    gone, replay = 0, None
            if equations.cut and iteration in LOOKS and bool((walk.neglected() > tol).any()):
                raise CutTooShortError
            stride = first_stride if iteration < STRIDE_FROM else STRIDE
            stride = min(stride, max_iterations - iteration)
            if stride == STRIDE:
                replay = replay or repeated(walk, STRIDE)
                replay()
            else:
                walk.step(stride)
            iteration += stride
        return conclude(problem, equations, result, n_iterations, tol)


def fits_single_precision(problem: Problem, tol: float) -> bool:
    """Whether single precision has the range and the digits for a problem.

    Potentials are of the size of `max M/ε` in their own unit, and rounding them, their sum and
    the two logarithms of an iteration changes masses by that times the unit roundoff each. Half
    the tolerance is left for what is not rounding. Users may have allowed products of less
    precision still, for networks.
    """
    exponent = float(largest_cost(problem)) / problem.objective.epsilon
    rounding = 4 * torch.finfo(torch.float32).eps / 2 * exponent
    exact_products = torch.get_float32_matmul_precision() == "highest"
    within = exponent <= LARGEST_PLAIN_EXPONENT[torch.float32]
    return exact_products and within and rounding <= tol / 2
