"""Full-batch L-BFGS, without learning rate, mini-batches or randomness."""

from __future__ import annotations

from collections.abc import Sequence
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
from wassloss.estimators.sparse_rows import SparseRows
from wassloss.models import Linear

if TYPE_CHECKING:
    from threadpoolctl import ThreadpoolController

Flat = NDArray[np.float64]
_LEAST_ROWS_EACH = 4  # fewest rows per feature for which moments are informative
_MOST_FACTORED = 256  # most features for which the factorisation costs less than it saves


@dataclass(frozen=True)
class Convergence:
    """The result of L-BFGS."""

    converged: bool  # whether the gradient or the progress fell below its tolerance
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

    If the loss is convex in the parameters, as cross-entropy is for a linear model, the result is
    the optimum; for W of a softmax, it is a stationary point.

    Args:
        model: trained in place, on the device of the examples; in float64 if `tol` is small.
        loss: the mean loss.
        examples: the full batch.
        weight_decay: strength of the penalty.
        tol: tolerance on the largest component of the gradient.
        max_iterations: the largest number of iterations.

    Raises:
        DivergedError: if the loss is not finite.
    """
    from scipy.optimize import minimize  # on demand: 10 % of the time to import wassloss

    if isinstance(model, Linear):
        objective: _Objective = _LinearObjective(model, loss, examples, weight_decay)
    else:
        objective = _Objective(model, loss, examples, weight_decay)
    rounding = 4 * torch.finfo(objective.parameters[0].dtype).eps  # relative error of the loss
    limits = {"maxiter": max_iterations, "maxfun": 20 * max_iterations}
    options = {**limits, "gtol": 0.0, "ftol": rounding}

    def stop(_: Flat) -> None:
        if objective.largest <= tol:
            raise StopIteration

    # These short vectors gain nothing from BLAS threads, which would block torch's: on two cores, a
    # fit of 300 rows took 0.4 s instead of 0.03 s.
    with _blas().limit(limits=1, user_api="blas"):
        start, how = objective.start(), {"jac": True, "method": "L-BFGS-B", "options": options}
        found: Any = minimize(objective, start, callback=stop, **how)
    if not np.array_equal(found.x, objective.at):  # the last step of a line search was discarded
        objective(found.x)
    objective.finish()
    converged = bool(found.success) or objective.largest <= tol
    return Convergence(converged, found.nit, float(found.fun), objective.largest)


class _Objective:
    """The mean loss plus the penalty, as a function of the parameters of any model.

    Attributes:
        at: the point of the last evaluation.
        largest: the largest component of the gradient there, in the model's parameters.
    """

    def __init__(
        self, model: nn.Module, loss: MeanLoss, examples: Examples, weight_decay: float
    ) -> None:
        self.model, self.loss, self.examples, self.decay = model, loss, examples, weight_decay
        self.parameters = list(model.parameters())
        self.at, self.largest = np.empty(0), np.inf

    def start(self) -> Flat:
        """The initial point."""
        return _flat(self.parameters)

    def __call__(self, flat: Flat) -> tuple[float, Flat]:
        self.at = flat.copy()
        self.finish()
        value = self.loss(self.model(self.examples.features), self.examples)
        for parameter in self.parameters:
            if self.decay and is_penalized(parameter):
                value = value + self.decay / 2 * parameter.square().sum()
        gradients = torch.autograd.grad(value, self.parameters, materialize_grads=True)
        gradient = _flat(gradients)
        self.largest = float(np.abs(gradient).max())
        return check_finite(value.item(), "in L-BFGS"), gradient

    @torch.no_grad()
    def finish(self) -> None:
        """Copy the point to the model's parameters."""
        pieces = torch.from_numpy(self.at).split([p.numel() for p in self.parameters])
        for parameter, values in zip(self.parameters, pieces, strict=True):
            parameter.copy_(values.view_as(parameter))


class _LinearObjective(_Objective):
    """The objective of a linear model, without the overhead of autograd and modules.

    If `G (n, labels)` is the gradient in the logits, `Gᵀ X` is the gradient in the weights. The
    variables are `Θ L`, where `L Lᵀ` are the second moments of the features. This preconditions the
    problem, so that correlated features need no more iterations than others.
    """

    def __init__(
        self, model: Linear, loss: MeanLoss, examples: Examples, weight_decay: float
    ) -> None:
        super().__init__(model, loss, examples, weight_decay)
        self.weight, self.bias = model.linear.weight, model.linear.bias
        factor = _factor_of_moments(examples, len(self.weight) * weight_decay)
        self.factor = None if factor is None else factor.to(self.weight)

    @torch.no_grad()
    def start(self) -> Flat:
        weight = self.weight if self.factor is None else self.weight @ self.factor
        return _flat([weight] if self.bias is None else [weight, self.bias])

    @torch.no_grad()
    def __call__(self, flat: Flat) -> tuple[float, Flat]:
        self.at = flat.copy()
        weight, bias = self._read()
        examples, scale = self.examples, 1 / (len(self.examples) * self.loss.size)
        total, slope = self.loss.sum_with_gradient(
            linear(examples.features, weight, bias), examples
        )
        value = scale * total.item() + self.decay / 2 * weight.square().sum().item()
        gradients = [scale * (slope.T @ examples.features) + self.decay * weight]
        if bias is not None:
            gradients.append(scale * slope.sum(0))
        self.largest = max(float(each.abs().max()) for each in gradients)
        if self.factor is not None:
            gradients[0] = torch.linalg.solve_triangular(
                self.factor.T, gradients[0], upper=True, left=False
            )
        return check_finite(value, "in L-BFGS"), _flat([each.contiguous() for each in gradients])

    @torch.no_grad()
    def finish(self) -> None:
        weight, bias = self._read()
        self.weight.copy_(weight)
        if bias is not None:
            self.bias.copy_(bias)

    def _read(self) -> tuple[Tensor, Tensor | None]:
        """The weights and the bias at the point `at`."""
        theta = torch.from_numpy(self.at).to(self.weight)
        weight, bias = theta[: self.weight.numel()].view_as(self.weight), None
        if self.factor is not None:
            weight = torch.linalg.solve_triangular(self.factor, weight, upper=False, left=False)
        if self.bias is not None:
            bias = theta[self.weight.numel() :]
        return weight, bias


@cache
def _blas() -> ThreadpoolController:
    """The BLAS libraries of the process. Call it after SciPy has loaded its own; takes 3 ms."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()


def _factor_of_moments(examples: Examples, ridge: float) -> Tensor | None:
    """The Cholesky factor of `Xᵀ diag(weight) X / n + ridge`; None if it is not worth its time."""
    features, weight = examples.features, examples.weight
    rows, width = features.shape
    if width > _MOST_FACTORED or rows < _LEAST_ROWS_EACH * width:
        return None
    if isinstance(features, SparseRows):
        moments = features.moments(weight)
    else:
        weighted = features if weight is None else weight.unsqueeze(1) * features
        moments = weighted.T @ features / rows
    # Bound the condition number by about 1000 × features, so that rounding errors stay small.
    moments.diagonal().add_(ridge + 1e-3 * float(moments.diagonal().mean()))
    factor, failed = torch.linalg.cholesky_ex(moments)
    return None if failed else factor


def _flat(tensors: Sequence[Tensor]) -> Flat:
    array: Flat = parameters_to_vector(tensors).detach().double().cpu().numpy()
    return array
