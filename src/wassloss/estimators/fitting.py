"""From a model and data to a fitted model: all at once, or in small steps."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace
from math import ceil

import numpy as np
import torch
from sklearn.exceptions import ConvergenceWarning as SklearnConvergenceWarning
from torch import Tensor, nn

from wassloss._checks import check_count, check_strength
from wassloss.targets import Target
from wassloss.training import DivergedError, TrainingPlan, train, train_full_batch
from wassloss.training.examples import Examples
from wassloss.transport import ConvergenceWarning

SOLVERS = ("auto", "lbfgs", "adam", "sgd")
_FULL_BATCH = 2_000_000  # probabilities per iteration, above which small steps are faster
_LBFGS_ITERATIONS = 1000
_STEPS, _PASSES = 1000, 5  # take this many small steps, but at least so many passes over the data


class FitWarning(ConvergenceWarning, SklearnConvergenceWarning):  # type: ignore[misc]
    """`fit` stopped before it converged: wassloss's and scikit-learn's `ConvergenceWarning`."""


class Objective(nn.Module):
    """The weighted mean of a loss in a unit of cost, so that the penalty has no unit.

    The mean is over the batch, not over its weight: heavy examples make for a larger step.
    """

    def __init__(self, loss: nn.Module, unit: float) -> None:
        super().__init__()
        self.loss, self.unit = loss, unit

    def forward(self, outputs: Tensor, target: Target, weight: Tensor | None = None) -> Tensor:
        values: Tensor = self.loss(outputs, target)
        return (values if weight is None else weight * values).mean() / self.unit


@dataclass(frozen=True)
class FitPlan:
    """How to fit, checked: the estimators' keywords of the same names."""

    solver: str
    max_iter: int | None
    tol: float
    learning_rate: float | None
    batch_size: int
    alpha: float
    seed: int

    def __post_init__(self) -> None:
        if self.solver not in SOLVERS:
            raise ValueError(f"solver must be one of {SOLVERS}, got {self.solver!r}")
        if self.max_iter is not None:
            check_count("max_iter", self.max_iter)
        check_strength("tol", self.tol)
        check_strength("alpha", self.alpha)
        self.small_steps()  # checks the rest

    def small_steps(self) -> TrainingPlan:
        """The optimiser, its rate and the batches of small steps."""
        return TrainingPlan(
            optimizer="sgd" if self.solver == "sgd" else "adam",
            learning_rate=self.learning_rate,
            batch_size=self.batch_size,
            weight_decay=self.alpha,
            schedule="cosine",
            seed=self.seed,
        )

    def dtype(self, examples: int, labels: int, linear: bool) -> torch.dtype:
        """Double precision to fit all at once, single precision for small steps."""
        small = linear and examples * labels <= _FULL_BATCH
        at_once = self.solver == "lbfgs" or (self.solver == "auto" and small)
        return torch.float64 if at_once else torch.float32

    def fit(self, model: nn.Module, objective: Objective, data: tuple[Target, ...]) -> int:
        """Train a model of the `dtype` above in place.

        Returns:
            The iterations, or passes over the data, that it took.
        """
        if next(model.parameters()).dtype == torch.float64:
            return self._all_at_once(model, objective, data)
        examples = len(data[0])  # type: ignore[arg-type]
        batch = min(self.batch_size, examples)
        passes = self.max_iter or max(_PASSES, ceil(_STEPS * batch / examples))
        steps = ceil(passes * examples / batch)
        plan = replace(self.small_steps(), steps=steps, batch_size=batch, log_every=steps)
        train(model, objective, data, plan, progress=False)
        return passes

    def _all_at_once(self, model: nn.Module, objective: Objective, data: tuple[Target, ...]) -> int:
        with warnings.catch_warnings():
            # It names its own keywords; ours have scikit-learn's names.
            warnings.filterwarnings("ignore", "L-BFGS did not converge", ConvergenceWarning)
            report = train_full_batch(
                model,
                objective,
                data,
                weight_decay=self.alpha,
                tol=self.tol,
                max_iterations=self.max_iter or _LBFGS_ITERATIONS,
            )
        if not report.converged:
            warnings.warn(
                f"fit did not converge in {report.iterations} iterations: the largest component "
                f"of the gradient is {report.gradient:.1e}, tol={self.tol:g}; raise max_iter, "
                "alpha or tol, or take small steps with solver='adam'",
                FitWarning,
                stacklevel=5,
            )
        return max(1, report.iterations)


class SmallSteps:
    """Passes over one batch of data after another, with an optimiser that outlives them."""

    def __init__(self, plan: FitPlan, model: nn.Module, objective: Objective) -> None:
        self.model, self.objective = model, objective
        self.optimizer = plan.small_steps().build_optimizer(model.parameters())
        self.batch_size = plan.batch_size
        self.random = np.random.default_rng(plan.seed)

    def take(self, data: tuple[Target, ...]) -> None:
        """Go once over the data.

        Raises:
            DivergedError: the loss is not finite; the weights are as they were before it.
        """
        device = next(self.model.parameters()).device
        examples = Examples(data).to(device)
        self.model.train()
        order = torch.from_numpy(self.random.permutation(len(examples)))
        for rows in order.split(self.batch_size):
            features, *rest = examples.take(rows.to(device))
            self.optimizer.zero_grad()
            loss = self.objective(self.model(features), *rest)
            if not loss.isfinite():
                raise DivergedError(
                    f"the loss is {loss.item()} in partial_fit: lower learning_rate"
                )
            loss.backward()
            self.optimizer.step()
