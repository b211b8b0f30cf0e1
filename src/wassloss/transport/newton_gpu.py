"""Newton's method on the semi-dual, in one kernel for a whole batch on an NVIDIA GPU.

:class:`~wassloss.transport.newton.Newton` is a loop of some forty small operations an iteration:
on a GPU nearly all of its time goes into launching them, and into asking whether to go on. Here
each example is solved from beginning to end by one program on one multiprocessor, which launches
nothing and asks nobody.
"""

from __future__ import annotations

import importlib.util
import math
from dataclasses import dataclass

import torch
from torch import Tensor

from wassloss._looking import checking
from wassloss.transport.entropic import default_tolerance, unfinished
from wassloss.transport.objective import Regularizer
from wassloss.transport.problem import Problem
from wassloss.transport.solution import Solution, Status

# What fits in the registers of one program.
LARGEST_SUPPORT = 32
# Up to so many target labels the code is unrolled over their pairs: up to three times faster, and
# compiled in a second for 5 labels, 3 for 8, 6 for 12, but 18 for 16.
MOST_UNROLLED = 12
# One warp an example leaves nothing to wait for. More are worth their barriers where there are many
# labels, or so few examples that they leave room beside them.
MOST_LABELS_OF_A_WARP, MOST_LABELS_OF_EIGHT_WARPS = 4096, 32768
MOST_EXAMPLES_OF_MANY_WARPS = 256


# Looked up once, for a tracer cannot follow the look-up.
COMPILES = importlib.util.find_spec("triton") is not None and torch.version.hip is None


def available(device: torch.device) -> bool:
    """Whether the kernel can run there: it needs an NVIDIA GPU and Triton."""
    return COMPILES and device.type == "cuda"


@dataclass(frozen=True)
class NewtonGPU:
    """`Newton`, fused into one kernel; for supports of up to `LARGEST_SUPPORT` labels."""

    tol: float | None = None
    max_iterations: int = 1000

    @staticmethod
    def applies(problem: Problem) -> bool:
        fits = problem.log_y.shape[1] <= LARGEST_SUPPORT
        return fits and not problem.objective.exact and available(problem.log_h.device)

    def solve(self, problem: Problem, start: Tensor | None = None) -> Solution:
        tol = self.tol if self.tol is not None else default_tolerance(problem.log_h.dtype)
        f, g, value, error, n_iterations, converged = launch(
            problem, start, tol, self.max_iterations
        )
        status = Status.CONVERGED
        # The one time the host waits for the GPU, which it cannot while a graph is captured.
        if checking() and not bool(converged.all()):
            reach = float(problem.cost().max()) + problem.largest_shift()
            status = unfinished(reach, problem.objective.epsilon, problem.log_h.dtype, tol)
        return Solution(problem, value, f, g, n_iterations, error, converged, status)


def launch(
    problem: Problem, start: Tensor | None, tol: float, max_iterations: int
) -> tuple[Tensor, ...]:
    """Start the kernel; returns what it fills in: `f, g, value, error, n_iterations, converged`.

    Nothing here waits for the GPU, so that it can be part of a CUDA graph.
    """
    from wassloss.transport._newton_triton import newton_kernel

    log_h, log_y = problem.log_h.contiguous(), problem.log_y.contiguous()
    support, objective = problem.support.contiguous(), problem.objective
    (batch, labels), size = log_h.shape, log_y.shape[1]
    cost, tabulated = _costs(problem)
    strides = labels, cost.stride(-2), 0 if tabulated else cost.stride(0)
    tile, num_warps, unrolled = shape_of_program(batch, labels, size, log_h.dtype)
    f, g = torch.empty_like(log_h), torch.empty_like(log_y)
    value, error = log_h.new_empty(batch), log_h.new_empty(batch)
    n_iterations = log_h.new_empty(batch, dtype=torch.long)
    converged = log_h.new_empty(batch, dtype=torch.bool)
    read = cost, support, log_h, log_y, log_y if start is None else start.contiguous()
    written = f, g, value, error, n_iterations, converged
    with torch.cuda.device_of(log_h):
        newton_kernel[(batch,)](
            *read,
            *written,
            *strides,
            0 if support.shape[0] == 1 else size,
            max_iterations,
            objective.epsilon,
            *objective.gamma,
            objective.price_of_unequal_masses,
            tol,
            N=size,
            S=padded_support(size),
            TILE=tile,
            ALIGNED=math.gcd(*strides, 16 // cost.element_size()),
            UNROLLED=unrolled,
            TABLE=tabulated,
            WARM=start is not None,
            PRODUCT=objective.regularizer is Regularizer.PRODUCT,
            RELAXED_A=not math.isinf(objective.gamma[0]),
            RELAXED_B=not math.isinf(objective.gamma[1]),
            num_warps=num_warps,
            enable_fp_fusion=True,
        )
    return written


def _costs(problem: Problem) -> tuple[Tensor, bool]:
    """A table of all costs `(labels, labels)`, if there is one; else the target's columns."""
    table = problem.metric.known_costs
    if problem.columns is None and table is not None:
        return table.contiguous(), True
    columns = problem.cost()
    return columns if columns.stride(-1) == 1 else columns.contiguous(), False


def padded_support(size: int) -> int:
    """The support that tiles have room for: a power of two."""
    return max(2, 1 << (size - 1).bit_length())


def shape_of_program(
    batch: int, labels: int, support: int, dtype: torch.dtype
) -> tuple[int, int, bool]:
    """Labels in a tile, warps in a program, and whether its code is unrolled over the support."""
    single = dtype == torch.float32
    if support > MOST_UNROLLED:
        return 64 if single else 32, 2, False
    warps = 4
    if single and labels > MOST_LABELS_OF_A_WARP:
        warps = 8 if labels <= MOST_LABELS_OF_EIGHT_WARPS else 16
    elif single and batch > MOST_EXAMPLES_OF_MANY_WARPS:
        warps = 1
    # Several labels a thread hide latencies, as long as their sums leave registers for them.
    labels_of_a_thread = 4 if single and support <= 8 else 1
    return 32 * warps * labels_of_a_thread, warps, True
