"""What a run is asked to do: everything its outcome depends on except the content of files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, fields
from typing import Any, Literal

import numpy as np
from torch import nn

from wassloss._checks import check_choice, check_number
from wassloss.estimators import WassersteinClassifier
from wassloss.estimators.labels import Labels
from wassloss.ground import GroundMetric
from wassloss.losses import WassersteinLoss
from wassloss.losses.baselines import KLLoss
from wassloss.losses.modules import EPSILON, KL_WEIGHT
from wassloss.models import MLP, LinearSoftmax
from wassloss.training import TrainingPlan
from wassloss.training.plan import OPTIMIZERS, SCHEDULES

CHOICES = {
    "missing": ("impute", "error"),
    "loss": ("wasserstein", "kl"),
    "regularizer": ("plan", "product"),
    "optimizer": tuple(OPTIMIZERS),
    "schedule": SCHEDULES,
    "score": ("top1_cost", "top5_cost", "auc", "accuracy", "loss"),
}


@dataclass(frozen=True)
class Settings(TrainingPlan):
    """A training plan, and the data, metric, loss and model it is for.

    Attributes:
        data: a file, a folder of Parquet files, or ``"clipart"``.
        metric: a file of a ground metric, ``"ordinal"``, ``"discrete"``, or None for the one that
            comes with the data.
        power, scale: of the cost; None to leave the metric's.
        order: the labels in their order, if the data's file does not say.
        label_column, features, drop, group, missing: of a table, as in
            :func:`wassloss.data.read`, where `features` are `feature_names`.
        standardize: bring features to mean 0 and variance 1 over the training examples; None for
            only the columns of a table, because arrays are often made to be as they are.
        test: share of the examples to hold out and score at the end, if the data have no part
            ``"test"`` of their own.
        validation: likewise, of the examples that are left, to watch while training.
        loss: ``"wasserstein"``, W + `kl_weight` KL, or ``"kl"``, cross-entropy alone.
        epsilon, kl_weight: None for the defaults of :class:`~wassloss.WassersteinLoss`, in units of
            the median cost between two labels.
        regularizer: ``"plan"`` or ``"product"``.
        hidden_layer_sizes: widths of hidden layers; none for a linear model.
        dropout: of the hidden layers.
        score: what early stopping watches.
        steps, batch_size, optimizer, learning_rate, weight_decay, schedule, …: those of
            :class:`wassloss.training.TrainingPlan`, with defaults for tables: 2000 steps of Adam.
    """

    data: str
    _: KW_ONLY
    metric: str | None = None
    power: float | None = None
    scale: float | Literal["max", "median"] | None = None
    order: tuple[str, ...] | None = None
    label_column: str | None = None
    features: tuple[str, ...] | None = None
    drop: tuple[str, ...] = ()
    group: str | None = None
    missing: str = "impute"
    standardize: bool | None = None
    test: float = 0.0
    validation: float = 0.0
    loss: str = "wasserstein"
    epsilon: float | None = None
    kl_weight: float | None = None
    regularizer: str = "plan"
    hidden_layer_sizes: tuple[int, ...] = ()
    dropout: float = 0.0
    score: str = "top1_cost"
    steps: int = 2000
    optimizer: str = "adam"
    log_every: int = 50
    evaluate_every: int = 100
    checkpoint_every: int = 500

    def __post_init__(self) -> None:
        super().__post_init__()
        for name, choices in CHOICES.items():
            check_choice(name, getattr(self, name), choices)
        for name in ("test", "validation"):
            if not 0 <= check_number(name, share := getattr(self, name)) < 1:
                raise ValueError(f"{name} must be at least 0 and less than 1, got {share}")
        if self.loss == "kl" and (self.epsilon is not None or self.kl_weight is not None):
            raise ValueError("loss 'kl' takes neither epsilon nor kl_weight")

    def plan(self) -> TrainingPlan:
        """How to train, without what for."""
        return TrainingPlan(**{f.name: getattr(self, f.name) for f in fields(TrainingPlan)})

    def classifier(self, labels: Labels, examples: int) -> WassersteinClassifier:
        """The classifier that the trained model becomes, with parameters that say the same."""
        strengths: dict[str, Any] = {"transport_weight": 0.0, "kl_weight": 1.0}
        if self.loss == "wasserstein":
            given = {"epsilon": self.epsilon, "kl_weight": self.kl_weight}
            strengths = {name: value for name, value in given.items() if value is not None}
        made = WassersteinClassifier(
            labels.metric,
            classes=labels.classes[np.argsort(labels.places)].tolist(),
            hidden_layer_sizes=self.hidden_layer_sizes,
            solver="sgd" if self.optimizer == "sgd" else "adam",
            learning_rate=self.base_learning_rate,
            batch_size=self.batch_size,
            alpha=self.weight_decay * examples,
            random_state=self.seed,
            **strengths,
        )
        made._take_labels(labels)
        return made

    def model(self, features: int, labels: int) -> nn.Module:
        """An untrained model."""
        if not self.hidden_layer_sizes:
            return LinearSoftmax(features, labels)
        return MLP(features, self.hidden_layer_sizes, labels, dropout=self.dropout)

    def loss_fn(self, metric: GroundMetric) -> KLLoss | WassersteinLoss:
        """What to minimise; targets are divided by their sums."""
        if self.loss == "kl":
            return KLLoss(metric.size)
        return WassersteinLoss(
            metric,
            epsilon=EPSILON if self.epsilon is None else self.epsilon,
            kl_weight=KL_WEIGHT if self.kl_weight is None else self.kl_weight,
            regularizer=self.regularizer,
            normalize_target=True,
        )

    @classmethod
    def from_config(cls, values: Mapping[str, Any]) -> Settings:
        """The settings that `config()` describes; ValueError for anything else."""
        unknown = sorted(values.keys() - {field.name for field in fields(cls)})
        if unknown or "data" not in values:
            raise ValueError(f"settings must have data and nothing unknown, got {unknown}")
        lists = {name: tuple(v) for name, v in values.items() if isinstance(v, list | tuple)}
        return cls(**{**values, **lists})
