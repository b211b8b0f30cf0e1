"""Sinkhorn's alternating updates, over-relaxed, each example until it has converged."""

from __future__ import annotations

from dataclasses import dataclass, replace

import torch
from torch import Tensor

from wassloss.transport.conditions import conclude, initial_potential
from wassloss.transport.kernel_conditions import KernelConditions
from wassloss.transport.precision import can_widen, products_fit_single
from wassloss.transport.problem import Problem
from wassloss.transport.sinkhorn.converged import ConvergedExamples
from wassloss.transport.sinkhorn.log_domain import LogIterations, repeated
from wassloss.transport.sinkhorn.products import (
    CutTooShortError,
    ProductSolver,
    solved_by_products,
)
from wassloss.transport.sinkhorn.scaling import ScalingIterations
from wassloss.transport.solution import Solution, Status

STRIDE = 20  # iterations between looks at the error

# Iterations at which a solve with a cut kernel is given up if it has come to need the rest.
LOOKS = (10, 40, 200, 1000, 4000)
# Iterations after which single precision is given up: noise may be what keeps the error up.
SINGLE_ITERATIONS = 200


@dataclass(frozen=True)
class Pace:
    """How to go about a solve on one kind of device.

    Attributes:
        first_stride: iterations between looks at first, because easy problems take twenty.
        stride_from: the iteration from which the stride is `STRIDE`.
        opening: the iteration at which plain steps give way to longer ones, at the latest.
        worth_leaving: the share of finished examples at which the batch is made smaller.
    """

    first_stride: int
    stride_from: int
    opening: int
    worth_leaving: float


# On a GPU, looking at the error waits for the device, which takes as long as some iterations.
# Over-relaxed steps run there as a CUDA graph, and capturing it takes as long as a hundred plain
# steps. The time of a step hardly depends on the batch.
PACE = {
    "cpu": Pace(first_stride=5, stride_from=40, opening=25, worth_leaving=0.1),
    "cuda": Pace(first_stride=10, stride_from=60, opening=60, worth_leaving=0.5),
}


@dataclass(frozen=True)
class Sinkhorn(ProductSolver):
    """Alternate `f ← f(g)` and `g ← g(f)`, each step lengthened by a factor `1 ≤ ω < 2`.

    Balanced or relaxed, the two updates differ only in the damping of Proposition 4.2. How far to
    lengthen is learned on the way: see `relaxation.py`. Every few iterations the error is checked,
    and the examples within `tol` leave.
    """

    def solve(self, problem: Problem, start: Tensor | None = None) -> Solution:
        tol = self.tolerance(problem)
        if not can_widen(problem.log_h):
            return self._solve(problem, start, tol, self.max_iterations)
        used: Tensor | int = 0
        if products_fit_single(problem.reach(), problem.objective.epsilon, tol):
            budget = min(self.max_iterations, SINGLE_ITERATIONS)
            single = self._solve(problem, start, tol, budget)
            if single.status is Status.CONVERGED or budget == self.max_iterations:
                return single
            start, used = single.g, single.n_iterations
        left = self.max_iterations - int(used.max() if isinstance(used, Tensor) else used)
        double = self._solve(problem.to(torch.float64), start, tol, left)
        return replace(double, n_iterations=double.n_iterations + used).to(problem)

    def _solve(
        self, problem: Problem, start: Tensor | None, tol: float, max_iterations: int
    ) -> Solution:
        """Solve in the problem's own precision."""

        def iterate(conditions: KernelConditions) -> Solution:
            return self._iterate(problem, conditions, start, tol, max_iterations)

        return solved_by_products(problem, tol, iterate)

    def _iterate(
        self,
        problem: Problem,
        conditions: KernelConditions,
        start: Tensor | None,
        tol: float,
        max_iterations: int,
    ) -> Solution:
        g = initial_potential(conditions, start)
        pace, found = PACE.get(g.device.type, PACE["cpu"]), ConvergedExamples(g)
        iteration, replay = 0, None
        steps: ScalingIterations | LogIterations | None = ScalingIterations.of(conditions, g)
        steps = steps or LogIterations(conditions, g)
        stride = pace.first_stride if start is None else 0  # a start may be good enough as it is
        while True:
            stride = min(stride, max_iterations - iteration)
            if stride == STRIDE and isinstance(steps, LogIterations):
                replay = replay or repeated(steps, STRIDE)
                replay()
            else:
                steps.step(stride)
            iteration += stride
            found.look(steps, iteration, tol, last=iteration == max_iterations)
            if found.share == 1 or iteration == max_iterations:
                return conclude(problem, conditions, *found.of_all(), tol)
            if isinstance(steps, ScalingIterations) and iteration >= pace.opening:
                steps = steps.onward()
            if isinstance(steps, LogIterations):
                if found.share >= pace.worth_leaving:
                    steps, replay = steps[found.leave()], None
                if conditions.cut and iteration in LOOKS and bool((steps.neglected() > tol).any()):
                    raise CutTooShortError
            stride = pace.first_stride if iteration < pace.stride_from else STRIDE
