"""Full-batch training of small models by L-BFGS: no learning rate, no batches, no randomness."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.utils import parameters_to_vector

from wassloss._checks import check_count, check_strength
from wassloss.training.batches import Data, Examples
from wassloss.training.plan import decays, trainable
from wassloss.training.run import DivergedError, Loss
from wassloss.training.session import counting_unconverged


@dataclass(frozen=True)
class Convergence:
    """How a full-batch run ended; as a string, with advice if it did not converge."""

    converged: bool  # whether the gradient, or the progress, fell below `tol`
    iterations: int
    objective: float  # the final mean loss plus `½ weight_decay Σ‖θ‖²`
    gradient: float  # the largest component of its gradient
    message: str  # the optimiser's own words

    def __str__(self) -> str:
        ended = (
            f"after {self.iterations} iterations the objective is {self.objective:.6g} and the "
            f"largest component of its gradient {self.gradient:.1e}"
        )
        if self.converged:
            return f"L-BFGS converged: {ended}"
        return (
            f"L-BFGS did not converge ({self.message}): {ended}. Scale the features to unit "
            "variance, raise max_iterations or weight_decay, loosen tol, or train a float64 model"
        )


def train_full_batch(
    model: nn.Module,
    loss_fn: Loss,
    data: Data,
    *,
    weight_decay: float = 0.001,
    tol: float = 1e-5,
    max_iterations: int = 1000,
) -> Convergence:
    """Minimise the mean loss plus `½ weight_decay Σ‖θ‖²` over all examples at once.

    The same data and starting weights give the same result: the optimum if the loss is convex in
    the weights, as cross-entropy is for a linear model; for W of a softmax, a stationary point.

    Args:
        model: trained in place, without dropout; preferably in float64 if `tol` is small.
        loss_fn: as for :func:`~wassloss.training.train`.
        data: `(features, target)`, in memory.
        weight_decay: as in :class:`~wassloss.training.TrainingPlan`; not on biases.
        tol: on the largest component of the gradient.
        max_iterations: after which to give up.

    Returns:
        Whether it converged, and how well; as a string, with advice if it did not.

    >>> import wassloss as wl
    >>> x = torch.randn(50, 2)
    >>> model = wl.models.Linear(features=2, labels=2)
    >>> report = train_full_batch(model, nn.CrossEntropyLoss(), (x, (x[:, 0] > 0).long()))
    >>> report.converged
    True
    """
    # Here, because they take a tenth of the time that importing wassloss takes.
    from scipy.optimize import minimize
    from threadpoolctl import threadpool_limits

    check_strength("weight_decay", weight_decay)
    check_strength("tol", tol)
    check_count("max_iterations", max_iterations)
    parameters = trainable(model.parameters())
    device = parameters[0].device
    if isinstance(loss_fn, nn.Module):
        loss_fn.to(device)
    features, *rest = (column.to(device) for column in Examples(data).columns)

    def objective(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        _unflatten(flat, parameters)
        loss = loss_fn(model(features), *rest)
        for parameter in parameters:
            if weight_decay and decays(parameter):
                loss = loss + weight_decay / 2 * parameter.square().sum()
        value = loss.item()
        if not math.isfinite(value):
            raise DivergedError(
                f"the loss is {value} in L-BFGS: look for extreme values in the data, or train "
                "with small steps instead"
            )
        gradients = torch.autograd.grad(loss, parameters, materialize_grads=True)
        return value, _flatten(gradients)

    rounding = 4 * torch.finfo(parameters[0].dtype).eps  # of the loss
    limits = {"maxiter": max_iterations, "maxfun": 20 * max_iterations}
    options = {**limits, "gtol": tol, "ftol": rounding}
    # Vectors as short as these gain nothing from SciPy's threads, which would keep torch's waiting:
    # on two cores a fit of 300 rows took 0.4 s instead of 0.03 s.
    with counting_unconverged(), threadpool_limits(limits=1, user_api="blas"):
        start = _flatten(parameters)
        found: Any = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    _unflatten(found.x, parameters)
    gradient, message = float(np.abs(found.jac).max()), str(found.message)
    return Convergence(bool(found.success), found.nit, float(found.fun), gradient, message)


def _flatten(tensors: Sequence[Tensor]) -> NDArray[np.float64]:
    array: NDArray[np.float64] = parameters_to_vector(tensors).detach().double().cpu().numpy()
    return array


@torch.no_grad()
def _unflatten(flat: NDArray[np.float64], parameters: Sequence[nn.Parameter]) -> None:
    pieces = torch.tensor(flat).split([parameter.numel() for parameter in parameters])
    for parameter, values in zip(parameters, pieces, strict=True):
        parameter.copy_(values.view_as(parameter))
