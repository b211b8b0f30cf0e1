r"""Gradient boosting: the Wasserstein loss plus KL as the objective of LightGBM and XGBoost.

>>> import wassloss as wl
>>> objective = wl.boosting.objective(wl.ground.Ordinal(5))  # LGBMClassifier(objective=objective)

With one true class κ the loss is :math:`\sum_j h_j M_{j\kappa} + \varepsilon \sum_j h_j \log h_j -
w \log h_\kappa`, where h is the softmax of the raw scores and w is ``kl_weight``. With
:math:`\phi_j = M_{j\kappa} + \varepsilon \log h_j` its derivatives in the raw scores are

.. math:: g_j = t_j + w (h_j - [j = \kappa]), \qquad t_j = h_j (\phi_j - \langle h, \phi \rangle)

.. math:: H_{jj} = t_j (1 - 2 h_j) + (\varepsilon + w)\, h_j (1 - h_j)

Boosting divides by the second derivative, which must be positive, so the first of its two terms
is replaced by its absolute value.

If the target is a set S of classes, :math:`M_{j\kappa}` becomes the minimum over S, and the
shares :math:`h_j / h(S)` of its classes replace :math:`[j = \kappa]`. The curvature of the shares
is not positive and is left out: as in expectation maximisation, the second derivative is then an
upper bound.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import log_softmax, softmax

from wassloss._checks import check_strength
from wassloss.ground.matrix import AnyMetric, as_ground_metric
from wassloss.losses.baselines.per_example import cost_table
from wassloss.losses.modules import EPSILON, KL_WEIGHT
from wassloss.sets import SetTarget
from wassloss.targets import ReadSets
from wassloss.transport import one_label

__all__ = ["objective"]


def __dir__() -> list[str]:
    return __all__


Array = NDArray[np.float64]


def objective(
    metric: AnyMetric,
    *,
    epsilon: float = EPSILON,
    kl_weight: float = KL_WEIGHT,
    sets: SetTarget | None = None,
) -> Objective:
    """The loss of :class:`~wassloss.WassersteinLoss` as a custom objective for boosted trees.

    :class:`~wassloss.estimators.WassersteinBoostingClassifier` is a classifier that uses it. In
    your own code, pass it as ``objective`` to `LGBMClassifier` and `XGBClassifier`, in the
    parameters of `lightgbm.train` (with ``num_class``), or as ``obj`` to `xgboost.train`. Classes
    are numbered from 0 in the order of the metric's labels, and all of them must occur in the
    training data. LightGBM's `predict_proba` then returns raw scores, whose softmax gives the
    probabilities.

    Args:
        metric: the ground metric, or a matrix of distances; costs are in units of the median.
        epsilon: entropic strength.
        kl_weight: weight of the KL term; if it is 0, ``epsilon`` must be positive.
        sets: sets of classes. The labels of the data are then indices into `sets`. Only for
            `lightgbm.train` and `xgboost.train`, because estimators infer the number of classes
            from the labels.

    >>> import numpy as np, wassloss as wl
    >>> gradient, hessian = wl.boosting.objective(wl.ground.Ordinal(3))(
    ...     np.array([0]), np.zeros((1, 3))
    ... )
    >>> gradient
    array([[-0.6667,  0.1667,  0.5   ]])
    """
    metric = as_ground_metric(metric).in_medians()
    epsilon, kl_weight = check_strength("epsilon", epsilon), check_strength("kl_weight", kl_weight)
    if epsilon + kl_weight == 0:
        raise ValueError("epsilon and kl_weight must not both be 0: curvature must be positive")
    costs = cost_table(metric).cpu().double().numpy()
    if sets is None:
        return Objective(costs, epsilon, kl_weight)
    checked, _, _ = ReadSets(sets.first, sets.last, sets.members).checked(metric.size)
    allowed = checked.allowed(metric.size).cpu().numpy()
    nearest = np.stack([costs[row].min(0) for row in allowed])
    return Objective(nearest, epsilon, kl_weight, allowed)


@dataclass(frozen=True)
class Objective:
    """The objective of :func:`objective`; a class, so that models with it can be pickled."""

    costs: Array  # row κ: from every label to label κ, or to the nearest label of set κ
    epsilon: float
    kl_weight: float
    allowed: NDArray[np.bool_] | None = None  # (sets, labels) mask of each set's labels

    def __call__(self, first: Any, second: Any, sample_weight: Any = None) -> tuple[Array, Array]:
        """Gradient and second derivatives, in the shape of the raw scores.

        Estimators pass class ids and raw scores; `train` passes raw scores and a data set.
        """
        if hasattr(second, "get_label"):
            first, second, sample_weight = second.get_label(), first, second.get_weight()
        gradient, curvature = self.derivatives(*self._checked(first, second))
        if sample_weight is not None and len(sample_weight):
            weight = np.asarray(sample_weight, dtype=np.float64)[:, None]
            gradient, curvature = weight * gradient, weight * curvature
        if np.ndim(second) == 1:  # binary: the score of the second class
            return gradient[:, 1], curvature[:, 1]
        return gradient, curvature

    def derivatives(self, ids: NDArray[np.int64], raw: Array) -> tuple[Array, Array]:
        """Gradient and second derivatives `(n, labels)` for class ids, or indices of sets."""
        log_h = log_softmax(raw, axis=1)
        h = np.exp(log_h)
        slope = one_label.slope(log_h, self.costs[ids], self.epsilon)
        mean = (h * slope).sum(1, keepdims=True)
        if self.allowed is None:
            shares = np.eye(len(self.costs))[ids]
        else:
            shares = softmax(np.where(self.allowed[ids], log_h, -np.inf), axis=1)
        gradient = one_label.gradient(h, slope, mean, self.kl_weight, shares)
        transport = h * (slope - mean)
        spread = (self.epsilon + self.kl_weight) * h * (1 - h)
        curvature = np.abs(transport * (1 - 2 * h)) + spread
        return gradient, np.maximum(curvature, 1e-16)

    def mean_loss(self, ids: Any, raw: Any, sample_weight: Any = None) -> float:
        """The weighted mean of the loss, for class ids and raw scores `(n, labels)`."""
        ids, raw = self._checked(ids, raw)
        log_h = log_softmax(raw, axis=1)
        slope = one_label.slope(log_h, self.costs[ids], self.epsilon)
        surprise = -log_h[np.arange(len(ids)), ids]
        each = (np.exp(log_h) * slope).sum(1) + self.kl_weight * surprise
        weighted = sample_weight is not None and len(sample_weight)
        return float(np.average(each, weights=sample_weight if weighted else None))

    def _checked(self, ids: Any, raw: Any) -> tuple[NDArray[np.int64], Array]:
        ids, raw = np.asarray(ids), np.asarray(raw, dtype=np.float64)
        count, labels = self.costs.shape
        if raw.ndim == 1 and labels == 2:
            raw = np.stack([np.zeros_like(raw), raw], axis=1)
        if raw.shape != (len(ids), labels):
            raise ValueError(
                f"raw scores must have shape ({len(ids)}, {labels}), one column per label of the "
                f"metric, got {raw.shape}: check that the data contain all {labels} classes"
            )
        whole = ids.astype(np.int64)
        if (whole != ids).any() or (len(ids) and not 0 <= whole.min() <= whole.max() < count):
            what = "class ids" if self.allowed is None else "indices of sets"
            raise ValueError(f"y must hold {what} in 0..{count - 1}, got {np.unique(ids)}")
        return whole, raw
