"""Sinkhorn's alternating updates, over-relaxed, each example until it has converged."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from wassloss.transport.conditions import Conditions, conclude
from wassloss.transport.kernel_sums import kernel_sums_of, shares_kernel
from wassloss.transport.precision import can_widen, products_fit_single
from wassloss.transport.problem import Problem
from wassloss.transport.sinkhorn.iterations import LogIterations, ScalingIterations, repeated
from wassloss.transport.solution import Solution, Status
from wassloss.transport.solver import IterativeSolver, Solver

STRIDE = 20  # iterations between looks at the error
# Iterations after which single precision is given up: noise may be what keeps the error up.
SINGLE_ITERATIONS = 200


class Pace(NamedTuple):
    """How to go about a solve on one kind of device."""

    first_stride: int  # iterations between looks at first, because easy problems take twenty
    stride_from: int  # the iteration from which the stride is `STRIDE`
    opening: int  # the iteration at which plain steps give way to longer ones, at the latest
    worth_leaving: float  # the share of finished examples at which the batch is made smaller


# On a GPU, looking at the error waits for the device, which takes as long as some iterations.
# Over-relaxed steps run there as a CUDA graph, and capturing it takes as long as a hundred plain
# steps. The time of a step hardly depends on the batch.
PACE = {
    "cpu": Pace(first_stride=5, stride_from=40, opening=25, worth_leaving=0.1),
    "cuda": Pace(first_stride=10, stride_from=60, opening=60, worth_leaving=0.5),
}


@dataclass(frozen=True)
class ProductSolver(IterativeSolver):
    """A solver that keeps no block of costs where one kernel serves the whole batch.

    It chooses its own precision: products in single precision are cheaper, and only the solver
    knows when their digits no longer suffice.
    """

    max_iterations: int = 10_000

    def elements_per_example(self, problem: Problem) -> int:
        if problem.costs.axes is not None or shares_kernel(problem):
            return problem.log_h.shape[1] + problem.log_y.shape[1]
        return super().elements_per_example(problem)

    def with_costs(self, problem: Problem) -> Problem:
        costs = problem.costs
        by_table = shares_kernel(problem) and not costs.shared
        return problem if costs.axes is not None or by_table else problem.gathered()

    def answer(self, problem: Problem, start: Tensor | None) -> Solution:
        return Solver.answer(self, problem, start)


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
        conditions = Conditions.of(problem, kernel_sums_of(problem, problem.dtype))
        g = conditions.initial_potential(start)
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
            if isinstance(steps, LogIterations) and found.share >= pace.worth_leaving:
                steps, replay = steps[found.leave()], None
            stride = pace.first_stride if iteration < pace.stride_from else STRIDE


class ConvergedExamples:
    """Keeps what converged examples found, while the rest of their batch goes on.

    An example keeps the potentials at which its error was first seen within the tolerance, whatever
    the rest of its batch does.
    """

    def __init__(self, g: Tensor) -> None:
        """From the potentials to start from, `(batch, support)`."""
        self._g = g
        self._n_iterations = torch.zeros_like(g[:, 0], dtype=torch.long)
        self._finished = torch.zeros_like(self._n_iterations, dtype=torch.bool)
        self._count = 0  # of those that have finished
        # Once some have left: where the others belong among all, and what all have found so far.
        self._active: Tensor | None = None
        self._all: tuple[Tensor, Tensor] = self._g, self._n_iterations

    @property
    def share(self) -> float:
        """How much of the present batch has finished."""
        return self._count / len(self._finished)

    def look(
        self, steps: ScalingIterations | LogIterations, iteration: int, tol: float, *, last: bool
    ) -> None:
        """Note which examples are within `tol`; the `last` time, note the potentials of all."""
        finished = self._finished | (steps.error <= tol)  # a NaN compares false
        count = int(finished.sum())  # the one time the host waits for the device
        if count > self._count or last:
            g, some = steps.g(), self._count > 0
            self._g = torch.where(self._finished.unsqueeze(1), self._g, g) if some else g
            self._n_iterations.masked_fill_(~self._finished, iteration)
            self._finished, self._count = finished, count

    def leave(self) -> Tensor:
        """Go on without the examples that have finished; returns the mask of those that stay."""
        self._store()
        staying = ~self._finished
        active = torch.arange(len(staying), device=staying.device)
        self._active = (active if self._active is None else self._active)[staying]
        self._g, self._n_iterations = self._g[staying], self._n_iterations[staying]
        self._finished, self._count = self._finished[staying], 0
        return staying

    def of_all(self) -> tuple[Tensor, Tensor]:
        """Potentials `(batch, support)` and numbers of iterations `(batch,)` of all examples."""
        self._store()
        return self._all

    def _store(self) -> None:
        if self._active is None:
            self._all = self._g, self._n_iterations
        else:
            self._all[0][self._active] = self._g
            self._all[1][self._active] = self._n_iterations
