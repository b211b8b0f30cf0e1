"""Classifier: a linear softmax model or a perceptron, trained with a Wasserstein loss."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.validation import check_array, check_is_fitted
from torch import Tensor, nn

from wassloss import models
from wassloss._checks import check_choice, check_flag, check_strength
from wassloss.decisions import least_cost_label, least_cost_labels, top_labels
from wassloss.estimators.base import TransportEstimator, Weights
from wassloss.estimators.inputs import (
    is_matrix,
    read_classes_or_weights,
    target_of_weights,
)
from wassloss.estimators.labels import (
    Classes,
    Labels,
    Metric,
    labels_of_classes,
    labels_of_columns,
    refuse_ordered_categories,
)
from wassloss.estimators.scoring import make_scorer
from wassloss.ground import GroundMetric
from wassloss.losses import WassersteinLoss
from wassloss.scores import accuracy
from wassloss.sets import SetTarget
from wassloss.targets import TargetOrSets

if TYPE_CHECKING:
    from typing_extensions import Self

_DECISIONS = ("probable", "least_cost")


@dataclass(eq=False, repr=False, kw_only=True)
class WassersteinClassifier(ClassifierMixin, TransportEstimator):  # type: ignore[misc]
    r"""A linear softmax model, or a perceptron, trained with `W + kl_weight · KL`.

    It minimises the weighted mean of

    .. math:: \frac{\omega\,W(h_\theta(x), y) + \kappa\,\mathrm{KL}}{\omega + \kappa}

    plus `½ alpha / n Σ‖θ‖²` (not on biases), where `ω` is `transport_weight`, `κ` is `kl_weight`,
    `n` the total weight of the examples, and costs are in units of the median cost between two
    labels. With `transport_weight=0` that is `LogisticRegression(C=1 / alpha)` on standardised
    features.

    Args:
        metric: the ground metric of the labels; a matrix of distances; ``"ordinal"`` for numeric
            classes at their values on a line, or for names listed by `classes` in their order,
            evenly spaced; or None for the 0-1 metric.
        classes: the class of each label of the metric, in the metric's order. By default, the
            metric's `labels` or, if it has none, label numbers in 0..K-1. The data must then
            include class 0, because 1, 2, 3 may be classes counted from 1.
            scikit-learn's ensembles (bagging, voting, stacking) and `cross_val_predict` for
            probabilities number the classes in sorted order before they fit. Pass them label
            numbers as `y`, and here a ground metric and `classes=range(K)`: ``"ordinal"`` alone
            would put names in alphabetical order and space numbers evenly.
        kl_weight, epsilon, softening, transport_weight, scaling_iterations, normalize_cost: as in
            :class:`~wassloss.WassersteinLoss`, with its defaults.
        power: exponent of the cost; None to keep the metric's power.
        hidden_layer_sizes: width of each hidden layer; empty for a linear model.
        fit_intercept: whether a linear model has an intercept.
        init: initial weights of a linear model: ``"zeros"``, or ``"random"``, which is torch's
            default. Hidden layers always start from random weights.
        solver: ``"lbfgs"`` on the full batch; ``"adam"`` or ``"sgd"`` on mini-batches; ``"auto"``
            for L-BFGS if the model is linear, `n × labels` is at most two million, and neither
            `early_stopping` nor `max_steps` is set, and for Adam otherwise.
        max_iter: the largest number of L-BFGS iterations, by default 1000; or the number of passes
            over the data, by default at least 5, and enough for 1000 steps.
        tol: for L-BFGS, the tolerance on the gradient's largest component; with early stopping, the
            decrease of the loss that counts as an improvement.
        learning_rate: initial learning rate of Adam or SGD; by default 0.01 and 0.1.
        momentum: momentum of SGD.
        schedule: learning rate schedule: ``"cosine"``, which falls to 0 at the last step, or
            ``"constant"``.
        batch_size: examples per mini-batch.
        max_steps: number of mini-batch steps, instead of `max_iter` passes.
        early_stopping: hold out a part of the examples, stratified by class, and stop Adam or SGD
            when the loss on it no longer falls. The weights with the lowest loss are kept.
        validation_fraction: the share of the examples to hold out.
        n_iter_no_change: number of consecutive passes without improvement after which to stop.
        alpha: strength of the penalty, which is divided by the number of examples, as in
            scikit-learn's `MLPClassifier`.
        weight_decay: strength of the penalty, not divided by anything, as in `torch.optim`; None
            for `alpha / n`.
        class_weight: a dictionary, or ``"balanced"``, as in scikit-learn; multiplies
            `sample_weight`. For class ids only.
        standardize: scale the features to mean 0 and variance 1; sparse features stay sparse.
        decision: predict the most ``"probable"`` label, or the label of ``"least_cost"`` in
            expectation.
        device: the device to train and predict on.
        random_state: seeds random weights, the order of mini-batches and the held-out examples.
        verbose: show the progress of Adam or SGD: a bar if tqdm is installed, otherwise lines.

    Attributes:
        classes_: the classes: sorted for class ids, in the order of the columns for a matrix `y`.

    >>> import numpy as np, wassloss as wl
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array(["mild", "mild", "grave", "fatal"])
    >>> metric = wl.ground.Ordinal([0, 1, 5], labels=["mild", "grave", "fatal"])
    >>> wl.WassersteinClassifier(metric).fit(X, y).predict([[0.2], [2.9]])
    array(['mild', 'fatal'], dtype='<U5')
    """

    classes: Classes = None
    class_weight: Any = None
    decision: str = "probable"
    softening: float = 0.0
    transport_weight: float = 1.0
    scaling_iterations: int | None = None
    normalize_cost: bool = True
    fit_intercept: bool = True
    init: str = "zeros"

    @classmethod
    def as_in_paper(
        cls,
        metric: Metric,
        *,
        kl_weight: float = 0.0,
        learning_rate: float = 0.1,
        **parameters: Any,
    ) -> Self:
        """The paper's linear model and Algorithm 2, with the loss of `WassersteinLoss.as_in_paper`.

        Stochastic gradient descent takes 100 000 steps on batches of 100, with momentum 0.7, from
        random weights without intercepts, and with the penalty `0.0005 Σ‖θ‖²`. The loss is
        `W + kl_weight · KL` by ten iterations of Algorithm 1 with λ = 50. Neither costs nor
        features are normalised.

        Args:
            metric: as in the constructor; the paper's tags have distances of unit vectors and
                `power=13`.
            kl_weight: the paper's α.
            learning_rate: the constant learning rate for `W + kl_weight · KL`, which the paper does
                not report.
            **parameters: parameters of the constructor, which override the above.

        >>> import numpy as np, wassloss as wl
        >>> X, y = np.random.default_rng(0).normal(size=(200, 3)), np.arange(200) % 4
        >>> model = wl.WassersteinClassifier.as_in_paper("ordinal", max_steps=20)
        >>> model.fit(X, y).intercept_
        array([0., 0., 0., 0.])
        """
        # The estimator divides the loss by `size`, so multiply the learning rate to compensate.
        size = check_strength("kl_weight", kl_weight) + parameters.get("transport_weight", 1.0)
        recipe: dict[str, Any] = {
            "epsilon": 1 / 50,
            "scaling_iterations": 10,
            "normalize_cost": False,
            "standardize": False,
            "fit_intercept": False,
            "init": "random",
            "solver": "sgd",
            "batch_size": 100,
            "momentum": 0.7,
            "schedule": "constant",
            "max_steps": 100_000,
            "weight_decay": 2 * 0.0005 / size,
        }
        rate = check_strength("learning_rate", learning_rate) * size
        return cls(metric, kl_weight=kl_weight, learning_rate=rate, **recipe | parameters)

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit the model.

        Args:
            X: features `(n, d)`, dense or `scipy.sparse`.
            y: class ids `(n,)`; or `(n, labels)`, dense or `scipy.sparse`: an indicator matrix of 0
                and 1, or weights as floats, whose rows are divided by their sums. If classes have
                names, a class id may also name several classes, as in the metric's
                :meth:`~wassloss.ground.GroundMetric.target`: nodes of a tree, ``">=3"``,
                ``"cat|dog"``.
            sample_weight: weight per example, `(n,)`.
        """
        return self._fit(*self._examples(X, y, sample_weight))

    def _examples(self, X: Any, y: Any, sample_weight: Any) -> Any:
        """Check examples and weights, and learn the labels."""
        if self.classes is None and isinstance(self.metric, str):
            refuse_ordered_categories(y)
        X, y, weight = self._read(X, y, sample_weight)
        if is_matrix(y):
            labels = labels_of_columns(y.shape[1], self.metric, self.classes)
        else:
            labels = labels_of_classes(np.unique(y), self.metric, self.classes)
        self._take_labels(labels)
        return X, y, weight

    def _fit_part(self, X: Any, y: Any, weight: Any, labels: Labels, start: Weights) -> None:
        """Fit to a part of the examples from which `labels` were learned, from given weights."""
        X, y, weight = self._read(X, y, weight)
        self._take_labels(labels)
        self._fit(X, y, weight, start)

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities `(n, labels)`, in the order of `classes_`."""
        p: NDArray[np.float64] = self._outputs(X).softmax(1).numpy()
        return p[:, self._labels.places]

    def predict_log_proba(self, X: Any) -> NDArray[np.float64]:
        """Log-probabilities `(n, labels)`, finite even if a probability underflows to 0."""
        logs: NDArray[np.float64] = self._outputs(X).log_softmax(1).numpy()
        return logs[:, self._labels.places]

    @property
    def coef_(self) -> NDArray[np.float64]:
        """Weights of the unstandardised features, `(labels, d)`; linear models only."""
        return self._linear_parameters()[0]

    @property
    def intercept_(self) -> NDArray[np.float64]:
        """Logits if all unstandardised features are 0, `(labels,)`; linear models only."""
        return self._linear_parameters()[1]

    def _linear_parameters(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        linear = getattr(getattr(self, "model_", None), "linear", None)
        if linear is None:
            raise AttributeError("coef_ and intercept_ exist only for a fitted linear model")
        weight = linear.weight.detach().cpu().double().numpy()[self._labels.places]
        bias = np.zeros(len(weight))
        if linear.bias is not None:
            bias = linear.bias.detach().cpu().double().numpy()[self._labels.places]
        if self.scaler_ is not None:
            weight = weight / self.scaler_.scale_
            bias = bias - weight @ self.scaler_.mean_
        return weight, bias

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Logits `(n, labels)`; for two classes, the second minus the first, `(n,)`."""
        logits: NDArray[np.float64] = self._outputs(X).numpy()[:, self._labels.places]
        return logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits

    def predict(self, X: Any) -> NDArray[Any]:
        """One class per example, by the rule `decision`, even if `y` was a matrix."""
        return self.predict_top(X, 1)[:, 0]

    def predict_top(self, X: Any, k: int) -> NDArray[Any]:
        """`k` classes per example, best first, `(n, k)`.

        `decision` sets the rule: the most probable classes, or a set with a small expected cost to
        the nearest of them.
        """
        chosen = self._chosen(X, k)  # before `classes_`: refuses an unfitted classifier
        classes: NDArray[Any] = self.classes_[chosen]
        return classes

    def _chosen(self, X: Any, k: int) -> NDArray[np.int64]:
        """The indices of the answers in `classes_`, `(n, k)`."""
        logits, places = self._outputs(X), self._labels.places
        if self.decision == "probable":  # by logits: probabilities may underflow and tie
            return np.asarray(top_labels(logits.numpy()[:, places], k))
        labels = decide(logits.softmax(1), self.metric_, k, self.decision).numpy()
        chosen: NDArray[np.int64] = np.argsort(places)[labels]
        return chosen

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy; for a matrix `y`, how often the answer has the row's largest weight.

        Any label of an indicator row is right, and so is any of the classes that a class id names.
        To measure how bad mistakes are, see :mod:`wassloss.scores`.
        """
        check_is_fitted(self)
        y = check_array(y, accept_sparse="csr", ensure_2d=False, dtype=None)
        y = read_classes_or_weights(y, listed=self.classes is not None)
        if is_matrix(y):
            return make_scorer(accuracy)(self, X, y, sample_weight)
        if self._labels.has_sets(y):
            return make_scorer(accuracy)(self, X, y, sample_weight)
        return float(np.average(np.array(y == self.predict(X)), weights=sample_weight))

    def _read(self, X: Any, y: Any, sample_weight: Any, **checks: Any) -> Any:
        """Check features, class ids or weights over labels, and apply `class_weight` to weights."""
        check_choice("decision", self.decision, _DECISIONS)
        check_choice("init", self.init, ("zeros", "random"))
        if not (check_flag("fit_intercept", self.fit_intercept) or self._linear()):
            raise ValueError("fit_intercept must be True if there are hidden layers, got False")
        X, y, weight = super()._read(X, y, sample_weight, **checks)
        y = read_classes_or_weights(y, listed=self.classes is not None)
        if self.class_weight is None:
            return X, y, weight
        if is_matrix(y):
            raise ValueError(
                f"class_weight must be None if y is a matrix, got {self.class_weight!r}"
            )
        own = compute_sample_weight(self.class_weight, y)
        return X, y, own if weight is None else own * weight

    def _take_labels(self, labels: Labels) -> None:
        self._labels, self.classes_ = labels, labels.classes
        self.metric_ = self._with_power(labels.metric)

    def _starts_at_zero(self) -> bool:
        return super()._starts_at_zero() and self.init == "zeros"

    def _own_state(self) -> dict[str, Any]:
        return self._labels.state()

    def _set_own_state(self, state: dict[str, Any]) -> None:
        self._take_labels(Labels.from_state(self.metric_, state))

    def _target(self, y: Any, weight: Any) -> TargetOrSets:
        if is_matrix(y):
            return target_of_weights(y)
        target = self._labels.target_of(y)
        if self.class_weight is not None and isinstance(target, SetTarget):
            raise ValueError(
                "class_weight must be None if an entry of y names several classes, got "
                f"{self.class_weight!r}"
            )
        return target

    def _build(self) -> nn.Module:
        features, labels = self.n_features_in_, self.metric_.size
        if self._linear():
            return models.Linear(features, labels, self.fit_intercept)
        return models.MLP(features, self.hidden_layer_sizes, labels)

    def _loss(self, **keywords: Any) -> WassersteinLoss:
        return WassersteinLoss(
            self.metric_,
            softening=self.softening,
            transport_weight=self.transport_weight,
            scaling_iterations=self.scaling_iterations,
            normalize_cost=self.normalize_cost,
            **keywords,
        )


def decide(p: Tensor, metric: GroundMetric, k: int, decision: str) -> Tensor:
    """Indices of `k` labels per example, best first, `(n, k)`, from probabilities `(n, labels)`.

    ``"probable"`` chooses the most probable labels; ``"least_cost"`` the label of least expected
    cost or, for `k > 1`, a set with a small expected cost to the nearest of them.
    """
    check_choice("decision", decision, _DECISIONS)
    if decision == "probable":
        return torch.as_tensor(top_labels(p, k))
    if k == 1:
        return torch.as_tensor(least_cost_label(p, metric)).unsqueeze(1)
    return torch.as_tensor(least_cost_labels(p, metric, k))
