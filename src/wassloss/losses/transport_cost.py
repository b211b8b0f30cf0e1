"""Transport costs with their gradients, plain or debiased: the core of every loss."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from wassloss import _checks
from wassloss.losses.autograd import check_reverse_mode, with_gradient
from wassloss.losses.spec import LossSpec
from wassloss.targets import SparseTarget
from wassloss.transport import Solution
from wassloss.transport.dispatch import choose_solver, solve_problem
from wassloss.transport.precision import smallest_mass
from wassloss.transport.problem import Problem
from wassloss.transport.sinkhorn import Symmetric

# A product with a kernel shared by the batch costs a fraction of computing exponentials. If a
# target has more than one in this many labels, a product over all is cheaper than its own block.
WIDE_SUPPORT = 5


def transport_cost(
    log_h: Tensor,
    target: SparseTarget,
    spec: LossSpec,
    h: Tensor | None = None,
    unsolved: Tensor | None = None,
) -> Tensor:
    """Transport costs `(batch,)` with their gradient in `log_h`, or in the masses `h` if given.

    `unsolved` is for CUDA graphs: see `solve_problem`.
    """
    metric, options = spec.metric, spec.options
    value = _one_transport(log_h, target, spec, h, unsolved)
    if not spec.debiased or spec.objective.exact:  # without entropy, a measure has cost 0 to itself
        return value
    if options.scaling_iterations is None and options.solver is None:
        solver = Symmetric(options.tol, options.max_iterations or Symmetric.max_iterations)
        own_prediction = _prediction_to_itself(log_h, spec, solver, h)
        own_target = _target_to_itself(target, spec, solver)
    else:  # the requested solver, for all three
        masses = log_h.exp() if h is None else h
        everything = torch.arange(metric.size, device=log_h.device).unsqueeze(0)
        y = torch.zeros_like(masses, requires_grad=False).scatter_add(
            1, target.indices.expand_as(target.weights), target.weights
        )
        itself = SparseTarget(everything, masses)
        own_prediction = _one_transport(log_h, itself, spec, h)
        own_target = _one_transport(y.detach().log(), target, spec, y)
    return value - 0.5 * own_prediction - 0.5 * own_target


def _prediction_to_itself(
    log_h: Tensor, spec: LossSpec, solver: Symmetric, h: Tensor | None
) -> Tensor:
    """The cost of transport from each prediction to itself, `(batch,)`."""
    everything = torch.arange(spec.metric.size, device=log_h.device).unsqueeze(0)
    masses = log_h.detach().exp() if h is None else h.detach()
    masses = masses.clamp(min=smallest_mass(masses.dtype))
    problem = Problem.from_log(log_h.detach(), masses, everything, spec.metric, spec.objective)
    solution = solve_problem(problem, solver)
    return _differentiable(
        solution,
        (h, lambda: _slope_of_both(solution)),
        (log_h if h is None else None, lambda: masses * _slope_of_both(solution)),
        costs=lambda: spec.metric.cost_columns(everything),
    )


def _target_to_itself(target: SparseTarget, spec: LossSpec, solver: Symmetric) -> Tensor:
    """The cost of transport from each target to itself, `(batch,)`, on its own support."""
    metric, weights, dtype = spec.metric, target.weights, target.weights.dtype
    if WIDE_SUPPORT * weights.shape[1] >= metric.size:
        y = weights.new_zeros(len(weights), metric.size).scatter_add(
            1, target.indices.expand_as(weights), weights
        )
        return _prediction_to_itself(y.detach().log(), spec, solver, y)
    masses = weights.detach()
    if weights.requires_grad:
        masses = masses.clamp(min=smallest_mass(dtype))  # see problem_of
    labels = target.indices
    costs = metric.cost_between(labels.unsqueeze(2), labels.unsqueeze(1)).to(dtype)
    own = torch.arange(weights.shape[1], device=weights.device).unsqueeze(0)
    problem = Problem.from_log(
        masses.log(), masses, own, metric, spec.objective, block=costs.detach()
    )
    solution = solve_problem(problem, solver)
    return _differentiable(
        solution, (weights, lambda: _slope_of_both(solution)), costs=lambda: costs
    )


def _one_transport(
    log_h: Tensor,
    target: SparseTarget,
    spec: LossSpec,
    h: Tensor | None,
    unsolved: Tensor | None = None,
) -> Tensor:
    if _checks.can_read_values():
        check_reverse_mode(log_h if h is None else h, target.weights)
    problem = problem_of(log_h.detach(), target, spec)
    solution = solve_problem(problem, choose_solver(problem, spec.options), unsolved=unsolved)
    return _differentiable(
        solution,
        (h, lambda: solution.gradient(0)),
        (log_h if h is None else None, solution.log_gradient),
        (target.weights, lambda: solution.gradient(1)),
        costs=lambda: spec.metric.cost_columns(target.indices),
    )


def _differentiable(
    solution: Solution,
    *inputs: tuple[Tensor | None, Callable[[], Tensor]],
    costs: Callable[[], Tensor],
) -> Tensor:
    """The value of a solution, differentiable in its inputs and in learned costs."""
    if not torch.is_grad_enabled():
        return solution.value
    pairs = [(x, slope()) for x, slope in inputs if x is not None and x.requires_grad]
    problem = solution.problem
    if problem.metric.requires_grad:
        columns = costs().to(solution.value.dtype)
        pairs.append((columns.expand(problem.batch, -1, -1), solution.support_plan()))
    return with_gradient(solution.value, *pairs) if pairs else solution.value


def _slope_of_both(solution: Solution) -> Tensor:
    """The gradient in a measure that is on both sides."""
    return solution.gradient(0) + solution.gradient(1)


def problem_of(log_h: Tensor, target: SparseTarget, spec: LossSpec) -> Problem:
    """The problem that a loss poses for these predictions and targets, without gradients."""
    weights = target.weights.detach()
    if target.weights.requires_grad and not spec.objective.free_target:
        # Labels of zero weight have a gradient too: keep them, with the smallest mass. Predictions
        # have the same floor, because the logarithms cancel in a divergence. (If the target's
        # marginal is free, keeping a label would allow mass to go there.)
        weights = weights.clamp(min=smallest_mass(weights.dtype))
    return Problem.from_log(log_h, weights, target.indices, spec.metric, spec.objective)
