"""The base class of the estimators: input checks, fitting, saving, and the model's outputs."""

from __future__ import annotations

import os
import warnings
from collections.abc import Sequence
from dataclasses import KW_ONLY, dataclass
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

from wassloss._checks import (
    check_choice,
    check_count,
    check_flag,
    check_number,
    check_strength,
)
from wassloss.estimators.inputs import (
    check_squares,
    fit_scaler,
    is_matrix,
    model_features,
    read_weight,
)
from wassloss.estimators.labels import Metric
from wassloss.estimators.lbfgs import fit_at_once
from wassloss.estimators.model_file import pack, unpack
from wassloss.estimators.objective import Examples, MeanLoss
from wassloss.estimators.small_steps import EarlyStopping, SmallSteps, fit_by_small_steps
from wassloss.estimators.splitting import held_out
from wassloss.files import write_file
from wassloss.ground import GroundMetric
from wassloss.losses.modules import EPSILON, KL_WEIGHT
from wassloss.targets import SparseTarget, TargetOrSets
from wassloss.transport import ConvergenceWarning
from wassloss.transport.dispatch import unconverged_solves

if TYPE_CHECKING:
    from typing_extensions import Self

_FLOATS = (np.float64, np.float32)
_FULL_BATCH = 2_000_000  # probabilities per iteration, above which small steps are faster
_LBFGS_ITERATIONS = 1000
_STEPS, _PASSES = 1000, 5  # default number of small steps, and the fewest passes over the data
_ROWS = 4096  # most examples to predict at once
_ENTRIES = 2**24  # most entries of (examples, labels) at once, to bound memory


Weights = dict[str, Tensor] | None  # initial weights of a model


class FitWarning(ConvergenceWarning, SklearnConvergenceWarning):  # type: ignore[misc]
    """`fit` stopped before it converged.

    A subclass of the `ConvergenceWarning` of both wassloss and scikit-learn.
    """


@dataclass(eq=False, repr=False)
class TransportEstimator(BaseEstimator):  # type: ignore[misc]
    """Base class: an estimator with a ground metric and a model on standardised features.

    Subclasses define `_build`, which returns an untrained model; `_loss`, which returns the loss
    per example; `_target`, which returns the loss's target; and `_own_state` and `_set_own_state`,
    which get and set the state learned by `fit` besides the attributes below.

    Attributes:
        metric_: the ground metric, with the requested power.
        model_: a model of `wassloss.models`, on standardised features.
        scaler_: the `StandardScaler` of the features, or None.
        n_iter_: number of L-BFGS iterations, or of passes over the data.
        validation_losses_, best_iter_: with `early_stopping`, the loss on the held-out examples
            after each pass, and the pass whose weights were kept, counted from 1.
        n_features_in_, feature_names_in_: as everywhere in scikit-learn.
    """

    # The constructor only assigns the parameters; `fit` checks them.
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
    momentum: float = 0.7
    schedule: str = "cosine"
    batch_size: int = 100
    max_steps: int | None = None
    early_stopping: bool = False
    validation_fraction: float = 0.1
    n_iter_no_change: int = 10
    alpha: float = 1.0
    weight_decay: float | None = None
    standardize: bool = True
    device: str = "cpu"
    random_state: Any = None
    verbose: bool = False

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def save(self, file: str | os.PathLike[str] | BinaryIO) -> None:
        """Write the fitted estimator to a path or an open binary file, without pickle.

        A path is written atomically.
        """
        if isinstance(file, str | os.PathLike):
            write_file(file, pack(self))
        else:
            file.write(pack(self))

    @classmethod
    def load(cls, file: str | os.PathLike[str] | BinaryIO, device: str = "cpu") -> Self:
        """Read an estimator that `save` wrote.

        Args:
            file: a path, or a file opened in binary mode.
            device: the device to predict on.

        Raises:
            ValueError: if the file is truncated or modified, or holds another kind of estimator.
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
        """Check features, `y` of any form and weights (or None), and discard an earlier fit."""
        for name in ("model_", "validation_losses_", "best_iter_"):
            self.__dict__.pop(name, None)
        X, y = self._checked(X, y, multi_output=True, **checks)
        return X, y, None if sample_weight is None else read_weight(sample_weight, X.shape[0])

    def _checked(self, *columns: Any, **checks: Any) -> Any:
        """Check features, or features and `y`, as scikit-learn does."""
        try:
            return validate_data(self, *columns, dtype=_FLOATS, accept_sparse="csr", **checks)
        except ValueError as error:
            if not str(error).startswith("could not convert string"):
                raise
            raise ValueError(
                f"X must hold numbers, {error}; use wl.compare for a data frame with text, or "
                "convert it with skrub's TableVectorizer"
            ) from error

    def _with_power(self, metric: GroundMetric) -> GroundMetric:
        power = self.power
        return metric if power is None else metric.with_cost(power=check_number("power", power))

    def _how(self, weight: float) -> SmallSteps:
        """Check the parameters of the optimiser; settings for examples of this total weight."""
        check_choice("solver", self.solver, ("auto", "lbfgs", "adam", "sgd"))
        for name in ("max_iter", "max_steps"):
            if getattr(self, name) is not None:
                check_count(name, getattr(self, name))
        check_strength("tol", self.tol)
        decay = check_strength("alpha", self.alpha) / weight
        if self.weight_decay is not None:
            decay = check_strength("weight_decay", self.weight_decay)
        if self.solver == "lbfgs" and self._wants_small_steps():
            raise ValueError(
                "solver must be 'auto', 'adam' or 'sgd' if early_stopping or max_steps is set, "
                "got 'lbfgs', which takes no small steps"
            )
        return SmallSteps(
            optimizer="sgd" if self.solver == "sgd" else "adam",
            learning_rate=self.learning_rate,
            momentum=self.momentum,
            weight_decay=decay,
            schedule=self.schedule,
            batch_size=self.batch_size,
            seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
        )

    def _check(self) -> None:
        """Raise a ValueError for parameters that are invalid for any examples."""
        self._how(1.0)
        self._device()

    def _fit(
        self, X: Any, y: Any, weight: NDArray[np.float64] | None, start: Weights = None
    ) -> Self:
        """Train a new model for `metric_`. The estimator counts as fitted once training ends."""
        if weight is not None:
            used = np.flatnonzero(weight)
            X, y, weight = X[used], y[used], weight[used]
        how = self._how(X.shape[0] if weight is None else float(weight.sum()))
        train, held = np.arange(X.shape[0]), None
        if check_flag("early_stopping", self.early_stopping):
            share = check_number("validation_fraction", self.validation_fraction)
            if not 0 < share < 1:
                raise ValueError(f"validation_fraction must be between 0 and 1, got {share:g}")
            classes = None if is_matrix(y) else y
            train, held = held_out(classes, X.shape[0], share, how.seed)
        loss = self._mean_loss()
        dtype = torch.float64 if self._at_once(len(train)) else torch.float32
        model = self._started(how.seed, start).to(self._device(), dtype)
        target = self._target(y, weight)
        if start is None:
            self._begin(model, y, weight)
        own = None if weight is None else weight[train]
        self.scaler_ = (
            fit_scaler(X if held is None else X[train], own) if self.standardize else None
        )
        examples = self._examples_of(X, target, weight, dtype)
        with unconverged_solves() as unconverged:
            if self._at_once(len(train)):
                self._fit_at_once(model, loss, examples, how.weight_decay)
            else:
                self._fit_by_small_steps(model, loss, examples, how, train, held)
        if unconverged:
            warnings.warn(
                f"{len(unconverged)} solves did not converge; the last warning: {unconverged[-1]}",
                ConvergenceWarning,
                stacklevel=3,
            )
        self.model_ = model
        return self

    def _mean_loss(self) -> MeanLoss:
        each = self._loss(epsilon=self.epsilon, kl_weight=self.kl_weight, reduction="none")
        size = each.spec.transport_weight + each.kl_weight
        if not size:
            raise ValueError("transport_weight and kl_weight must not both be 0")
        return MeanLoss(each.to(self._device()), size)

    def _examples_of(
        self, X: Any, target: TargetOrSets, weight: NDArray[np.float64] | None, dtype: torch.dtype
    ) -> Examples:
        """Convert checked examples to the model's inputs, on its device."""
        features = model_features(X, self.scaler_, dtype)
        check_squares(features)
        if isinstance(target, SparseTarget) or (
            isinstance(target, Tensor) and target.is_floating_point()
        ):
            target = target.to(dtype)
        share = None if weight is None else torch.from_numpy(weight / weight.mean()).to(dtype)
        return Examples(features, target, share).to(self._device())

    def _fit_at_once(
        self, model: nn.Module, loss: MeanLoss, examples: Examples, weight_decay: float
    ) -> None:
        most = self.max_iter or _LBFGS_ITERATIONS
        report = fit_at_once(
            model, loss, examples, weight_decay=weight_decay, tol=self.tol, max_iterations=most
        )
        self.n_iter_ = max(1, report.iterations)
        if not report.converged:
            warnings.warn(
                f"fit did not converge in {report.iterations} iterations: the largest component "
                f"of the gradient is {report.gradient:.1e}, tol={self.tol:g}; raise max_iter, "
                "alpha or tol, or take small steps with solver='adam'",
                FitWarning,
                stacklevel=4,
            )

    def _fit_by_small_steps(
        self,
        model: nn.Module,
        loss: MeanLoss,
        examples: Examples,
        how: SmallSteps,
        train: NDArray[np.int64],
        held: NDArray[np.int64] | None,
    ) -> None:
        stopping = None
        if held is not None:
            held_examples = examples[torch.from_numpy(held)]
            stopping = EarlyStopping(held_examples, self.n_iter_no_change, self.tol)
            examples = examples[torch.from_numpy(train)]
        size = len(examples)
        batch = min(how.batch_size, size)
        passes = self.max_iter or max(_PASSES, ceil(_STEPS * batch / size))
        self.n_iter_ = fit_by_small_steps(
            model,
            loss,
            examples,
            how,
            steps=self.max_steps or ceil(passes * size / batch),
            early_stopping=stopping,
            verbose=check_flag("verbose", self.verbose),
        )
        if stopping is not None:
            self.validation_losses_ = np.array(stopping.losses)
            self.best_iter_ = stopping.best_pass

    def _wants_small_steps(self) -> bool:
        return bool(self.early_stopping) or self.max_steps is not None

    def _at_once(self, examples: int) -> bool:
        small = self._linear() and examples * self.metric_.size <= _FULL_BATCH
        auto = self.solver == "auto" and small and not self._wants_small_steps()
        return self.solver == "lbfgs" or auto

    def _linear(self) -> bool:
        return hasattr(self.hidden_layer_sizes, "__len__") and not len(self.hidden_layer_sizes)

    def _started(self, seed: int, start: Weights) -> nn.Module:
        """A new model with the given or its initial weights."""
        with torch.random.fork_rng(devices=[]):
            # Seed only the CPU: the state of GPU generators would not be restored.
            torch.default_generator.manual_seed(seed)
            model: nn.Module = self._build()
        if start is not None:
            model.load_state_dict(start)
        elif self._starts_at_zero():
            for parameter in model.parameters():
                nn.init.zeros_(parameter)
        return model

    def _starts_at_zero(self) -> bool:
        return self._linear()

    def _begin(self, model: Any, y: Any, weight: Any) -> None:
        """Improve the initial weights of a model, in place."""

    def _device(self) -> torch.device:
        try:
            return torch.empty(0, device=self.device).device
        except (RuntimeError, TypeError, AssertionError) as error:
            reason = str(error).splitlines()[0]
            raise ValueError(
                f"device must be available to torch, got {self.device!r}: {reason}"
            ) from error


def rows_at_once(labels: int) -> int:
    """The number of examples to predict at once."""
    return max(1, min(_ROWS, _ENTRIES // labels))
