"""Regressor: masses over the labels, trained with the relaxed Wasserstein loss."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import RegressorMixin
from torch import Tensor, nn

from wassloss import models
from wassloss._checks import check_strength
from wassloss.estimators.base import TransportEstimator
from wassloss.estimators.inputs import read_masses
from wassloss.estimators.labels import labels_of_columns
from wassloss.ground import GroundMetric
from wassloss.ground._cost import blocks
from wassloss.losses import RelaxedWassersteinLoss

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(eq=False, repr=False, kw_only=True)
class WassersteinMeasureRegressor(RegressorMixin, TransportEstimator):  # type: ignore[misc]
    """Predict a mass for every label, of any total: heat maps, counts, spectra.

    The model is linear or a perceptron, followed by a softplus. It is trained with the relaxed
    loss, where the ground metric sets the cost of moved mass, and `gamma` that of missing or excess
    mass.

    Args:
        metric: the ground metric of the labels; a matrix of distances; ``"ordinal"`` for labels
            in a row; or None for the 0-1 metric.
        gamma: price of missing or excess mass, as in :class:`~wassloss.RelaxedWassersteinLoss`.
        kl_weight: weight of `KL~(y ‖ prediction)`.
        epsilon, power, hidden_layer_sizes, solver, max_iter, tol: as in
            :class:`WassersteinClassifier`.
        learning_rate, momentum, schedule, batch_size, max_steps: the same.
        early_stopping, validation_fraction, n_iter_no_change: the same.
        alpha, weight_decay, standardize, device, random_state, verbose: the same.

    Attributes:
        mass_unit_: the unit by which masses are divided before the loss. It makes the fit
            independent of the unit of `y`, and keeps the entropy from adding or removing mass.

    >>> import numpy as np, wassloss as wl
    >>> X = np.linspace(0, 1, 20)[:, None]
    >>> y = np.hstack([1 + 3 * X, 2 - X, 1 + 0 * X])
    >>> wl.WassersteinMeasureRegressor("ordinal").fit(X, y).score(X, y) > 0.5
    True
    """

    gamma: float | Iterable[float] = 1.0

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.single_output = False
        tags.target_tags.multi_output = True
        tags.target_tags.positive_only = True
        return tags

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model.

        Args:
            X: features `(n, d)`, dense or `scipy.sparse`.
            y: masses `(n, labels)`: non-negative, and not all 0 in any row.
            sample_weight: weight per example, `(n,)`.
        """
        X, y, weight = self._read(X, y, sample_weight, y_numeric=True)
        y = read_masses(y)
        self.metric_ = self._with_power(labels_of_columns(y.shape[1], self.metric, None).metric)
        return self._fit(X, y, weight)

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

    def _loss(self, **keywords: Any) -> RelaxedWassersteinLoss:
        return RelaxedWassersteinLoss(self.metric_, gamma=self.gamma, **keywords)

    def _target(self, y: NDArray[np.float64], weight: NDArray[np.float64] | None) -> Tensor:
        self.mass_unit_ = _mass_unit(y, weight, self.metric_.in_medians(), self.epsilon)
        return torch.from_numpy(y / self.mass_unit_)

    @torch.no_grad()
    def _begin(self, model: Any, y: Any, weight: Any) -> None:
        """Set the last bias so that a linear model predicts the mean masses."""
        last = model.scores.layers[-1]
        mean = np.average(y, axis=0, weights=weight) / self.mass_unit_
        m = torch.from_numpy(mean.clip(1e-3)).to(last.bias)
        last.bias.copy_(m + torch.log(-torch.expm1(-m)))  # inverse softplus


def _mass_unit(
    y: NDArray[np.float64], weight: NDArray[np.float64] | None, metric: GroundMetric, epsilon: float
) -> float:
    r"""The unit of mass in which the entropy favours neither more mass nor less.

    The relaxed loss of a target `y` is minimal if label j sends `y_j^{1-ρ} c_j^ρ`, where
    `ρ = ε / (ε + γ_b)` and `c_j = Σ_i exp(−M_ij / ε − 1)`: masses are drawn towards `c`. In the
    unit `exp(Σ y log(y / c) / Σ y)`, this leaves the total mass unchanged to first order in `ρ`.
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
