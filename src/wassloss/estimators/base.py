"""What the estimators share: reading their input, fitting, saving, and the output of the model."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import BaseEstimator
from sklearn.preprocessing import StandardScaler
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from torch import Tensor, nn

from wassloss._checks import check_number, check_strength
from wassloss._files import replacing
from wassloss.estimators.fitting import FitPlan, Objective
from wassloss.estimators.labels import Metric
from wassloss.estimators.model_file import FittedModel, one_line_errors, pack, unpack
from wassloss.estimators.standardization import check_squares, fit_scaler, model_features
from wassloss.estimators.targets import cast
from wassloss.ground import GroundMetric
from wassloss.ground._cost import typical_cost
from wassloss.losses import RelaxedWassersteinLoss, WassersteinLoss
from wassloss.targets import Target

if TYPE_CHECKING:
    from typing_extensions import Self

_FLOATS = (np.float64, np.float32)


class TransportEstimator(BaseEstimator):  # type: ignore[misc]
    """An estimator with a ground metric and a model on standardised features.

    Attributes:
        metric_: the ground metric, with the requested power.
        epsilon_, kl_weight_: as given, or their defaults for the metric.
        model_: from `wassloss.models`; takes standardised features.
        scaler_: the `StandardScaler` before it, or None.
        n_iter_: iterations of L-BFGS, or passes over the data.
        n_features_in_, feature_names_in_: as everywhere in scikit-learn.
    """

    # Set by the constructors of the estimators, and left alone until `fit`.
    metric: Metric
    kl_weight: float | None
    epsilon: float | None
    power: float | None
    hidden_layer_sizes: Sequence[int]
    solver: str
    max_iter: int | None
    tol: float
    learning_rate: float | None
    batch_size: int
    alpha: float
    standardize: bool
    device: str
    random_state: Any

    metric_: GroundMetric
    model_: nn.Module
    scaler_: StandardScaler | None
    n_iter_: int
    epsilon_: float
    kl_weight_: float

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the fitted estimator to one file, completely or not at all, without pickle.

        The state of `partial_fit`'s optimiser is not saved.
        """
        check_is_fitted(self, "model_")
        state = {
            "params": {name: _plain(name, v) for name, v in self.get_params(deep=False).items()},
            "n_iter": self.n_iter_,
            "epsilon": self.epsilon_,
            "kl_weight": self.kl_weight_,
            "own": self._own_state(),
        }
        content = pack(self._fitted(), type(self).__name__, state)
        with replacing(path) as temporary:
            temporary.write_bytes(content)

    @classmethod
    def load(cls, path: str | os.PathLike[str], device: str = "cpu") -> Self:
        """Read what `save` wrote.

        Args:
            path: the file.
            device: where to predict.

        Raises:
            ValueError: the file is cut short, was changed, or holds another estimator.
        """
        content = Path(path).read_bytes()
        with one_line_errors(path, cls.__name__):
            fitted, state = unpack(content)
            if state["kind"] != cls.__name__:
                raise ValueError(f"it holds a {state['kind']}: use {state['kind']}.load")
            return cls._restored(fitted, state, device)

    @classmethod
    def _restored(cls, fitted: FittedModel, state: dict[str, Any], device: str) -> Self:
        params = {name: _tupled(value) for name, value in state["params"].items()}
        if params["metric"] == _GIVEN:
            params["metric"] = fitted.metric
        estimator = cls(**params | {"device": device})
        estimator.metric_, estimator.scaler_ = fitted.metric, fitted.scaler
        estimator.model_ = fitted.model.to(estimator._device())
        estimator.n_features_in_ = fitted.features
        if fitted.feature_names is not None:
            estimator.feature_names_in_ = np.array(fitted.feature_names, dtype=object)
        estimator.n_iter_ = state["n_iter"]
        estimator.epsilon_, estimator.kl_weight_ = state["epsilon"], state["kl_weight"]
        estimator._set_own_state(state["own"])
        return estimator

    def _own_state(self) -> dict[str, Any]:
        """What `fit` learned besides the metric, the scaler and the model, as JSON holds it."""
        raise NotImplementedError

    def _set_own_state(self, state: dict[str, Any]) -> None:
        """Restore `_own_state`, once `metric_` is there."""
        raise NotImplementedError

    def _fitted(self) -> FittedModel:
        names = getattr(self, "feature_names_in_", None)
        return FittedModel(
            self.metric_, self.model_, self.scaler_, None if names is None else tuple(names)
        )

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
        """Remove what an earlier fit would be continued from."""
        for name in ("model_", "scaler_", "_steps"):
            self.__dict__.pop(name, None)

    def _plan(self) -> FitPlan:
        return FitPlan(
            self.solver,
            self.max_iter,
            self.tol,
            self.learning_rate,
            self.batch_size,
            self.alpha,
            seed=int(check_random_state(self.random_state).randint(2**31 - 1)),
        )

    def _power(self) -> float | None:
        return None if self.power is None else check_number("power", self.power)

    def _linear(self) -> bool:
        sizes = self.hidden_layer_sizes
        if not hasattr(sizes, "__len__") or isinstance(sizes, str):
            raise TypeError(
                f"hidden_layer_sizes must be a sequence of widths, such as (128,), got {sizes!r}"
            )
        return len(sizes) == 0

    def _kl_weight(self) -> float:
        if self.kl_weight is None:
            return 0.1 * typical_cost(self.metric_)
        return check_strength("kl_weight", self.kl_weight)

    def _loss(self) -> WassersteinLoss | RelaxedWassersteinLoss:
        """The loss of each example."""
        raise NotImplementedError

    def _objective(self) -> Objective:
        """The loss in a unit in which `alpha` means the same for every metric."""
        loss = self._loss()
        self.epsilon_ = loss.spec.objective.epsilon
        self.kl_weight_ = loss.kl_weight
        return Objective(loss, typical_cost(self.metric_) + loss.kl_weight).to(self._device())

    def _build(self) -> nn.Module:
        """An untrained model."""
        raise NotImplementedError

    def _start(self, seed: int, dtype: torch.dtype) -> None:
        """Create the model; a linear one begins at zero, as there is no symmetry to break."""
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            model = self._build()
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
        """Train the model; if training is interrupted, the estimator is not fitted."""
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
        features = model_features(X, self.scaler_, dtype)
        check_squares(features)
        columns = (features, cast(target, dtype))
        return columns if weight is None else (*columns, torch.from_numpy(weight).to(dtype))

    def _standardize(self, X: NDArray[Any], weight: NDArray[np.float64] | None) -> None:
        """Learn means and scales, in addition to what earlier batches taught."""
        before = getattr(self, "scaler_", None)
        self.scaler_ = fit_scaler(X, weight, before) if self.standardize else None

    def _outputs(self, X: Any) -> Tensor:
        """The model's outputs `(n, labels)` for new examples, in double precision."""
        check_is_fitted(self, "model_")
        X = validate_data(self, X, reset=False, dtype=_FLOATS)
        return self._fitted().outputs(X).double()

    def _device(self) -> torch.device:
        try:
            return torch.empty(0, device=self.device).device
        except (RuntimeError, TypeError, AssertionError) as error:
            reason = str(error).splitlines()[0]
            raise ValueError(
                f"device must be one that torch has, got {self.device!r}: {reason}"
            ) from error


def read_weight(sample_weight: Any, examples: int) -> NDArray[np.float64]:
    """One weight per example: finite, not negative, not all zero."""
    weight = np.array(sample_weight, dtype=np.float64)
    if weight.shape != (examples,):
        raise ValueError(f"sample_weight must have shape ({examples},), got {weight.shape}")
    wrong = ~(np.isfinite(weight) & (weight >= 0))
    if wrong.any():
        raise ValueError(f"sample_weight must be finite and not negative, got {weight[wrong][0]}")
    if not weight.any():
        raise ValueError("sample_weight must have a positive weight, got only zeros")
    return weight


def weighted_rows(
    X: NDArray[Any], y: Any, weight: NDArray[np.float64] | None
) -> tuple[NDArray[Any], Any, NDArray[np.float64] | None]:
    """The examples whose weight is not zero."""
    if weight is None:
        return X, y, None
    used = np.flatnonzero(weight)
    return X[used], y[used], weight[used]


_GIVEN = "given"  # in place of a metric among the parameters: the one that the file holds


def _plain(name: str, value: Any) -> Any:
    """A parameter as JSON holds it."""
    if name == "metric" and value is not None and not isinstance(value, str):
        return _GIVEN
    if isinstance(value, np.generic | np.ndarray | Tensor):
        value = value.tolist()
    if isinstance(value, tuple | list):
        return [_plain(name, each) for each in value]
    if isinstance(value, dict):
        return {"dict": [_plain(name, pair) for pair in value.items()]}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    raise ValueError(f"{name}={value!r} cannot be saved: set it to a number or None first")


def _tupled(value: Any) -> Any:
    if isinstance(value, dict):
        return dict(value["dict"])
    return tuple(_tupled(each) for each in value) if isinstance(value, list) else value
