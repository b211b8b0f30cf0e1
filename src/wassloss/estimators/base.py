"""What the estimators share: reading their input, fitting, saving, and the output of the model."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning as SklearnConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from wassloss._checks import check_choice, check_count, check_number, check_strength
from wassloss.estimators.inputs import (
    check_squares,
    fit_scaler,
    model_features,
    read_weight,
)
from wassloss.estimators.labels import Metric
from wassloss.estimators.model_file import pack, unpack
from wassloss.files import write_file
from wassloss.ground import GroundMetric
from wassloss.losses.modules import EPSILON, KL_WEIGHT
from wassloss.targets import SparseTarget, Target
from wassloss.training import TrainingPlan, train, train_full_batch
from wassloss.transport import ConvergenceWarning

if TYPE_CHECKING:
    from typing_extensions import Self

_FLOATS = (np.float64, np.float32)
_FULL_BATCH = 2_000_000  # probabilities per iteration, above which small steps are faster
_LBFGS_ITERATIONS = 1000
_STEPS, _PASSES = 1000, 5  # take this many small steps, but at least so many passes over the data
_LOG_EVERY = 10  # steps between lines of a log
_ROWS = 4096  # examples that are predicted at once, at most
_ENTRIES = 2**24  # of (examples, labels) at once, so that memory is bounded whatever the labels


Weights = dict[str, Tensor] | None  # to begin with


class FitWarning(ConvergenceWarning, SklearnConvergenceWarning):  # type: ignore[misc]
    """`fit` stopped before it converged: wassloss's and scikit-learn's `ConvergenceWarning`."""


class WeightedMean(nn.Module):
    """The weighted mean of a loss, divided by its size, so that `alpha` means the same for all.

    The mean is over the batch, not over its weight: heavy examples make for a larger step.
    """

    def __init__(self, loss: nn.Module, size: float) -> None:
        super().__init__()
        self.loss, self.size = loss, size

    def forward(self, outputs: Tensor, target: Target, weight: Tensor | None = None) -> Tensor:
        values: Tensor = self.loss(outputs, target)
        return (values if weight is None else weight * values).mean() / self.size


@dataclass(eq=False, repr=False)
class TransportEstimator(BaseEstimator):  # type: ignore[misc]
    """An estimator with a ground metric and a model on standardised features.

    Subclasses define `_build`, an untrained model; `_loss`, of each example; `_target`, for it; and
    `_own_state` and `_set_own_state`, what `fit` learns besides the attributes below.

    Attributes:
        metric_: the ground metric, with the requested power.
        model_: from `wassloss.models`; takes standardised features.
        scaler_: the `StandardScaler` before it, or None.
        n_iter_: iterations of L-BFGS, or passes over the data.
        n_features_in_, feature_names_in_: as everywhere in scikit-learn.
    """

    # The parameters: the constructor only assigns them, and `fit` checks them.
    metric: Metric = None
    _: KW_ONLY
    kl_weight: float = KL_WEIGHT
    epsilon: float = EPSILON
    power: float | None = None
    hidden_layer_sizes: Sequence[int] = ()
    solver: str = "auto"
    max_iter: int | None = None
    tol: float = 1e-5
    learning_rate: float | None = None
    batch_size: int = 100
    alpha: float = 1.0
    standardize: bool = True
    device: str = "cpu"
    random_state: Any = None

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def save(self, file: str | os.PathLike[str] | BinaryIO) -> None:
        """Write the fitted estimator to a path or an open binary file, without pickle.

        A file at a path is written completely or not at all.
        """
        if isinstance(file, str | os.PathLike):
            write_file(file, pack(self))
        else:
            file.write(pack(self))

    @classmethod
    def load(cls, file: str | os.PathLike[str] | BinaryIO, device: str = "cpu") -> Self:
        """Read what `save` wrote.

        Args:
            file: a path, or a file that is open for reading bytes.
            device: where to predict.

        Raises:
            ValueError: the file is cut short, was changed, or holds another estimator.
        """
        if isinstance(file, str | os.PathLike):
            content, name = Path(file).read_bytes(), os.fspath(file)
        else:
            content, name = file.read(), getattr(file, "name", "the file")
        found: Self = unpack(content, name, device, cls)
        return found

    @torch.no_grad()
    def _outputs(self, X: Any) -> Tensor:
        """The model's outputs `(n, labels)` for new examples, in double precision."""
        check_is_fitted(self, "model_")
        X, weights = self._checked(X, reset=False), next(self.model_.parameters())
        self.model_.eval()
        many = rows_at_once(self.metric_.size)
        pieces = (X[start : start + many] for start in range(0, max(1, X.shape[0]), many))
        rows = (model_features(piece, self.scaler_, weights.dtype) for piece in pieces)
        return torch.cat([self.model_(some.to(weights.device)).cpu() for some in rows]).double()

    def _read(self, X: Any, y: Any, sample_weight: Any, **checks: Any) -> Any:
        """Checked features, `y` of any form, and weights or None; forgets an earlier fit."""
        self.__dict__.pop("model_", None)
        X, y = self._checked(X, y, multi_output=True, **checks)
        return X, y, None if sample_weight is None else read_weight(sample_weight, X.shape[0])

    def _checked(self, *columns: Any, **checks: Any) -> Any:
        """Features, or features and `y`, as scikit-learn checks them."""
        try:
            return validate_data(self, *columns, dtype=_FLOATS, accept_sparse="csr", **checks)
        except ValueError as error:
            if not str(error).startswith("could not convert string"):
                raise
            raise ValueError(
                f"X must hold numbers, {error}; wl.compare takes a data frame with text, and "
                "skrub's TableVectorizer makes numbers of one"
            ) from error

    def _with_power(self, metric: GroundMetric) -> GroundMetric:
        power = self.power
        return metric if power is None else metric.with_cost(power=check_number("power", power))

    def _plan(self, weight: float) -> TrainingPlan:
        """How to take small steps on examples of this total weight; checks all that says how."""
        check_choice("solver", self.solver, ("auto", "lbfgs", "adam", "sgd"))
        if self.max_iter is not None:
            check_count("max_iter", self.max_iter)
        check_strength("tol", self.tol)
        return TrainingPlan(
            optimizer="sgd" if self.solver == "sgd" else "adam",
            learning_rate=self.learning_rate,
            batch_size=self.batch_size,
            weight_decay=check_strength("alpha", self.alpha) / weight,
            schedule="cosine",
            seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
        )

    def _check(self) -> None:
        """Refuse parameters that are wrong whatever the examples are."""
        self._plan(1.0)
        self._device()

    def _fit(self, X: Any, y: Any, weight: Any, start: Weights = None) -> Self:
        return self._train(*self._prepared(X, y, weight, start))

    def _prepared(
        self, X: Any, y: Any, weight: NDArray[np.float64] | None, start: Weights = None
    ) -> tuple[nn.Module, WeightedMean, tuple[Any, ...], TrainingPlan]:
        """A new model for `metric_`, its loss, the data, and how to take small steps."""
        if weight is not None:
            used = np.flatnonzero(weight)
            X, y, weight = X[used], y[used], weight[used]
        plan = self._plan(X.shape[0] if weight is None else float(weight.sum()))
        self.scaler_ = fit_scaler(X, weight) if self.standardize else None
        each = self._loss(epsilon=self.epsilon, kl_weight=self.kl_weight, reduction="none")
        size = each.spec.transport_weight + each.kl_weight
        if not size:
            raise ValueError("transport_weight and kl_weight must not both be 0")
        loss = WeightedMean(each, size).to(self._device())
        target = self._target(y, weight)
        dtype = torch.float64 if self._at_once(X.shape[0]) else torch.float32
        model = self._started(plan.seed, start).to(self._device(), dtype)
        if start is None:
            self._begin(model, y, weight)
        features = model_features(X, self.scaler_, dtype)
        check_squares(features)
        if isinstance(target, SparseTarget) or target.is_floating_point():
            target = target.to(dtype)
        data: tuple[Any, ...] = (features, target)
        if weight is not None:
            data += (torch.from_numpy(weight / weight.mean()).to(dtype),)
        return model, loss, data, plan

    def _train(
        self,
        model: nn.Module,
        loss: WeightedMean,
        data: tuple[Any, ...],
        plan: TrainingPlan,
        *,
        begin: Callable[[], None] | None = None,
        checkpoint_every: int = 1000,
        progress: bool | None = False,
        **kept: Any,
    ) -> Self:
        """Train what was prepared; only when that is done, the estimator is fitted.

        Small steps are kept as :func:`~wassloss.training.train` says.
        """
        examples = len(data[0])
        if self._at_once(examples):
            if begin is not None:
                begin()
            self.n_iter_ = self._fit_at_once(model, loss, data, plan.weight_decay)
        else:
            batch = min(plan.batch_size, examples)
            self.n_iter_ = self.max_iter or max(_PASSES, ceil(_STEPS * batch / examples))
            steps = ceil(self.n_iter_ * examples / batch)
            plan = replace(
                plan,
                steps=steps,
                batch_size=batch,
                log_every=_LOG_EVERY if kept else steps,
                checkpoint_every=checkpoint_every,
            )
            train(model, loss, data, plan, begin=begin, progress=progress, **kept)
        self.model_ = model
        return self

    def _fit_at_once(self, model: nn.Module, loss: WeightedMean, data: Any, decay: float) -> int:
        """Train by L-BFGS; returns the iterations that it took."""
        most = self.max_iter or _LBFGS_ITERATIONS
        report = train_full_batch(
            model, loss, data, weight_decay=decay, tol=self.tol, max_iterations=most
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

    def _at_once(self, examples: int) -> bool:
        small = self._linear() and examples * self.metric_.size <= _FULL_BATCH
        return self.solver == "lbfgs" or (self.solver == "auto" and small)

    def _linear(self) -> bool:
        return hasattr(self.hidden_layer_sizes, "__len__") and not len(self.hidden_layer_sizes)

    def _started(self, seed: int, start: Weights) -> nn.Module:
        """A new model with given weights; without any, a linear one begins at zero."""
        with torch.random.fork_rng(devices=[]):
            torch.default_generator.manual_seed(seed)  # no GPU's, which would not be restored
            model: nn.Module = self._build()
        if start is not None:
            model.load_state_dict(start)
        elif self._linear():
            for parameter in model.parameters():
                nn.init.zeros_(parameter)
        return model

    def _begin(self, model: Any, y: Any, weight: Any) -> None:
        """Change the first weights of a model that has a better guess."""

    def _device(self) -> torch.device:
        try:
            return torch.empty(0, device=self.device).device
        except (RuntimeError, TypeError, AssertionError) as error:
            reason = str(error).splitlines()[0]
            raise ValueError(
                f"device must be one that torch has, got {self.device!r}: {reason}"
            ) from error


def rows_at_once(labels: int) -> int:
    """How many examples to predict at once."""
    return max(1, min(_ROWS, _ENTRIES // labels))
