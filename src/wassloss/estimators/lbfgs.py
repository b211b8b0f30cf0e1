"""Full-batch L-BFGS: no learning rate, no batches, no randomness."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import linear
from torch.nn.utils import parameters_to_vector

from wassloss.estimators.objective import Examples, MeanLoss, check_finite, is_penalized
from wassloss.models import Linear

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

Flat = NDArray[np.float64]
Objective = Callable[[Flat], tuple[float, Flat]]  # parameters → value and gradient


@dataclass(frozen=True)
class Convergence:
    """How L-BFGS ended."""

    converged: bool  # whether the gradient, or the progress, fell below what was asked for
    iterations: int
    objective: float  # the final mean loss plus `½ weight_decay Σ‖θ‖²`
    gradient: float  # the largest component of its gradient


def fit_at_once(
    model: nn.Module,
    loss: MeanLoss,
    examples: Examples,
    *,
    weight_decay: float,
    tol: float,
    max_iterations: int,
) -> Convergence:
    """Minimise the mean loss plus `½ weight_decay Σ‖θ‖²`, not on biases, over all examples.

    The result is the optimum if the loss is convex in the parameters, as cross-entropy is for a
    linear model; for W of a softmax, a stationary point.

    Args:
        model: trained in place, on the device of the examples; in float64 if `tol` is small.
        loss: the mean loss.
        examples: all at once.
        weight_decay: strength of the penalty.
        tol: on the largest component of the gradient.
        max_iterations: after which to give up.

    Raises:
        DivergedError: the loss is not finite.
    """
    from scipy.optimize import minimize  # takes a tenth of the time that importing wassloss takes

    if isinstance(model, Linear):
        objective = _linear_objective(model, loss, examples, weight_decay)
    else:
        objective = _objective(model, loss, examples, weight_decay)
    parameters = list(model.parameters())
    rounding = 4 * torch.finfo(parameters[0].dtype).eps  # of the loss
    limits = {"maxiter": max_iterations, "maxfun": 20 * max_iterations}
    options = {**limits, "gtol": tol, "ftol": rounding}
    # Vectors as short as these gain nothing from SciPy's threads, which would keep torch's waiting:
    # on two cores a fit of 300 rows took 0.4 s instead of 0.03 s.
    with _blas().limit(limits=1, user_api="blas"):
        start = _flat(parameters)
        found: Any = minimize(objective, start, jac=True, method="L-BFGS-B", options=options)
    _set(parameters, found.x)
    largest = float(np.abs(found.jac).max())
    return Convergence(bool(found.success), found.nit, float(found.fun), largest)


def _objective(
    model: nn.Module, loss: MeanLoss, examples: Examples, weight_decay: float
) -> Objective:
    """The objective of any model."""
    parameters = list(model.parameters())

    def objective(flat: Flat) -> tuple[float, Flat]:
        _set(parameters, flat)
        value = loss(model(examples.features), examples)
        for parameter in parameters:
            if weight_decay and is_penalized(parameter):
                value = value + weight_decay / 2 * parameter.square().sum()
        gradients = torch.autograd.grad(value, parameters, materialize_grads=True)
        return check_finite(value.item(), "in L-BFGS"), _flat(gradients)

    return objective


def _linear_objective(
    model: Linear, loss: MeanLoss, examples: Examples, weight_decay: float
) -> Objective:
    """The objective of a linear model, without the overhead of autograd and modules.

    If `G (n, labels)` is the gradient in the logits, that in the weights is `Gᵀ X`.
    """
    weight, bias = model.linear.weight, model.linear.bias
    features, scale = examples.features, 1 / (len(examples) * loss.size)

    @torch.no_grad()
    def objective(flat: Flat) -> tuple[float, Flat]:
        theta = torch.from_numpy(flat).to(weight)
        w, b = theta[: weight.numel()].view_as(weight), theta[weight.numel() :]
        logits = linear(features, w, None if bias is None else b)
        total, slope = loss.sum_with_gradient(logits, examples)
        value = scale * total.item() + weight_decay / 2 * w.square().sum().item()
        gradients = [scale * (slope.T @ features) + weight_decay * w]
        if bias is not None:
            gradients.append(scale * slope.sum(0))
        return check_finite(value, "in L-BFGS"), _flat(gradients)

    return objective


def _flat(tensors: Sequence[Tensor]) -> Flat:
    array: Flat = parameters_to_vector(tensors).detach().double().cpu().numpy()
    return array


@torch.no_grad()
def _set(parameters: Sequence[nn.Parameter], flat: Flat) -> None:
    pieces = torch.tensor(flat).split([parameter.numel() for parameter in parameters])
    for parameter, values in zip(parameters, pieces, strict=True):
        parameter.copy_(values.view_as(parameter))


@cache
def _blas() -> ThreadpoolController:
    """The BLAS libraries of the process, after SciPy has loaded its own; found in 3 ms."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
