"""Trials: a loss with its strengths, a learning rate, a weight penalty; all trained equally.

All trials of a data set are linear models that are trained together and scored during training, so
the step at which to stop is one more setting to choose, for every loss.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from experiments.lab.labelled import LabelledSet
from experiments.lab.many import train_many
from experiments.lab.weighted_sum import WeightedSum
from wassloss import SparseTarget
from wassloss.ground import GroundMetric
from wassloss.losses import NearestWassersteinLoss, RelaxedWassersteinLoss, WassersteinLoss
from wassloss.losses.baselines import (
    ExpectedCostLoss,
    KLLoss,
    PerExampleLoss,
    SquaredEMDLoss,
)
from wassloss.models import Linear
from wassloss.scores import accuracy, ranking_auc, top_k_cost

EVALUATIONS = 10  # per run, at which it may stop early


@dataclass(frozen=True)
class Trial:
    """The settings of one model.

    Attributes:
        loss: ``"kl"``, ``"softened"``, ``"softened_nearest"``, ``"expected"``, ``"squared_emd"``;
            ``"plan"``, ``"product"``, ``"debiased"``, ``"relaxed"``, ``"nearest"`` (Wasserstein
            losses); ``"plan_softened"``, ``"nearest_softened"`` (with KL on softened labels).
        rate: the learning rate.
        penalty: the weight penalty.
        power: power of the distance in the cost.
        strength: λ, which is 1/ε, in units of the cost.
        kl: weight of the KL term.
        width: width of softened labels.
        gamma: γ of relaxed transport.
        iterations: of Algorithm 1, if not solved to a tolerance.
        decode: rank labels by ``"probability"`` or by least expected ``"cost"``.
        less: factor of the regressed cost that is subtracted from the logits before ranking.
    """

    loss: str
    rate: float
    penalty: float = 0.0005
    power: float = 1.0
    strength: float = 0.0
    kl: float = 0.0
    width: float = 0.0
    gamma: float = 0.0
    iterations: int | None = None
    decode: str = "probability"
    less: float = 0.0

    def loss_fn(self, distance: GroundMetric) -> nn.Module:
        """The loss on a metric whose cost is the distance."""
        metric = distance.with_cost(power=self.power)
        if self.loss == "kl":
            return KLLoss(metric.size)
        if self.loss == "softened":
            return softened_kl(metric, self.width)
        if self.loss == "softened_nearest":
            return softened_kl(metric, self.width, nearest=True)
        if self.loss == "expected":
            return ExpectedCostLoss(metric, kl_weight=self.kl)
        if self.loss == "squared_emd":
            loss = SquaredEMDLoss(metric.size)
            return WeightedSum([loss, KLLoss(metric.size)], [1.0, self.kl]) if self.kl else loss
        epsilon = 1 / self.strength
        if self.loss == "relaxed":
            relaxed = RelaxedWassersteinLoss(
                metric, epsilon=epsilon, gamma=self.gamma, kl_weight=self.kl, normalize_cost=False
            )
            return OfProbabilities(relaxed)
        if self.loss == "nearest":
            return NearestWassersteinLoss(
                metric, epsilon=epsilon, kl_weight=self.kl, normalize_cost=False
            )
        if self.loss == "nearest_softened":
            nearest = NearestWassersteinLoss(
                metric, epsilon=epsilon, kl_weight=0.0, normalize_cost=False
            )
            softened = softened_kl(metric, self.width, nearest=True)
            return WeightedSum([nearest, softened], [1.0, self.kl])
        balanced = WassersteinLoss(
            metric,
            epsilon=epsilon,
            kl_weight=0.0 if self.loss == "plan_softened" else self.kl,
            regularizer="product" if self.loss in ("product", "debiased") else "plan",
            debiased=self.loss == "debiased",
            normalize_target=True,
            scaling_iterations=self.iterations,
            normalize_cost=False,
        )
        if self.loss == "plan_softened":
            return WeightedSum([balanced, softened_kl(metric, self.width)], [1.0, self.kl])
        if self.loss not in ("plan", "product", "debiased"):
            raise ValueError(f"loss must be one of those of Trial, got {self.loss!r}")
        return balanced

    def ranking(self, logits: Tensor, data: LabelledSet, on: str) -> Tensor:
        """Scores to rank labels by; higher is better."""
        if self.decode == "cost":
            return -(logits.softmax(1) @ data.metric.cost().to(logits.dtype))
        return logits - self.less * data.regressed_costs[on] if self.less else logits

    def of_model(self) -> Trial:
        """The trial without settings that only affect the ranking of labels."""
        return replace(self, decode="probability", less=0.0)

    def as_json(self) -> dict[str, Any]:
        """The loss, and the settings that differ from their defaults."""
        plain = {f.name: f.default for f in fields(self)}
        return {name: value for name, value in asdict(self).items() if value != plain[name]}


def softened_kl(metric: GroundMetric, width: float, *, nearest: bool = False) -> nn.Module:
    """KL on labels softened by `exp(−(d/width)²)`, or by the distance to the nearest label."""
    squares = metric.with_cost(power=2.0, scale=width)
    if nearest:
        return NearestWassersteinLoss(
            squares, kl_weight=1.0, softening=1.0, transport_weight=0.0, normalize_cost=False
        )
    return WassersteinLoss(
        squares,
        kl_weight=1.0,
        softening=1.0,
        transport_weight=0.0,
        normalize_target=True,
        normalize_cost=False,
    )


class OfProbabilities(PerExampleLoss):
    """The relaxed loss of a softmax, whose mass is 1, like that of the targets here."""

    def __init__(self, loss: RelaxedWassersteinLoss) -> None:
        super().__init__()
        loss.reduction = "none"
        self.loss = loss

    def per_example(self, logits: Tensor, target: Any) -> Tensor:
        values: Tensor = self.loss(logits.log_softmax(1), target)
        return values


@dataclass(frozen=True)
class Scores:
    """Scores of one model, one number per example.

    Attributes:
        curve: top-k cost for k = 1, 2, …, `(n, k)`.
        auc: ranking AUC.
        accuracy: whether the first guess is the label with the most mass.
    """

    curve: NDArray[np.float64]
    auc: NDArray[np.float64]
    accuracy: NDArray[np.float64]

    @property
    def cost(self) -> NDArray[np.float64]:
        """The mean of the top-k cost over k, the score used for tuning."""
        mean: NDArray[np.float64] = self.curve.mean(1)
        return mean

    def summary(self) -> dict[str, Any]:
        """Mean scores, for JSON."""
        return {
            "cost": round(float(self.cost.mean()), 5),
            "auc": round(float(np.nanmean(self.auc)), 5),
            "accuracy": round(float(self.accuracy.mean()), 5),
            "curve": [round(float(value), 5) for value in self.curve.mean(0)],
        }


@torch.no_grad()
def scores_of(rankings: Sequence[Tensor], data: LabelledSet, on: str) -> list[Scores]:
    """Score several rankings of the labels on a part of the data."""
    part, count = getattr(data, on), len(rankings)
    # All at once, because a single ranking does not fill a GPU.
    logits = torch.cat(list(rankings))
    target = SparseTarget(
        part.target.indices.repeat(count, 1), part.target.weights.repeat(count, 1)
    )
    curve = top_k_cost(logits, target, data.metric, k=data.ks, reduction="none")
    # The AUC of each example, NaN if all labels are true.
    auc = ranking_auc(logits, target, reduction="none")
    heaviest = target.indices.gather(1, target.weights.argmax(1, keepdim=True))
    right = accuracy(logits, heaviest.squeeze(1), reduction="none")
    found = [each.double().cpu().numpy() for each in (curve, auc, right)]
    return [Scores(*each) for each in zip(*(np.split(f, count) for f in found), strict=True)]


@torch.no_grad()
def score(trial: Trial, model: nn.Module, data: LabelledSet, on: str) -> Scores:
    """Score a model's ranking of the labels on a part of the data."""
    logits: Tensor = model(getattr(data, on).features)
    return scores_of([trial.ranking(logits, data, on)], data, on)[0]


@dataclass(frozen=True)
class Look:
    """Scores of a model during training."""

    iteration: int
    scores: Scores


def train_trials(
    data: LabelledSet,
    trials: Sequence[Trial],
    seeds: Sequence[int],
    iterations: int,
    *,
    on: str = "validation",
    looks: Sequence[int] | None = None,
    momentum: float = 0.7,
    batch_size: int = 100,
) -> list[list[Look]]:
    """Train a linear model for each trial, and score it during training.

    Args:
        data: training and scoring data.
        trials: one per model.
        seeds: of the order of the examples, one per model.
        iterations: number of steps.
        on: the part to score on.
        looks: the iteration at which each model is scored; default: each is scored ten times.
            Models continue after being scored, which does not affect the others.
        momentum: of SGD; default: the paper's.
        batch_size: examples per step; default: the paper's.
    """
    every = max(1, iterations // EVALUATIONS)
    if looks is not None:
        every = int(np.gcd.reduce(looks))
    found: list[list[Look]] = [[] for _ in trials]
    # Trials that differ in how they rank labels share a model.
    sharing: dict[tuple[Trial, int], list[int]] = {}
    for place, (trial, seed) in enumerate(zip(trials, seeds, strict=True)):
        sharing.setdefault((trial.of_model(), seed), []).append(place)

    @torch.no_grad()
    def look(iteration: int, models: Sequence[nn.Module]) -> None:
        for model, places in zip(models, sharing.values(), strict=True):
            due = [place for place in places if looks is None or looks[place] == iteration]
            if due:
                logits = model(getattr(data, on).features)
                rankings = [trials[place].ranking(logits, data, on) for place in due]
                for place, scores in zip(due, scores_of(rankings, data, on), strict=True):
                    found[place].append(Look(iteration, scores))

    trained, their_seeds = zip(*sharing, strict=True)
    _trained(data, trained, their_seeds, iterations, look, every, momentum, batch_size)
    return found


def train_model(data: LabelledSet, trial: Trial, iterations: int, seed: int) -> nn.Module:
    """Train one model as `train_trials` would."""
    return _trained(data, [trial], [seed], iterations)[0]


def _trained(
    data: LabelledSet,
    trials: Sequence[Trial],
    seeds: Sequence[int],
    iterations: int,
    observe: Callable[[int, Sequence[nn.Module]], None] | None = None,
    every: int = 1000,
    momentum: float = 0.7,
    batch_size: int = 100,
) -> Sequence[nn.Module]:
    losses = {each: each.loss_fn(data.metric) for each in dict.fromkeys(map(_of_loss, trials))}
    models = [_model(data) for _ in seeds]
    train_many(
        models,
        [losses[_of_loss(trial)] for trial in trials],
        data.train.features,
        data.train.target,
        iterations=iterations,
        rates=[trial.rate for trial in trials],
        penalties=[trial.penalty for trial in trials],
        seeds=seeds,
        batch_size=batch_size,
        momentum=momentum,
        observe=observe,
        every=every,
        cuda_graph=data.device.type == "cuda" and all(map(_graphable, trials)),
    )
    return models


def _graphable(trial: Trial) -> bool:
    """Whether a CUDA graph can capture the loss: its loops must not depend on data."""
    return trial.loss not in ("debiased",)


def _of_loss(trial: Trial) -> Trial:
    """The trial without learning rate and penalty; equal for equal losses."""
    return replace(trial.of_model(), rate=0.0, penalty=0.0)


def _model(data: LabelledSet) -> Linear:
    model = Linear(data.train.features.shape[1], data.metric.size)
    # Random initial weights persist for rare labels, which lowers the AUC of every loss.
    for parameter in model.parameters():
        nn.init.zeros_(parameter)
    return model.to(data.device)
