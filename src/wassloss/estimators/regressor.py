"""The regressor for unnormalised measures."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from torch import nn

from wassloss import models
from wassloss._checks import check_strength
from wassloss.estimators.base import TransportEstimator, weighted_rows
from wassloss.estimators.labels import Metric, labels_of_columns
from wassloss.ground import GroundMetric
from wassloss.ground._cost import blocks
from wassloss.losses import RelaxedWassersteinLoss

if TYPE_CHECKING:
    from typing_extensions import Self


class WassersteinMeasureRegressor(RegressorMixin, TransportEstimator):  # type: ignore[misc]
    """A mass for every label, of any total: heat maps, counts, spectra.

    A linear model or a perceptron followed by a softplus, trained with the relaxed loss: moved mass
    costs what the ground metric says, and missing or excess mass what `gamma` says.

    Args:
        metric: the ground metric of the labels; a matrix of distances; ``"ordinal"`` for labels
            in a row; or None for the 0-1 metric.
        gamma: price of a mismatch of masses, as in :class:`~wassloss.RelaxedWassersteinLoss`.
        kl_weight: weight of `KL~(y ‖ prediction)`, by default a tenth of the median cost.
        epsilon, power, hidden_layer_sizes, solver, max_iter, tol: as in
            :class:`WassersteinClassifier`.
        learning_rate, batch_size, alpha, standardize, device, random_state: the same.

    Attributes:
        mass_unit_: what masses are divided by before they reach the loss, so that their unit does
            not matter and the entropy neither adds nor removes mass overall.

    >>> import numpy as np, wassloss as wl
    >>> X = np.linspace(0, 1, 20)[:, None]
    >>> y = np.hstack([1 + 3 * X, 2 - X, 1 + 0 * X])
    >>> wl.WassersteinMeasureRegressor("ordinal").fit(X, y).score(X, y) > 0.5
    True
    """

    mass_unit_: float

    def __init__(
        self,
        metric: Metric = None,
        *,
        gamma: float | Iterable[float] | None = None,
        kl_weight: float | None = None,
        epsilon: float | None = None,
        power: float | None = None,
        hidden_layer_sizes: Sequence[int] = (),
        solver: str = "auto",
        max_iter: int | None = None,
        tol: float = 1e-5,
        learning_rate: float | None = None,
        batch_size: int = 100,
        alpha: float = 0.001,
        standardize: bool = True,
        device: str = "cpu",
        random_state: Any = None,
    ) -> None:
        self.metric = metric
        self.gamma = gamma
        self.kl_weight = kl_weight
        self.epsilon = epsilon
        self.power = power
        self.hidden_layer_sizes = hidden_layer_sizes
        self.solver = solver
        self.max_iter = max_iter
        self.tol = tol
        self.learning_rate = learning_rate
        self.batch_size = batch_size
        self.alpha = alpha
        self.standardize = standardize
        self.device = device
        self.random_state = random_state

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.single_output = False
        tags.target_tags.multi_output = True
        tags.target_tags.positive_only = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to examples.

        Args:
            X: features `(n, d)`, dense.
            y: masses `(n, labels)`: not negative, some in every row.
            sample_weight: how much each example counts, `(n,)`.
        """
        self._forget()
        plan = self._plan()
        X, y, weight = self._read(X, y, sample_weight, y_numeric=True)
        y = _read_masses(y)
        self.metric_ = labels_of_columns(y.shape[1], self.metric, None, self._power()).metric
        X, y, weight = weighted_rows(X, y, weight)
        self._standardize(X, weight)
        objective = self._objective()
        mean = np.average(y, axis=0, weights=weight)
        self.mass_unit_ = _mass_unit(y, weight, self.metric_, self.epsilon_)
        self._start(plan.seed, plan.dtype(len(y), y.shape[1], self._linear()))
        self._begin_at(mean / self.mass_unit_)
        target = torch.from_numpy(y / self.mass_unit_)
        self._train(plan, objective, X, target, weight)
        return self

    def predict(self, X: Any) -> NDArray[np.float64]:
        """Masses `(n, labels)`, all positive."""
        masses: NDArray[np.float64] = self._outputs(X).exp().numpy()
        return self.mass_unit_ * masses

    def _own_state(self) -> dict[str, Any]:
        return {"mass_unit": self.mass_unit_}

    def _set_own_state(self, state: dict[str, Any]) -> None:
        self.mass_unit_ = check_strength("mass_unit", state["mass_unit"])

    def _build(self) -> nn.Module:
        labels = self.metric_.size
        return models.MeasureModel(self.n_features_in_, labels, self.hidden_layer_sizes)

    @torch.no_grad()
    def _begin_at(self, masses: NDArray[np.float64]) -> None:
        """Start from a model that predicts the same masses for all, up to its hidden layers."""
        last: Any = self.model_.scores.layers[-1]  # type: ignore[union-attr, index]
        m = torch.from_numpy(masses.clip(1e-3)).to(last.bias)
        last.bias.copy_(m + torch.log(-torch.expm1(-m)))  # where softplus is m

    def _loss(self) -> RelaxedWassersteinLoss:
        return RelaxedWassersteinLoss(
            self.metric_,
            epsilon=self.epsilon,
            gamma=self.gamma,
            kl_weight=self._kl_weight(),
            reduction="none",
        )


def _read_masses(y: Any) -> NDArray[np.float64]:
    if hasattr(y, "toarray"):
        y = y.toarray()
    if y.ndim != 2:
        raise ValueError(f"y must have shape (n, labels), got {y.shape}; y[:, None] for one label")
    if y.dtype.kind not in "fiub":
        raise ValueError(f"y must hold numbers, got {y.dtype}")
    if y.min() < 0:
        raise ValueError(f"y must not be negative, got {y.min()}")
    masses: NDArray[np.float64] = y.astype(np.float64)
    empty = np.flatnonzero(masses.sum(axis=1) == 0)
    if len(empty):
        raise ValueError(f"y must have some mass in every row, got none in row {empty[0]}")
    return masses


def _mass_unit(
    y: NDArray[np.float64], weight: NDArray[np.float64] | None, metric: GroundMetric, epsilon: float
) -> float:
    r"""The unit in which the entropy favours neither more mass nor less.

    The relaxed loss of a target `y` is least where label j sends `y_j^{1-ρ} c_j^ρ`, with
    `ρ = ε / (ε + γ_b)` and `c_j = Σ_i exp(−M_ij / ε − 1)`: masses are drawn towards `c`. In the
    unit `exp(Σ y log(y / c) / Σ y)` that changes the total mass by nothing, to first order in `ρ`.
    """
    every = torch.arange(metric.size, device=metric.device)
    reach = torch.cat(
        [
            (-metric.cost_columns(some).detach().double() / epsilon - 1).exp().sum(1)
            for some in blocks(every, metric.size)
        ]
    ).cpu()
    ratio = y / reach.numpy()
    log_ratio = np.log(ratio, out=np.zeros_like(ratio), where=y > 0)
    share = y if weight is None else weight[:, None] * y
    return float(np.exp((share * log_ratio).sum() / share.sum()))
