"""The losses that networks are compared with, and the ranges of their strengths.

Strengths are in units of the median cost between two labels.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial

from torch import Tensor, nn
from torch.nn import functional

from experiments.lab.networks.tasks import Kind, Target, Task
from experiments.lab.sparse import as_dense
from experiments.lab.weighted_sum import WeightedSum
from wassloss.ground import Tree
from wassloss.losses import NearestWassersteinLoss, WassersteinLoss
from wassloss.losses.baselines import (
    CORNLoss,
    ExpectedCostLoss,
    HierarchicalCrossEntropyLoss,
    KLLoss,
    SquaredEMDLoss,
)

Strengths = Mapping[str, float]
EVERYTHING: tuple[Kind, ...] = ("taxonomy", "ordered", "tags", "distribution")


def softmax(logits: Tensor) -> Tensor:
    return logits.softmax(1)


@dataclass(frozen=True)
class Family:
    """A kind of loss.

    Attributes:
        title: for tables.
        build: makes the loss of a task from strengths.
        ranges: of each strength, searched on a log scale.
        kinds: kinds of tasks that it applies to.
        ours: whether it includes a Wasserstein loss.
        probabilities: computes probabilities from a network's outputs.
    """

    title: str
    build: Callable[[Task, Strengths], nn.Module]
    ranges: Mapping[str, tuple[float, float]] = field(default_factory=dict)
    kinds: tuple[Kind, ...] = EVERYTHING
    ours: bool = False
    probabilities: Callable[[Tensor], Tensor] = softmax


class LabelSmoothing(nn.Module):
    """Cross-entropy with labels that share a part of their mass equally among all labels."""

    def __init__(self, labels: int, share: float) -> None:
        super().__init__()
        self.labels, self.share = labels, share

    def forward(self, logits: Tensor, target: Target) -> Tensor:
        soft = as_dense(target, self.labels) * (1 - self.share) + self.share / self.labels
        return functional.cross_entropy(logits, soft)


class Corn(CORNLoss):
    """CORN for a network with one output per label: the last output is not used."""

    def forward(self, logits: Tensor, target: Target) -> Tensor:
        return super().forward(logits[:, :-1], target)


def chained(logits: Tensor) -> Tensor:
    """Probabilities of labels from CORN's outputs."""
    return CORNLoss(logits.shape[1]).probabilities(logits[:, :-1]).clamp(min=1e-12)


def _wasserstein(
    task: Task, s: Strengths, *, regularizer: str = "plan", debiased: bool = False
) -> nn.Module:
    return WassersteinLoss(
        task.metric.with_cost(power=s.get("power", 1.0)),
        epsilon=s["epsilon"],
        kl_weight=s.get("alpha", 0.0),
        softening=s.get("softening", 0.0),
        regularizer=regularizer,
        debiased=debiased,
        normalize_target=True,
    )


def _nearest(task: Task, s: Strengths) -> nn.Module:
    return NearestWassersteinLoss(
        task.metric.with_cost(power=s.get("power", 1.0)),
        epsilon=s["epsilon"],
        kl_weight=s["alpha"],
        softening=s.get("softening", 0.0),
    )


def _softened(task: Task, s: Strengths, *, power: float) -> nn.Module:
    """KL alone, on labels softened by `exp(−d^power / softening)`."""
    return WassersteinLoss(
        task.metric.with_cost(power=power),
        kl_weight=1.0,
        softening=s["softening"],
        transport_weight=0.0,
        normalize_target=True,
    )


def _squared_emd(task: Task, s: Strengths) -> nn.Module:
    labels = task.metric.size
    return WeightedSum([SquaredEMDLoss(labels), KLLoss(labels)], [3 / labels, s["alpha"]])


def _hxe(task: Task, s: Strengths) -> nn.Module:
    if task.tree is None:
        raise ValueError(f"{task.name} must have a tree for hierarchical cross-entropy")
    return HierarchicalCrossEntropyLoss(Tree.from_paths(task.tree), alpha=s["alpha"])


EPSILON, ALPHA, SOFTENING = (0.03, 0.5), (0.05, 1.5), (0.03, 0.3)
STRENGTHS = {"epsilon": EPSILON, "alpha": ALPHA}
FAMILIES: dict[str, Family] = {
    "ce": Family("cross-entropy", lambda task, s: KLLoss(task.metric.size)),
    "smoothing": Family(
        "label smoothing",
        lambda task, s: LabelSmoothing(task.metric.size, s["share"]),
        {"share": (0.02, 0.3)},
    ),
    "soft": Family("soft labels exp(−d)", partial(_softened, power=1.0), {"softening": SOFTENING}),
    "sord": Family("soft labels exp(−d²)", partial(_softened, power=2.0), {"softening": (0.01, 1)}),
    "hxe": Family("HXE", _hxe, {"alpha": (0.03, 0.6)}, ("taxonomy",)),
    "emd2": Family("squared EMD + KL", _squared_emd, {"alpha": ALPHA}, ("ordered",)),
    "corn": Family(
        "CORN", lambda task, s: Corn(task.metric.size), {}, ("ordered",), probabilities=chained
    ),
    "expected": Family(
        "expected cost + KL",
        lambda task, s: ExpectedCostLoss(task.metric.in_medians(), kl_weight=s["alpha"]),
        {"alpha": ALPHA},
    ),
    "default": Family(
        "WassersteinLoss(metric)",
        lambda task, s: WassersteinLoss(task.metric, normalize_target=True),
        ours=True,
    ),
    "w-plain": Family("W", _wasserstein, {"epsilon": EPSILON}, ours=True),
    "w": Family("W + KL", _wasserstein, STRENGTHS, ours=True),
    "w-soft": Family("W + soft KL", _wasserstein, {**STRENGTHS, "softening": SOFTENING}, ours=True),
    "w-product": Family(
        "W product + KL",
        lambda task, s: _wasserstein(task, s, regularizer="product"),
        STRENGTHS,
        ("tags", "distribution"),  # with one label it is the expected cost
        ours=True,
    ),
    "w-product-soft": Family(
        "W product + soft KL",  # with one label, the expected cost + soft KL
        lambda task, s: _wasserstein(task, s, regularizer="product"),
        {**STRENGTHS, "softening": SOFTENING},
        ours=True,
    ),
    "w-debiased": Family(
        "W debiased + KL",
        lambda task, s: _wasserstein(task, s, debiased=True),
        STRENGTHS,
        ours=True,
    ),
    "w-debiased-soft": Family(
        "W debiased + soft KL",
        lambda task, s: _wasserstein(task, s, debiased=True),
        {**STRENGTHS, "softening": SOFTENING},
        ours=True,
    ),
    "w-nearest": Family("W nearest + KL", _nearest, STRENGTHS, ("tags",), ours=True),
    "w-nearest-soft": Family(
        "W nearest + soft KL", _nearest, {**STRENGTHS, "softening": SOFTENING}, ("tags",), ours=True
    ),
}


def families_for(kind: Kind) -> dict[str, Family]:
    """The losses that apply to a kind of task."""
    return {name: family for name, family in FAMILIES.items() if kind in family.kinds}
