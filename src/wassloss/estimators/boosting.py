"""scikit-learn's histogram gradient boosting with a Wasserstein loss inside."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import sklearn
from numpy.typing import NDArray
from sklearn.ensemble import HistGradientBoostingClassifier

from wassloss.boosting import Objective, objective
from wassloss.estimators.labels import Classes, Metric, labels_of_classes
from wassloss.losses.modules import EPSILON, KL_WEIGHT


def _spelled_out(init: Callable[..., None]) -> inspect.Signature:
    """The signature with the parameters of scikit-learn's class in place of the last, `**`."""
    *own, _ = inspect.signature(init).parameters.values()
    _, *theirs = inspect.signature(HistGradientBoostingClassifier.__init__).parameters.values()
    by_name = inspect.Parameter.KEYWORD_ONLY
    return inspect.Signature([*own, *(each.replace(kind=by_name) for each in theirs)])


class WassersteinHistGradientBoostingClassifier(HistGradientBoostingClassifier):  # type: ignore[misc]
    """scikit-learn's `HistGradientBoostingClassifier` with `W + kl_weight · KL` as its loss.

    Trees, early stopping, categories, gaps and weights are scikit-learn's. For LightGBM and
    XGBoost, see :func:`wassloss.boosting.objective`.

    Args:
        metric: the ground metric of the labels; a matrix of distances; ``"ordinal"`` for classes
            that are numbers; or None for the 0-1 metric.
        classes: the class of each label of the metric, in its order, as in
            :class:`~wassloss.estimators.WassersteinClassifier`. Those that the data lack are never
            predicted.
        epsilon: entropic strength.
        kl_weight: weight of the KL term; with 0, some must be left in ``epsilon``.
        power: exponent of the cost; None for the metric's own.
        **trees: parameters of `HistGradientBoostingClassifier`, such as ``max_iter``.

    Attributes:
        classes_: sorted.
        metric_: the ground metric.

    >>> import numpy as np, wassloss as wl
    >>> X = np.random.default_rng(0).normal(size=(300, 2))
    >>> y = np.digitize(X[:, 0], [-1, 0, 1])
    >>> model = wl.estimators.WassersteinHistGradientBoostingClassifier("ordinal", max_iter=20)
    >>> bool(model.fit(X, y).score(X, y) > 0.95)
    True
    """

    def __init__(
        self,
        metric: Metric = None,
        *,
        classes: Classes = None,
        epsilon: float = EPSILON,
        kl_weight: float = KL_WEIGHT,
        power: float | None = None,
        **trees: Any,
    ) -> None:
        super().__init__(**trees)
        self.metric, self.classes, self.power = metric, classes, power
        self.epsilon, self.kl_weight = epsilon, kl_weight

    # scikit-learn's own parameters in place of `trees`, as its tools and `help` want them.
    __init__.__signature__ = _spelled_out(__init__)  # type: ignore[attr-defined]

    def fit(self, X: Any, y: Any, sample_weight: Any = None, **validation: Any) -> Any:
        """Fit to examples; arguments are those of scikit-learn's class."""
        super().fit(X, y, sample_weight, **validation)
        # `_encode_y` and `_get_loss` are scikit-learn's own business, which a version may change.
        if not isinstance(getattr(self, "_loss", None), _Loss):
            raise RuntimeError(
                f"scikit-learn {sklearn.__version__} did not take the loss: use another version, "
                "or wassloss.boosting.objective with LightGBM or XGBoost"
            )
        return self

    def _encode_y(self, y: NDArray[Any]) -> NDArray[np.float64]:
        """Number the classes, of which a fold may lack some: all have a score."""
        labels = labels_of_classes(np.unique(y), self.metric, self.classes, self.power)
        self._labels, self.metric_ = labels, labels.metric
        encoded: NDArray[np.float64] = super()._encode_y(np.concatenate([labels.classes, y]))
        return encoded[len(labels.classes) :]

    def _get_loss(self, sample_weight: Any) -> _Loss:
        chosen = objective(self.metric_, epsilon=self.epsilon, kl_weight=self.kl_weight)
        places = self._labels.places
        chosen = replace(chosen, costs=chosen.costs[np.ix_(places, places)])
        return _Loss(super()._get_loss(sample_weight=sample_weight), chosen)


@dataclass(frozen=True)
class _Loss:
    """Ours, where scikit-learn has cross-entropy, whose first guess and softmax stay."""

    cross_entropy: Any
    objective: Objective

    def __getattr__(self, name: str) -> Any:
        if name in ("cross_entropy", "objective") or name.startswith("__"):
            raise AttributeError(name)  # while a pickle is read
        return getattr(self.cross_entropy, name)

    def __call__(
        self, y_true: Any, raw_prediction: Any, sample_weight: Any = None, n_threads: int = 1
    ) -> float:
        """The mean loss, by which early stopping decides."""
        values = self.objective.values(y_true, _columns(raw_prediction))
        return float(np.average(values, weights=sample_weight))

    def gradient_hessian(
        self,
        y_true: Any,
        raw_prediction: Any,
        sample_weight: Any,
        gradient_out: Any,
        hessian_out: Any,
        n_threads: int = 1,
    ) -> tuple[Any, Any]:
        """Write both where scikit-learn wants them."""
        found = self.objective(y_true, _columns(raw_prediction), sample_weight)
        for place, value in zip((gradient_out, hessian_out), found, strict=True):
            place[...] = value.reshape(place.shape)
        return gradient_out, hessian_out


def _columns(raw: NDArray[Any]) -> NDArray[Any]:
    """Raw scores; of two classes, there is one column only."""
    return raw[:, 0] if raw.ndim == 2 and raw.shape[1] == 1 else raw
