"""What the estimators share: reading their input, fitting, and the output of the model."""

from __future__ import annotations

import copy
import os
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from wassloss._checks import check_strength
from wassloss._precision import narrowed
from wassloss.estimators.fitting import FitPlan, Objective
from wassloss.estimators.target import cast
from wassloss.ground import GroundMetric
from wassloss.ground._summaries import typical_cost
from wassloss.losses import RelaxedWassersteinLoss, WassersteinLoss
from wassloss.targets import Target

if TYPE_CHECKING:
    from typing_extensions import Self

_FLOATS = (np.float64, np.float32)
_ROWS = 8192  # examples that are predicted at a time


class TransportEstimator(BaseEstimator):  # type: ignore[misc]
    """An estimator with a ground metric and a model on standardised features.

    Attributes:
        metric_: the ground metric, with the power asked for.
        epsilon_, kl_weight_: as given, or their defaults for the metric.
        model_: from `wassloss.models`; takes standardised features.
        scaler_: the `StandardScaler` before it, or None.
        n_iter_: iterations of L-BFGS, or passes over the data.
        n_features_in_, feature_names_in_: as everywhere in scikit-learn.
    """

    # Set by the constructors of the estimators, and untouched until `fit`.
    kl_weight: float | None
    epsilon: float | None
    hidden: Sequence[int]
    solver: str
    max_iter: int | None
    tol: float
    learning_rate: float | None
    batch_size: int
    weight_penalty: float
    standardize: bool
    device: str
    random_state: Any

    metric_: GroundMetric
    model_: nn.Module
    scaler_: StandardScaler | None
    n_iter_: int

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to one file, all or nothing and without pickle.

        The state of `partial_fit`'s optimiser is not part of it.
        """
        from wassloss.estimators.storage import save

        check_is_fitted(self, "model_")
        save(self, path)

    @classmethod
    def load(cls, path: str | os.PathLike[str], device: str = "cpu") -> Self:
        """Read what `save` wrote.

        Args:
            path: the file.
            device: where to predict.

        Raises:
            ValueError: the file is cut short, was tampered with, or holds another estimator.
        """
        from wassloss.estimators.storage import load

        return load(cls, path, device)

    def _own_state(self) -> dict[str, Any]:
        """What `fit` learned beside the metric, the scaler and the model, as JSON holds it."""
        raise NotImplementedError

    def _set_own_state(self, state: dict[str, Any]) -> None:
        """Take up `_own_state`, once `metric_` is there."""
        raise NotImplementedError

    def _read(
        self, X: Any, y: Any, sample_weight: Any, reset: bool = True, y_numeric: bool = False
    ) -> tuple[NDArray[Any], Any, NDArray[np.float64] | None]:
        """Checked features, `y` of any form, and weights."""
        X, y = validate_data(
            self, X, y, reset=reset, multi_output=True, y_numeric=y_numeric, dtype=_FLOATS
        )
        weight = None if sample_weight is None else read_weight(sample_weight, len(X))
        return X, y, weight

    def _forget(self) -> None:
        """Nothing of an earlier fit is gone on from."""
        for name in ("model_", "scaler_", "_steps"):
            self.__dict__.pop(name, None)

    def _plan(self) -> FitPlan:
        return FitPlan(
            self.solver,
            self.max_iter,
            self.tol,
            self.learning_rate,
            self.batch_size,
            self.weight_penalty,
            seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
        )

    def _linear(self) -> bool:
        if not hasattr(self.hidden, "__len__") or isinstance(self.hidden, str):
            raise TypeError(
                f"hidden must be a sequence of widths, such as (128,), got {self.hidden!r}"
            )
        return len(self.hidden) == 0

    def _kl_weight(self) -> float:
        if self.kl_weight is None:
            return 0.1 * typical_cost(self.metric_)
        return check_strength("kl_weight", self.kl_weight)

    def _loss(self) -> WassersteinLoss | RelaxedWassersteinLoss:
        """The loss of each example; sets `metric_`'s defaults."""
        raise NotImplementedError

    def _objective(self) -> Objective:
        """The loss in a unit for which the weight penalty means the same for every metric."""
        loss = self._loss()
        self.epsilon_ = loss.spec.objective.epsilon
        self.kl_weight_ = loss.kl_weight
        return Objective(loss, typical_cost(self.metric_) + loss.kl_weight).to(self._device())

    def _start(self, model: nn.Module, dtype: torch.dtype) -> None:
        """Take a model, which begins at zero where it has no hidden layers to break a symmetry."""
        if self._linear():
            for parameter in model.parameters():
                nn.init.zeros_(parameter)
        self.model_ = model.to(self._device(), dtype)

    def _train(
        self,
        plan: FitPlan,
        objective: Objective,
        X: NDArray[Any],
        target: Target,
        weight: NDArray[np.float64] | None,
    ) -> None:
        """Train the model, or have none."""
        mean_one = None if weight is None else weight / weight.mean()
        try:
            self.n_iter_ = plan.fit(self.model_, objective, self._columns(X, target, mean_one))
        except BaseException:
            self._forget()
            raise

    def _columns(
        self, X: NDArray[Any], target: Target, weight: NDArray[np.float64] | None
    ) -> tuple[Target, ...]:
        """What the training takes: standardised features, target, weights."""
        dtype = next(self.model_.parameters()).dtype
        features = self._features(X)
        _check_squares(features)
        columns = (features, cast(target, dtype))
        return columns if weight is None else (*columns, torch.from_numpy(weight).to(dtype))

    def _standardize(self, X: NDArray[Any], weight: NDArray[np.float64] | None) -> None:
        """Learn the features' means and scales, added to what earlier batches taught."""
        if not self.standardize:
            self.scaler_ = None
            return
        # A copy: a batch that is refused below must not have changed it.
        scaler = copy.deepcopy(getattr(self, "scaler_", None)) or StandardScaler()
        with np.errstate(over="ignore", invalid="ignore"):  # looked for below
            scaler.partial_fit(X, sample_weight=weight)
        wrong = np.flatnonzero(~np.isfinite(scaler.var_))
        if len(wrong):
            column, largest = wrong[0], np.abs(X[:, wrong[0]]).max()
            raise ValueError(
                f"X must have a finite variance in {X.dtype}, got numbers up to {largest:g} in "
                f"column {column}; divide that column by its size"
            )
        self.scaler_ = scaler

    def _features(self, X: NDArray[Any]) -> Tensor:
        scaled = X if self.scaler_ is None else self.scaler_.transform(X)
        # Copied into torch's memory, which is aligned: on NumPy's, matrix products may end on
        # other last bits from one call to the next, and a fit would not repeat exactly.
        name = "X" if self.scaler_ is None else "X, standardized,"
        own = torch.tensor(scaled)
        return narrowed(name, own, next(self.model_.parameters()).dtype)

    @torch.no_grad()
    def _outputs(self, X: Any) -> Tensor:
        """The model's outputs `(n, labels)` for new examples, in double precision."""
        check_is_fitted(self, "model_")
        X = validate_data(self, X, reset=False, dtype=_FLOATS)
        self.model_.eval()
        device = next(self.model_.parameters()).device
        parts = [self.model_(rows.to(device)).cpu() for rows in self._features(X).split(_ROWS)]
        return torch.cat(parts).double()

    def _device(self) -> torch.device:
        try:
            return torch.empty(0, device=self.device).device
        except (RuntimeError, TypeError, AssertionError) as error:
            reason = str(error).splitlines()[0]
            raise ValueError(
                f"device must be one that torch has, got {self.device!r}: {reason}"
            ) from error


def _check_squares(features: Tensor) -> None:
    """Gradients are products with the features, and optimisers square them."""
    wrong = features.abs() > torch.finfo(features.dtype).max ** 0.5
    if wrong.any():
        row, column = wrong.nonzero()[0].tolist()
        raise ValueError(
            f"X must have features whose squares fit {features.dtype}, got "
            f"{features[row, column].item():g} in row {row}, column {column}; pass "
            "standardize=True, or divide that column by its size"
        )


def read_weight(sample_weight: Any, examples: int) -> NDArray[np.float64]:
    """One weight an example: finite, not negative, not all zero."""
    weight = np.array(sample_weight, dtype=np.float64)
    if weight.shape != (examples,):
        raise ValueError(f"sample_weight must have shape ({examples},), got {weight.shape}")
    wrong = ~(np.isfinite(weight) & (weight >= 0))
    if wrong.any():
        raise ValueError(f"sample_weight must be finite and not negative, got {weight[wrong][0]}")
    if not weight.any():
        raise ValueError("sample_weight must have a positive weight, got only zeros")
    return weight


def counting_rows(
    X: NDArray[Any], y: Any, weight: NDArray[np.float64] | None
) -> tuple[NDArray[Any], Any, NDArray[np.float64] | None]:
    """The examples that count."""
    if weight is None:
        return X, y, None
    used = np.flatnonzero(weight)
    return X[used], y[used], weight[used]
