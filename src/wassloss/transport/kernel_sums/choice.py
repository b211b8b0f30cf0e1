"""Which way of summing over the kernel is the cheapest for a problem."""

from __future__ import annotations

import math

import torch
from torch import Tensor

from wassloss import _checks
from wassloss.transport.kernel_sums.base import KernelSums
from wassloss.transport.kernel_sums.log_domain import AxisLogSums, BlockLogSums
from wassloss.transport.kernel_sums.products import AxisProducts, Products
from wassloss.transport.precision import LARGEST_EXPONENT, LARGEST_PLAIN_EXPONENT
from wassloss.transport.problem import Problem


def kernel_sums_of(
    problem: Problem, dtype: torch.dtype = torch.float64, *, cut: bool = False
) -> KernelSums:
    """The cheapest way to take a problem's sums, with products in `dtype`.

    With `cut`, kernels that are beyond the range of products are cut off at its end; callers then
    have to check `neglected` in the end.
    """
    epsilon, costs = problem.objective.epsilon, problem.costs
    # The range is unknown in a trace, and there is no double precision on mps.
    readable = _checks.can_read_values()
    if not readable or (problem.log_h.device.type == "mps" and dtype == torch.float64):
        return BlockLogSums(costs.gathered(), epsilon)
    if costs.axes is not None:
        return _sums_by_axes(problem, costs.axes, dtype, cut)
    if not shares_kernel(problem):
        return BlockLogSums(costs.gathered(), epsilon)
    if costs.shared:
        costs = costs.gathered()
    exponent = costs.largest / epsilon
    if not (cut or exponent <= LARGEST_EXPONENT[dtype]):
        return BlockLogSums(costs.gathered(), epsilon)
    of_all = costs.block()[0] if costs.shared else costs.of_labels(_all_labels(problem))
    kernel, plain = _kernel(of_all, epsilon, dtype), _plain(problem, exponent, dtype)
    return Products(kernel=kernel, plain=plain, support=None if costs.shared else costs.support)


def _sums_by_axes(
    problem: Problem, axes: tuple[Tensor, ...], dtype: torch.dtype, cut: bool
) -> KernelSums:
    epsilon, costs = problem.objective.epsilon, problem.costs
    everything = costs.shared and torch.equal(costs.support[0], _all_labels(problem))
    support = None if everything else costs.support.expand_as(problem.log_y)
    exponent = costs.largest / epsilon
    if not (cut or exponent <= LARGEST_EXPONENT[dtype]):
        return AxisLogSums(tuple(axis.to(problem.dtype) / -epsilon for axis in axes), support)
    kernels = tuple(_kernel(axis, epsilon, dtype) for axis in axes)
    return AxisProducts(kernels=kernels, plain=_plain(problem, exponent, dtype), support=support)


def _plain(problem: Problem, exponent: float, dtype: torch.dtype) -> bool:
    """Whether scalings stay in the range of numbers, given the largest `M/ε`."""
    shift = problem.largest_shift() / problem.objective.epsilon
    return exponent + shift <= LARGEST_PLAIN_EXPONENT[dtype]


def _all_labels(problem: Problem) -> Tensor:
    return torch.arange(problem.metric.size, device=problem.support.device)


def shares_kernel(problem: Problem) -> bool:
    """Whether one kernel serves the whole batch, and takes no more memory than blocks would."""
    costs = problem.costs
    if costs.shared or costs.table is None:
        return costs.shared
    within = costs.largest / problem.objective.epsilon <= LARGEST_EXPONENT[torch.float64]
    return within and len(costs.table) <= problem.log_y.numel()


def neglected(sums: KernelSums, log_u: Tensor, log_v: Tensor) -> Tensor:
    """A bound on the relative error of every sum by what a cut kernel leaves out, `(batch,)`.

    A term beyond the cut is at most the largest factor times the kernel there.
    """
    worst = []
    for factors, results in (
        (log_v, sums.over_support(log_v)),
        (log_u, sums.over_labels(log_u).where(log_v > -torch.inf, torch.inf)),
    ):
        largest = factors.amax(1) - LARGEST_EXPONENT[torch.float64] + math.log(factors.shape[1])
        worst.append((largest - results.amin(1)).exp())
    return worst[0] + worst[1]


def _kernel(cost: Tensor, epsilon: float, dtype: torch.dtype) -> Tensor:
    exponent = cost.double() / -epsilon
    kernel = exponent.exp().masked_fill_(exponent < -LARGEST_EXPONENT[torch.float64], 0)
    return kernel.to(dtype)
