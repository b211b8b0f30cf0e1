"""Newton's method on the semi-dual, in one kernel for a whole batch on an NVIDIA GPU.

The torch version is a loop of some forty small operations per iteration. On a GPU, nearly all of
its time goes into launches and convergence checks. Here one program per example runs the whole
solve on one multiprocessor, without launches or synchronisation in between.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor

from wassloss._checks import can_read_values, has_memory
from wassloss.kernels.launch import (
    LARGEST_SUPPORT,
    solver_constants,
    start_kernel,
    triton_available,
)
from wassloss.transport.objective import Regularizer
from wassloss.transport.problem import Problem
from wassloss.transport.solution import Solution, Status


def runs(problem: Problem) -> bool:
    """Whether Triton runs on the problem's device and the support fits a program's registers."""
    x = problem.log_h
    fits = problem.log_y.shape[1] <= LARGEST_SUPPORT
    return fits and triton_available(x.device) and has_memory(x) and has_memory(problem.log_y)


def maximize(problem: Problem, tol: float, max_iterations: int) -> Solution:
    """Solve each example; see `lockstep.py`."""
    f, g, value, error, n_iterations, converged = launch(problem, tol, max_iterations)
    # The only synchronisation; impossible during graph capture.
    status = Status.of(problem, converged, tol) if can_read_values() else Status.CONVERGED
    return Solution(problem, value, f, g, n_iterations, error, converged, status)


def launch(problem: Problem, tol: float, max_iterations: int) -> tuple[Tensor, ...]:
    """Start the kernel; return its outputs `f, g, value, error, n_iterations, converged`.

    Does not synchronise, so a CUDA graph can capture it.
    """
    from wassloss.kernels.triton.newton import newton_kernel

    log_h, log_y = problem.log_h.contiguous(), problem.log_y.contiguous()
    support, objective = problem.support.contiguous(), problem.objective
    (batch, labels), size = log_h.shape, log_y.shape[1]
    costs, table = problem.costs, problem.costs.table
    cost = costs.block() if table is None else table
    cost = cost if cost.stride(-1) == 1 else cost.contiguous()
    own_block = table is None and not costs.shared
    strides = labels, cost.stride(-2), cost.stride(0) if own_block else 0
    f, g = log_h.new_empty(log_h.shape), log_y.new_empty(log_y.shape)
    value, error = log_h.new_empty(batch), log_h.new_empty(batch)
    n_iterations = log_h.new_empty(batch, dtype=torch.long)
    converged = log_h.new_empty(batch, dtype=torch.bool)
    read = cost, support, log_h, log_y
    written = f, g, value, error, n_iterations, converged
    constants = {
        "TABLE": table is not None,
        "PRODUCT": objective.regularizer is Regularizer.PRODUCT,
        "RELAXED_A": not math.isinf(objective.gamma[0]),
        "RELAXED_B": not math.isinf(objective.gamma[1]),
        **solver_constants(cost, strides, size, batch, log_h.dtype),
    }
    sizes = *strides, 0 if costs.shared else size, max_iterations
    price = objective.price_of_unequal_masses
    strengths = objective.epsilon, *objective.gamma, price, tol
    start_kernel(newton_kernel, batch, (*read, *written), sizes, strengths, constants)
    return written
