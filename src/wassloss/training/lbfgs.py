"""Full-batch training of small models by L-BFGS: no learning rate, no batches, no chance."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from wassloss._checks import check_count, check_strength
from wassloss.training.batches import Data, is_in_memory
from wassloss.training.examples import Batch, Examples
from wassloss.training.meter import DivergedError
from wassloss.training.optimizers import penalized
from wassloss.training.steps import Loss
from wassloss.training.unconverged import counting_unconverged
from wassloss.transport import ConvergenceWarning


@dataclass(frozen=True)
class Convergence:
    """How a full-batch run ended; as a string, with advice where it did not converge.

    Attributes:
        converged: whether the gradient, or the progress, fell below `tolerance`.
        iterations: steps taken.
        objective: the final mean loss plus weight penalty.
        gradient: the largest component of its gradient.
        message: the optimiser's own words.
    """

    converged: bool
    iterations: int
    objective: float
    gradient: float
    message: str

    def __str__(self) -> str:
        ended = (
            f"after {self.iterations} iterations the objective is {self.objective:.6g} and the "
            f"largest component of its gradient {self.gradient:.1e}"
        )
        if self.converged:
            return f"L-BFGS converged: {ended}"
        return (
            f"L-BFGS did not converge ({self.message}): {ended}. Scale the features to unit "
            "variance, raise max_iterations or weight_penalty, loosen tolerance, or train a "
            "float64 model"
        )


def train_full_batch(
    model: nn.Module,
    loss_fn: Loss,
    data: Data,
    *,
    weight_penalty: float = 0.0005,
    tolerance: float = 1e-5,
    max_iterations: int = 1000,
) -> Convergence:
    r"""Minimise the mean loss plus `weight_penalty Σ‖θ‖²` over all examples at once.

    The same data and starting weights give the same result. With a convex loss (cross-entropy) and
    a linear model, it is the optimum; W of a softmax is not convex in the weights, and the result
    is a stationary point.

    Args:
        model: trained in place, without dropout or other randomness; best in float64 where
            `tolerance` is small.
        loss_fn: as for :func:`~wassloss.training.train`.
        data: `(features, target)`, in memory.
        weight_penalty: as in :class:`~wassloss.training.TrainingPlan`; not on biases.
        tolerance: on the largest component of the gradient.
        max_iterations: to give up after, with a :class:`~wassloss.ConvergenceWarning`.

    >>> import wassloss as wl
    >>> x = torch.randn(50, 2)
    >>> model = wl.models.LinearSoftmax(features=2, labels=2)
    >>> report = train_full_batch(model, nn.CrossEntropyLoss(), (x, (x[:, 0] > 0).long()))
    >>> report.converged
    True
    """
    from scipy.optimize import minimize  # a tenth of the time that importing wassloss takes

    check_strength("weight_penalty", weight_penalty)
    check_strength("tolerance", tolerance)
    check_count("max_iterations", max_iterations)
    if not is_in_memory(data):
        raise TypeError(f"data must be (features, target), got {type(data).__name__}")
    parameters = [p for p in model.parameters() if p.requires_grad]
    if not parameters:
        raise ValueError("model must have parameters to train, got none that requires grad")
    device = parameters[0].device
    if isinstance(loss_fn, nn.Module):
        loss_fn.to(device)
    batch: Batch = Examples(data).to(device).columns  # type: ignore[arg-type]

    def objective(flat: NDArray[np.float64]) -> tuple[float, NDArray[np.float64]]:
        _unflatten(flat, parameters)
        model.zero_grad()
        loss = loss_fn(model(batch[0]), *batch[1:])
        for parameter in parameters:
            if weight_penalty and penalized(parameter):
                loss = loss + weight_penalty * parameter.square().sum()
        value = loss.item()
        if not math.isfinite(value):
            raise DivergedError(
                f"the loss is {value} in L-BFGS: look for extreme values in the data, or train "
                "with small steps instead"
            )
        loss.backward()
        return value, _flatten([_gradient(parameter) for parameter in parameters])

    with counting_unconverged():
        found: Any = minimize(
            objective,
            _flatten(parameters),
            jac=True,
            method="L-BFGS-B",
            options={
                "maxiter": max_iterations,
                "maxfun": 20 * max_iterations,
                "gtol": tolerance,
                "ftol": 4 * torch.finfo(parameters[0].dtype).eps,  # as far as the loss can tell
            },
        )
    _unflatten(found.x, parameters)
    model.zero_grad()
    gradient = float(np.abs(found.jac).max())
    report = Convergence(
        converged=bool(found.success),
        iterations=int(found.nit),
        objective=float(found.fun),
        gradient=gradient,
        message=str(found.message),
    )
    if not report.converged:
        warnings.warn(str(report), ConvergenceWarning, stacklevel=2)
    return report


def _gradient(parameter: nn.Parameter) -> Tensor:
    return torch.zeros_like(parameter) if parameter.grad is None else parameter.grad


def _flatten(tensors: list[Any]) -> NDArray[np.float64]:
    flat = torch.cat([tensor.detach().reshape(-1).to(torch.float64) for tensor in tensors])
    array: NDArray[np.float64] = flat.cpu().numpy()
    return array


@torch.no_grad()
def _unflatten(flat: NDArray[np.float64], parameters: list[nn.Parameter]) -> None:
    start = 0
    for parameter in parameters:
        values = torch.from_numpy(flat[start : start + parameter.numel()].copy())
        parameter.copy_(values.view_as(parameter))
        start += parameter.numel()
