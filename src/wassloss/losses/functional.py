"""Wasserstein distances between measures, and optimal plans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray
from torch import Tensor

from wassloss import _checks
from wassloss._checks import at_least_single
from wassloss.ground import GroundMetric
from wassloss.losses import inputs
from wassloss.losses.spec import LossSpec, TransportKeywords
from wassloss.losses.transport_cost import problem_of, transport_cost
from wassloss.targets import SparseTarget, Target, dtype_of, read_target
from wassloss.transport import Solution
from wassloss.transport.dispatch import choose_solver, solve_problem

if TYPE_CHECKING:
    from typing_extensions import Unpack


def solve(
    h: Tensor,
    y: Target,
    metric: GroundMetric | Tensor | NDArray[Any],
    *,
    epsilon: float = 0.0,
    **keywords: Unpack[TransportKeywords],
) -> Solution:
    """Solve the transport from each prediction to its target.

    Args:
        h: masses of the predictions, `(batch, labels)` or `(labels,)`.
        y: targets in any form (see :mod:`wassloss.targets`).
        metric: the ground metric, or a matrix of distances; for other costs,
            :class:`~wassloss.ground.Cost`.
        epsilon: entropic strength; 0 is exact.
        **keywords: `gamma`, `regularizer`, `tol`, `max_iterations`, `scaling_iterations` and
            `solver`: see :mod:`wassloss.losses`.

    Returns:
        A :class:`~wassloss.transport.Solution`: value, potentials, plan and convergence status.

    >>> import torch, wassloss as wl
    >>> h = torch.tensor([[0.5, 0.5, 0.0]])
    >>> solution = wl.solve(h, torch.tensor([2]), wl.ground.Ordinal(3))
    >>> solution.value, solution.status.name
    (tensor([1.5000]), 'EXACT')
    >>> solution.plan()
    tensor([[[0.0000, 0.0000, 0.5000],
             [0.0000, 0.0000, 0.5000],
             [0.0000, 0.0000, 0.0000]]])
    """
    spec = LossSpec.checked(metric, epsilon=epsilon, **keywords)
    if spec.debiased:
        raise ValueError(
            "debiased must be False in solve, got True: it combines three problems; use wasserstein"
        )
    masses, target = _read_masses(h, y, spec)
    problem = problem_of(masses.detach().log(), target, spec)
    return solve_problem(problem, choose_solver(problem, spec.options))


def wasserstein(
    h: Tensor,
    y: Target,
    metric: GroundMetric | Tensor | NDArray[Any],
    *,
    epsilon: float = 0.0,
    **keywords: Unpack[TransportKeywords],
) -> Tensor:
    """The Wasserstein distance from each prediction to its target.

    It is differentiable in predictions, targets and the metric.

    Args:
        h: masses of the predictions, `(batch, labels)` or `(labels,)`.
        y: targets in any form (see :mod:`wassloss.targets`).
        metric: the ground metric, or a matrix of distances; for other costs,
            :class:`~wassloss.ground.Cost`. If it requires grad, its costs receive the transport
            plan as gradient.
        epsilon: entropic strength; 0 is exact.
        **keywords: `gamma`, `regularizer`, `debiased`, `tol`, `max_iterations`,
            `scaling_iterations` and `solver`: see :mod:`wassloss.losses`.

    Returns:
        Values `(batch,)`, or a scalar for `h` of shape `(labels,)`, in units of the metric's cost.

    >>> import torch, wassloss as wl
    >>> h = torch.tensor([[0.5, 0.5, 0.0], [0.0, 0.0, 1.0]])
    >>> y = torch.tensor([[0.0, 0.0, 1.0], [0.5, 0.0, 0.5]])
    >>> wl.wasserstein(h, y, wl.ground.Ordinal(3))
    tensor([1.5000, 1.0000])
    """
    spec = LossSpec.checked(metric, epsilon=epsilon, **keywords)
    masses, target = _read_masses(h, y, spec)
    value = transport_cost(masses.detach().log(), target, spec, h=masses)
    return value.reshape(h.shape[:-1])


def _read_masses(h: Tensor, y: Target, spec: LossSpec) -> tuple[Tensor, SparseTarget]:
    metric = spec.metric
    _checks.check_prediction("h", h, metric.size, metric.device, -1)
    if h.dim() > 2:
        raise ValueError(f"h must have shape (batch, labels) or (labels,), got {tuple(h.shape)}")
    masses = at_least_single(h).reshape(-1, metric.size)
    marks = _checks.check_masses(masses.detach(), "h")
    target = read_target(y, metric.size, h.shape[:-1], masses)[0].marked(marks)
    if spec.objective.balanced:
        total, wanted = masses.detach().sum(1), target.weights.detach().sum(1)
        tolerance = inputs.mass_tolerance(h.dtype, dtype_of(y))
        target = target.marked(inputs.check_equal_mass(wanted, total, tolerance))
    return masses, target
