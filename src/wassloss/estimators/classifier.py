"""The classifier."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils.class_weight import compute_sample_weight
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_array, column_or_1d
from torch import nn

from wassloss import models
from wassloss.estimators.base import TransportEstimator, read_weight, weighted_rows
from wassloss.estimators.decisions import check_decision
from wassloss.estimators.fitting import FitPlan, SmallSteps
from wassloss.estimators.labels import (
    Classes,
    Labels,
    Metric,
    labels_of_classes,
    labels_of_columns,
    names_all_classes,
    read_classes,
)
from wassloss.estimators.targets import check_weights, is_matrix, target_of_weights
from wassloss.losses import WassersteinLoss
from wassloss.scores import least_cost_label, least_cost_labels, top_labels
from wassloss.targets import Target

if TYPE_CHECKING:
    from typing_extensions import Self


class WassersteinClassifier(ClassifierMixin, TransportEstimator):  # type: ignore[misc]
    r"""A linear softmax model, or a perceptron, trained with `W + kl_weight · KL`.

    It minimises the weighted mean of

    .. math:: \frac{W(h_\theta(x), y) + \kappa\,\mathrm{KL}}{\tilde M + \kappa}

    plus `½ alpha Σ‖θ‖²` (not on biases), where `κ` is `kl_weight` and `M̃` the metric's median cost:
    the larger `kl_weight`, the closer to `LogisticRegression(C=1 / (n alpha))` on standardised
    features.

    Args:
        metric: the ground metric of the labels; a matrix of distances; ``"ordinal"`` for classes
            that are numbers, as far apart as their values (or, listed by `classes` in their order,
            evenly spaced); or None for the 0-1 metric.
        classes: the class of each label of the metric, in its order. If left out, classes are
            matched to the metric's `labels` by name if it has any; otherwise they are label
            numbers in 0..K-1, which must include 0. Anything else is an error, because a guess
            would depend on the classes that a fold of the data happens to contain.
        kl_weight: in units of the cost; by default a tenth of the median cost.
        epsilon: entropic strength, by default a fifth of the median cost; 0 is exact.
        power: exponent of the cost; None for the metric's own.
        hidden_layer_sizes: width of each hidden layer; none for a linear model.
        solver: ``"lbfgs"``, all data at once; ``"adam"`` or ``"sgd"``, in small steps
            (`wassloss[train]`); ``"auto"``, L-BFGS for a linear model and up to two million
            probabilities, `n × labels`, Adam otherwise.
        max_iter: iterations of L-BFGS, by default 1000; or passes over the data, by default as
            many as make 1000 steps, at least 5.
        tol: on the gradient's largest component, for L-BFGS.
        learning_rate: of the small steps; by default 0.01 for Adam, 0.1 for SGD.
        batch_size: examples per small step.
        alpha: strength of the penalty `½ alpha Σ‖θ‖²`, as in scikit-learn's `SGDClassifier`; for
            small steps it is torch's `weight_decay`.
        class_weight: weights of the classes as a dictionary, or ``"balanced"``, as in
            scikit-learn; they multiply `sample_weight`. For class ids only.
        standardize: bring the features to mean 0 and variance 1 first.
        decision: what `predict` returns: the most ``"probable"`` label, or the one of
            ``"least_cost"`` in expectation, under the ground metric.
        device: where to train and predict.
        random_state: seeds the hidden layers' weights and the order of small steps.

    Attributes:
        classes_: sorted for class ids; for a matrix `y`, in the order of its columns.

    >>> import numpy as np, wassloss as wl
    >>> X, y = np.array([[0.0], [1.0], [2.0], [3.0]]), np.array(["mild", "mild", "grave", "fatal"])
    >>> metric = wl.ground.Ordinal([0, 1, 5], labels=["mild", "grave", "fatal"])
    >>> wl.WassersteinClassifier(metric).fit(X, y).predict([[0.2], [2.9]])
    array(['mild', 'fatal'], dtype='<U5')
    """

    classes_: NDArray[Any]

    def __init__(
        self,
        metric: Metric = None,
        *,
        classes: Classes = None,
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
        class_weight: Any = None,
        standardize: bool = True,
        decision: str = "probable",
        device: str = "cpu",
        random_state: Any = None,
    ) -> None:
        self.metric = metric
        self.classes = classes
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
        self.class_weight = class_weight
        self.standardize = standardize
        self.decision = decision
        self.device = device
        self.random_state = random_state

    def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Self:
        """Fit to examples.

        Args:
            X: features `(n, d)`, dense.
            y: class ids `(n,)`; or `(n, labels)`, dense or `scipy.sparse`: an indicator of 0 and
                1, or weights as floats, of which each row is divided by its sum.
            sample_weight: how much each example counts, `(n,)`.
        """
        self._forget()
        plan = self._checked_plan()
        X, y, weight = self._read(X, y, sample_weight)
        y = _read_y(y)
        weight = self._with_class_weight(y, weight)
        self._learn_labels(y, None if is_matrix(y) else np.unique(y))
        X, y, weight = weighted_rows(X, y, weight)
        self._standardize(X, weight)
        objective = self._objective()
        self._start(plan.seed, plan.dtype(len(X), self.metric_.size, self._linear()))
        self._train(plan, objective, X, self._target(y), weight)
        return self

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Self:
        """Train on one more batch of examples: a single pass over it, in small steps.

        Args:
            X: as in `fit`.
            y: as in `fit`.
            sample_weight: as in `fit`, but relative to 1: heavy batches take larger steps.
            classes: all classes of all batches; needed in the first call with class ids, unless the
                metric or the keyword `classes` lists them.
        """
        first = not hasattr(self, "model_")
        plan = self._checked_plan()
        X, y, weight = self._read(X, y, sample_weight, reset=first)
        y = _read_y(y)
        if self.class_weight == "balanced":
            raise ValueError(
                "class_weight must be a dictionary for partial_fit, which does not see all classes "
                "at once, got 'balanced'"
            )
        weight = self._with_class_weight(y, weight)
        if first:
            self._learn_labels(y, self._first_classes(y, classes))
        elif classes is not None and set(np.unique(classes)) != set(self.classes_):
            raise ValueError(
                f"classes must be those of the first call to partial_fit, {self.classes_.tolist()},"
                f" got {list(classes)}"
            )
        X, y, weight = weighted_rows(X, y, weight)
        target = self._target(y)
        self._standardize(X, weight)
        if first:
            self._start(plan.seed, torch.float32)
            self.n_iter_ = 0
        if not hasattr(self, "_steps"):
            self._steps = SmallSteps(plan, self.model_, self._objective())
        self._steps.take(self._columns(X, target, weight))
        self.n_iter_ += 1
        return self

    def predict_proba(self, X: Any) -> NDArray[np.float64]:
        """Probabilities `(n, labels)`, in the order of `classes_`."""
        p: NDArray[np.float64] = self._outputs(X).softmax(1).numpy()
        return p[:, self._labels.places]

    def decision_function(self, X: Any) -> NDArray[np.float64]:
        """Logits `(n, labels)`; for two classes, the second minus the first, `(n,)`."""
        logits: NDArray[np.float64] = self._outputs(X).numpy()[:, self._labels.places]
        return logits[:, 1] - logits[:, 0] if logits.shape[1] == 2 else logits

    def predict(self, X: Any) -> NDArray[Any]:
        """One class per example, by the rule of `decision`, also if `y` was a matrix."""
        check_decision(self.decision)
        if self.decision == "least_cost":
            p = self._outputs(X).softmax(1).numpy()
            return self._named(least_cost_label(p, self.metric_))
        logits = self._outputs(X).numpy()[:, self._labels.places]
        classes: NDArray[Any] = self.classes_[logits.argmax(1)]
        return classes

    def predict_top(self, X: Any, k: int) -> NDArray[Any]:
        """`k` classes per example, best first, `(n, k)`.

        By the rule of `decision`: the most probable ones, or a set with a small expected cost to
        the nearest of them.
        """
        check_decision(self.decision)
        p = self._outputs(X).softmax(1).numpy()
        if self.decision == "least_cost":
            return self._named(least_cost_labels(p, self.metric_, k))
        classes: NDArray[Any] = self.classes_[top_labels(p[:, self._labels.places], k)]
        return classes

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
        """Accuracy; for a matrix `y`, how often the answer has the row's largest weight.

        For an indicator, that is any of its labels. For how bad mistakes are, see
        :mod:`wassloss.scores`.
        """
        predicted = self.predict(X)
        y = _read_y(check_array(y, accept_sparse="csr", ensure_2d=False, dtype=None))
        if not is_matrix(y):
            return float(accuracy_score(y, predicted, sample_weight=sample_weight))
        if y.shape != (len(predicted), len(self.classes_)):
            raise ValueError(
                f"y must have shape {(len(predicted), len(self.classes_))}, got {y.shape}"
            )
        weights = y.toarray() if sparse.issparse(y) else y
        order = np.argsort(self.classes_, kind="stable")
        answer = order[np.searchsorted(self.classes_, predicted, sorter=order)]
        right = weights[np.arange(len(weights)), answer] == weights.max(1)
        weight = None if sample_weight is None else read_weight(sample_weight, len(y))
        return float(np.average(right, weights=weight))

    def _with_class_weight(
        self, y: Any, weight: NDArray[np.float64] | None
    ) -> NDArray[np.float64] | None:
        if self.class_weight is None:
            return weight
        if is_matrix(y):
            raise ValueError(
                f"class_weight must be None where y is a matrix, got {self.class_weight!r}"
            )
        own: NDArray[np.float64] = compute_sample_weight(self.class_weight, y)
        return own if weight is None else own * weight

    def _own_state(self) -> dict[str, Any]:
        return self._labels.state()

    def _set_own_state(self, state: dict[str, Any]) -> None:
        self._take_labels(Labels.from_state(self.metric_, state))

    def _named(self, labels: NDArray[np.int64]) -> NDArray[Any]:
        """The classes of labels of the metric."""
        classes: NDArray[Any] = self.classes_[np.argsort(self._labels.places)[labels]]
        return classes

    def _checked_plan(self) -> FitPlan:
        check_decision(self.decision)
        return self._plan()

    def _first_classes(self, y: Any, classes: Any) -> NDArray[Any] | None:
        """All classes, given a first batch, which may lack some."""
        if is_matrix(y):
            return None
        if classes is not None:
            return np.unique(read_classes(classes))
        if not names_all_classes(self.metric, self.classes):
            raise ValueError("classes must be passed on the first call to partial_fit, got None")
        return np.unique(y)

    def _learn_labels(self, y: Any, found: NDArray[Any] | None) -> None:
        """Match the classes that were found, or the columns of `y`, to the metric's labels."""
        if found is None:
            labels = labels_of_columns(y.shape[1], self.metric, self.classes, self._power())
        else:
            labels = labels_of_classes(found, self.metric, self.classes, self._power())
        self._take_labels(labels)

    def _take_labels(self, labels: Labels) -> None:
        self._labels = labels
        self.metric_, self.classes_ = labels.metric, labels.classes

    def _target(self, y: Any) -> Target:
        if not is_matrix(y):
            return torch.from_numpy(self._labels.places_of(y))
        if y.shape[1] != self.metric_.size:
            raise ValueError(f"y must have {self.metric_.size} columns, got {y.shape[1]}")
        return target_of_weights(y)

    def _build(self) -> nn.Module:
        features, labels = self.n_features_in_, self.metric_.size
        if self._linear():
            return models.LinearSoftmax(features, labels)
        return models.MLP(features, self.hidden_layer_sizes, labels)

    def _loss(self) -> WassersteinLoss:
        return WassersteinLoss(
            self.metric_, epsilon=self.epsilon, kl_weight=self._kl_weight(), reduction="none"
        )


def _read_y(y: Any) -> Any:
    """Checked class ids `(n,)`, or weights `(n, labels)`."""
    if is_matrix(y):
        return check_weights(y)
    y = column_or_1d(y, warn=True)
    check_classification_targets(y)
    return y
