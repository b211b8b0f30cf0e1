"""What a run is asked to do: all that its outcome depends on, but what is in the data's files."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from typing import Any, Literal

from torch import nn

from wassloss._checks import check_number
from wassloss.ground import GroundMetric
from wassloss.losses import WassersteinLoss
from wassloss.losses.baselines import KLLoss
from wassloss.models import MLP, LinearSoftmax
from wassloss.training import SGD, Adam, AdamW, Constant, Cosine, TrainingPlan
from wassloss.training.optimizers import OptimizerPlan

LOSSES = ("wasserstein", "kl")
OPTIMIZERS = ("adam", "adamw", "sgd")
SCHEDULES = ("constant", "cosine")
SCORES = ("top1_cost", "top5_cost", "auc", "accuracy", "loss")
_LEARNING_RATES = {"adam": 0.01, "adamw": 0.01, "sgd": 0.1}


@dataclass(frozen=True)
class Settings:
    """A run's settings.

    Attributes:
        data: a file, a folder of Parquet files, which is streamed, or ``"clipart"``.
        metric: a file of a ground metric, ``"ordinal"``, ``"discrete"``, or None for the one that
            comes with the data.
        power, scale: of the cost; None to leave the metric's.
        labels: the labels in their order, where the data's file does not say.
        label_column: of a table.
        stream: read a Parquet file in batches, as a folder always is.
        standardize: bring features to mean 0 and variance 1 over the training examples.
        validation: share of the training examples to hold out, where the data have no part
            ``"validation"`` of their own.
        loss: ``"wasserstein"``, W + `kl_weight` KL, or ``"kl"``, cross-entropy alone.
        epsilon: None for the loss's default, a fifth of the median cost.
        kl_weight: the paper's α, in units of the cost.
        regularizer: ``"plan"`` or ``"product"``.
        hidden: widths of hidden layers; none for a linear model.
        dropout: of the hidden layers.
        optimizer: ``"adam"``, ``"adamw"`` or ``"sgd"``.
        lr: None for 0.01, or 0.1 for SGD.
        momentum: of SGD.
        weight_penalty, schedule, iterations, batch_size, seed, log_every, evaluate_every, patience,
            checkpoint_every: see `wassloss.TrainingPlan`.
        score: what early stopping watches.
    """

    data: str
    metric: str | None = None
    power: float | None = None
    scale: float | Literal["max", "median"] | None = None
    labels: tuple[str, ...] | None = None
    label_column: str | None = None
    stream: bool = False
    standardize: bool = False
    validation: float = 0.0
    loss: str = "wasserstein"
    epsilon: float | None = None
    kl_weight: float = 0.0
    regularizer: str = "plan"
    hidden: tuple[int, ...] = ()
    dropout: float = 0.0
    optimizer: str = "adam"
    lr: float | None = None
    momentum: float = 0.7
    weight_penalty: float = 0.0005
    schedule: str = "constant"
    iterations: int = 2000
    batch_size: int = 100
    seed: int = 0
    score: str = "top1_cost"
    log_every: int = 50
    evaluate_every: int = 100
    patience: int | None = None
    checkpoint_every: int = 500

    def __post_init__(self) -> None:
        for name, choices in (
            ("loss", LOSSES),
            ("optimizer", OPTIMIZERS),
            ("schedule", SCHEDULES),
            ("score", SCORES),
        ):
            if getattr(self, name) not in choices:
                raise ValueError(
                    f"{name} must be one of {', '.join(choices)}, got {getattr(self, name)!r}"
                )
        if not 0 <= check_number("validation", self.validation) < 1:
            raise ValueError(
                f"validation must be at least 0 and less than 1, got {self.validation}"
            )
        if self.loss == "kl" and (self.epsilon is not None or self.kl_weight):
            raise ValueError("loss 'kl' takes neither epsilon nor kl_weight")
        self.plan()  # for its errors

    def plan(self) -> TrainingPlan:
        """How to train."""
        return TrainingPlan(
            iterations=self.iterations,
            batch_size=self.batch_size,
            optimizer=self._optimizer(),
            weight_penalty=self.weight_penalty,
            schedule=Cosine() if self.schedule == "cosine" else Constant(),
            seed=self.seed,
            log_every=self.log_every,
            evaluate_every=self.evaluate_every,
            patience=self.patience,
            checkpoint_every=self.checkpoint_every,
        )

    def model(self, features: int, labels: int) -> nn.Module:
        """An untrained model."""
        if not self.hidden:
            return LinearSoftmax(features, labels)
        return MLP(features, self.hidden, labels, dropout=self.dropout)

    def loss_fn(self, metric: GroundMetric) -> KLLoss | WassersteinLoss:
        """What to minimise; targets are divided by their sums."""
        if self.loss == "kl":
            return KLLoss(metric.size)
        return WassersteinLoss(
            metric,
            epsilon=self.epsilon,
            kl_weight=self.kl_weight,
            regularizer=self.regularizer,
            normalize_target=True,
        )

    def to_json(self) -> dict[str, Any]:
        return asdict(self)

    @classmethod
    def from_json(cls, values: Mapping[str, Any]) -> Settings:
        """Settings as `to_json` wrote them.

        Raises:
            ValueError: something is missing, unknown or out of range.
        """
        known = {field.name for field in fields(cls)}
        unknown = sorted(values.keys() - known)
        if unknown or "data" not in values:
            raise ValueError(f"settings must have data and nothing unknown, got {unknown}")
        lists = {name: tuple(v) for name, v in values.items() if isinstance(v, list | tuple)}
        return cls(**{**values, **lists})

    def _optimizer(self) -> OptimizerPlan:
        lr = _LEARNING_RATES[self.optimizer] if self.lr is None else self.lr
        if self.optimizer == "sgd":
            return SGD(lr, self.momentum)
        return Adam(lr) if self.optimizer == "adam" else AdamW(lr)
