"""Solvers by products with the kernel: Sinkhorn's, and one for transport of `h` to itself."""

from __future__ import annotations

from abc import abstractmethod
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import NamedTuple

import torch
from torch import Tensor

from wassloss.transport.conditions import Conditions, conclude
from wassloss.transport.kernel_sums import Products, kernel_sums_of, shares_kernel
from wassloss.transport.precision import can_widen, products_fit_single
from wassloss.transport.problem import Problem
from wassloss.transport.sinkhorn.iterations import (
    LogIterations,
    ScalingIterations,
    first_steps,
    repeated,
)
from wassloss.transport.solution import Solution, Status
from wassloss.transport.solver import IterativeSolver, Solver

# Iterations at which a cut kernel is checked, and given up if it is not accurate enough.
CUT_CHECKS = (10, 40, 200, 1000, 4000)
STRIDE, SYMMETRIC_STRIDE = 20, 5  # iterations between checks of the error
# Iterations after which single precision is given up, because rounding may keep the error up.
SINGLE_ITERATIONS = 200
# Smaller symmetric scalings change nothing; they are raised to this to avoid denormal products.
LEAST_LOG_SCALING = {torch.float64: -300.0, torch.float32: -60.0}


class CutTooShortError(Exception):
    """The cut kernel is not accurate enough for this problem."""


class Pace(NamedTuple):
    """The schedule of a solve on one kind of device."""

    first_stride: int  # iterations between the first checks, because easy problems take twenty
    stride_from: int  # the iteration from which the stride is `STRIDE`
    opening: int  # the iteration at which plain steps give way to longer ones, at the latest
    worth_leaving: float  # the share of finished examples at which they leave the batch


# On a GPU, a check of the error synchronises, which takes as long as some iterations.
# Over-relaxed steps run there as a CUDA graph, and capturing it takes as long as a hundred plain
# steps. The time of a step hardly depends on the batch size.
PACE = {
    "cpu": Pace(first_stride=5, stride_from=40, opening=25, worth_leaving=0.1),
    "cuda": Pace(first_stride=10, stride_from=60, opening=60, worth_leaving=0.5),
}
# Size of a kernel from which a step on a GPU takes longer than a check of the error.
LARGE_KERNEL = 2**26


@dataclass(frozen=True)
class ProductSolver(IterativeSolver):
    """A solver that stores no block of costs if one kernel serves the whole batch.

    It chooses its precision itself: products in single precision are cheaper, and only the solver
    knows when they no longer suffice.
    """

    max_iterations: int = 10_000

    def elements_per_example(self, problem: Problem) -> int:
        if problem.costs.axes is not None or shares_kernel(problem):
            return problem.log_h.shape[1] + problem.log_y.shape[1]
        return super().elements_per_example(problem)

    def answer(self, problem: Problem) -> Solution:
        return Solver.answer(self, problem)

    def solve(self, problem: Problem) -> Solution:
        tol, left = self.tolerance(problem), self.max_iterations
        if not can_widen(problem.log_h):
            return self._solve(problem, None, tol, left)
        start: Tensor | None = None
        used = torch.zeros_like(problem.log_h[:, 0], dtype=torch.long)
        if products_fit_single(problem.reach(), problem.objective.epsilon, tol):
            single = self._solve(problem, None, tol, min(left, SINGLE_ITERATIONS))
            if single.status is Status.CONVERGED or left <= SINGLE_ITERATIONS:
                return single
            start, used = single.g, single.n_iterations
            left -= int(used.max())
        double = self._solve(problem.to(torch.float64), start, tol, left)
        return replace(double, n_iterations=double.n_iterations + used).to(problem)

    def _solve(self, problem: Problem, start: Tensor | None, tol: float, budget: int) -> Solution:
        """Solve in the problem's own precision, with products wherever possible.

        Beyond their range, a cut kernel is tried first. Its result is kept if the bound on what was
        neglected is a fraction of the tolerance; the bound is added to the error.
        """
        sums = kernel_sums_of(problem, problem.dtype)
        if not isinstance(sums, Products) and problem.dtype == torch.float64:
            cut = kernel_sums_of(problem, cut=True)
            if isinstance(cut, Products):
                conditions = Conditions.of(problem, cut)
                with suppress(CutTooShortError):
                    iterated = self._iterate(conditions, start, tol, budget)
                    found = conclude(problem, conditions, *iterated, tol)
                    bound = cut.neglected(conditions.log_u(found.f), conditions.log_v(found.g))
                    error = found.error + bound
                    if ((bound <= 0.1 * tol) & ((error <= tol) == found.converged)).all():
                        return replace(found, error=error)
        conditions = Conditions.of(problem, sums)
        return conclude(problem, conditions, *self._iterate(conditions, start, tol, budget), tol)

    @abstractmethod
    def _iterate(
        self, conditions: Conditions, start: Tensor | None, tol: float, budget: int
    ) -> tuple[Tensor, Tensor]:
        """Return the target's potentials and the number of iterations of each example."""


class Sinkhorn(ProductSolver):
    """Alternate `f ← f(g)` and `g ← g(f)`, each step lengthened by a factor `1 ≤ ω < 2`.

    Balanced and relaxed updates differ only in the damping of Proposition 4.2. The factor `ω`
    adapts to the observed rate: see `OverRelaxation`. The error is checked every few iterations,
    and examples within `tol` leave the batch.
    """

    def _iterate(
        self, conditions: Conditions, start: Tensor | None, tol: float, budget: int
    ) -> tuple[Tensor, Tensor]:
        g = conditions.initial_potential(start)
        pace, found = _pace(conditions), ConvergedExamples(g)
        iteration, replay = 0, None
        steps = first_steps(conditions, g)
        stride = pace.first_stride if start is None else 0  # the start may be good enough
        while True:
            stride = min(stride, budget - iteration)
            if stride == STRIDE and isinstance(steps, LogIterations):
                replay = replay or repeated(steps, STRIDE)
                replay()
            else:
                steps.step(stride)
            iteration += stride
            found.record(steps, iteration, tol, last=iteration == budget)
            if found.share == 1 or iteration == budget:
                return found.g, found.n_iterations
            if isinstance(steps, ScalingIterations) and iteration >= pace.opening:
                steps = steps.onward()
            if isinstance(steps, LogIterations):
                if found.share >= pace.worth_leaving:
                    steps, replay = steps[found.leave()], None
                if iteration in CUT_CHECKS and steps.neglects_too_much(tol):
                    raise CutTooShortError
            stride = pace.first_stride if iteration < pace.stride_from else STRIDE


def _pace(conditions: Conditions) -> Pace:
    pace, sums = PACE.get(conditions.log_y.device.type, PACE["cpu"]), conditions.sums
    if isinstance(sums, Products) and sums.kernels[-1].numel() >= LARGE_KERNEL:
        return pace._replace(first_stride=PACE["cpu"].first_stride)
    return pace


class ConvergedExamples:
    """Collects the results of converged examples while the rest of the batch continues.

    An example keeps the potentials at which its error was first seen within the tolerance, whatever
    the rest of its batch does.
    """

    def __init__(self, g: Tensor) -> None:
        """Allocate results of the shape of `g`, `(batch, support)`."""
        self.g = torch.empty_like(g)
        self.n_iterations = torch.zeros_like(g[:, 0], dtype=torch.long)
        self._active = torch.arange(len(g), device=g.device)  # examples still in the batch
        self._finished = torch.zeros_like(self._active, dtype=torch.bool)  # which of them have
        self._count = 0  # how many have finished

    @property
    def share(self) -> float:
        """The share of the current batch that has finished."""
        return self._count / len(self._finished)

    def record(
        self, steps: ScalingIterations | LogIterations, iteration: int, tol: float, *, last: bool
    ) -> None:
        """Record the examples that are within `tol`; if `last`, record all."""
        finished = self._finished | (steps.error <= tol)  # a NaN compares false
        count = int(finished.sum())  # the only synchronisation
        if count > self._count or last:
            active, known = self._active, self._finished
            self.g[active] = torch.where(known.unsqueeze(1), self.g[active], steps.g())
            self.n_iterations[active] = torch.where(known, self.n_iterations[active], iteration)
            self._finished, self._count = finished, count

    def leave(self) -> Tensor:
        """Drop the finished examples; return a mask of the rest."""
        staying = ~self._finished
        self._active, self._finished, self._count = self._active[staying], ~staying[staying], 0
        return staying


class Symmetric(ProductSolver):
    """`log u ← ½ (log u + log h − log K u)`, which needs only a few tens of iterations.

    By symmetry, both scalings of `T = diag(u) K diag(u)` are equal. Sinkhorn's update alone
    oscillates around the solution; the mean of both sides at least halves the error at any `ε` if
    `K` is positive semi-definite. (The update's derivative has eigenvalues `−λ`, with `0 ≤ λ ≤ 1`
    those of `T` relative to its marginals; that of the mean has `½ (1 − λ)`.) This holds for
    distances between vectors, in trees and on lines. For other costs the rate may be worse, but
    never above 1.
    """

    @classmethod
    def applies(cls, problem: Problem) -> bool:
        square = problem.log_h.shape == problem.log_y.shape
        return square and problem.objective.balanced and not problem.objective.exact

    def _iterate(
        self, conditions: Conditions, start: Tensor | None, tol: float, budget: int
    ) -> tuple[Tensor, Tensor]:
        # Assumes that the target's masses equal the prediction's, label by label.
        log_h, mass = conditions.log_h, conditions.log_h.exp()
        total, least = mass.sum(1), LEAST_LOG_SCALING[log_h.dtype]
        log_u = 0.5 * log_h
        sums = conditions.sums.log_sum(log_u, over_labels=False)
        n_iterations = torch.zeros_like(total, dtype=torch.long)
        for iteration in range(budget + 1):
            if iteration % SYMMETRIC_STRIDE == 0 or iteration == budget:
                error = ((log_u + sums).exp() - mass).abs().sum(1) / total
                # Half the tolerance, because the error is measured again after half an update.
                running = ~(error <= 0.5 * tol)
                n_iterations = torch.where(running, iteration, n_iterations)
                if not running.any():
                    break
            log_u = (0.5 * (log_u + log_h - sums)).clamp_(min=least)
            sums = conditions.sums.log_sum(log_u, over_labels=False)
        return conditions.potential(log_u), n_iterations
