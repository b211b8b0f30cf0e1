"""Which scores of a run are shown for which kind of target."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from wassloss import scores
from wassloss.ground import Discrete, GroundMetric, Ordinal
from wassloss.scores import cost
from wassloss.scores._inputs import AnyTarget
from wassloss.scores._score import Mean, Predictions, Score, score_of
from wassloss.targets import SparseTarget

if TYPE_CHECKING:
    from typing_extensions import Unpack

# Distributions may have any totals: runs predict shares, and scores divide by the totals.
ONE, ORDERED, TAGS, DISTRIBUTION = "one label", "ordered", "tags", "distribution"
_GRAVE = 0.9  # share of the largest distance from which a mistake is grave
_SAMPLE = 512  # labels sampled to find the largest distance


@dataclass(frozen=True)
class Shown:
    """A score that is shown."""

    meaning: str  # in a few words
    score: Callable[..., Any]
    kinds: tuple[str, ...]  # of targets for which it is shown
    options: Mapping[str, Any] = field(default_factory=dict)  # keywords of the score
    graded: bool = False  # whether it says nothing new where all mistakes are equally bad

    @property
    def more_is_better(self) -> bool:
        """Whether larger values are better."""
        return score_of(self.score).larger_is_better

    @property
    def pooled(self) -> bool:
        """Whether the score is not a mean over examples."""
        return score_of(self.score).answer is not None

    def function(self, logits: Tensor, target: Any, metric: GroundMetric) -> Tensor:
        """The score of each example, or one number if `pooled`."""
        made = score_of(self.score)
        predictions = logits if made.predictions == "scores" else logits.softmax(1)
        own: dict[str, Any] = {"metric": metric} if made.takes_metric else {}
        of_each = {} if self.pooled else {"reduction": "none"}
        found: Tensor = self.score(predictions, target, **own, **self.options, **of_each)
        return found


@Score(larger_is_better=False)
def _grave(
    scores: Predictions, target: AnyTarget, metric: GroundMetric, **mean: Unpack[Mean]
) -> Any:
    count = min(metric.size, _SAMPLE)
    some = torch.arange(count, device=metric.device) * metric.size // count
    far = _GRAVE * metric.distance_columns(some).max()
    return (cost.top_k_cost(scores, target, metric, reduction="none") >= far).to(scores.dtype)


_EVERY, _FEW = (ONE, ORDERED, TAGS, DISTRIBUTION), (ONE, TAGS)
_ORDERED, _SHARES = (ORDERED,), (DISTRIBUTION,)
# Add a line to show another score.
SCORES = {
    "mean_distance": Shown(
        "distance from the first guess to the nearest true label", scores.top_k_cost, _EVERY
    ),
    "mean_distance_of_5": Shown(
        "the same, mean of the first five guesses", scores.top_k_cost, _FEW, {"k": 5}
    ),
    "mean_distance_of_10": Shown(
        "the same, mean of the first ten guesses", scores.top_k_cost, _FEW, {"k": 10}
    ),
    "auc": Shown("chance that a true label outscores a false one", scores.ranking_auc, _EVERY),
    "accuracy": Shown("how often the first guess is right", scores.accuracy, _EVERY),
    "off_by_one": Shown(
        "how often the first guess is at most one step off", scores.off_by_one_accuracy, _ORDERED
    ),
    "kappa": Shown(
        "agreement beyond chance, quadratic weights", scores.quadratic_weighted_kappa, _ORDERED
    ),
    "grave": Shown(
        "how often the first guess is nearly as far off as can be", _grave, (ONE,), graded=True
    ),
    "rps": Shown(
        "squared gaps of cumulated probabilities, summed",
        scores.ranked_probability_score,
        _ORDERED,
    ),
    "nll": Shown(
        "−log of the true label's probability", scores.negative_log_likelihood, (ONE, ORDERED)
    ),
    "recall_at_5": Shown(
        "share of true labels in the first five guesses", scores.recall_at_k, _FEW, {"k": 5}
    ),
    "expected_distance": Shown(
        "distance from the first guess, averaged over the true labels",
        scores.distance_at_k,
        (TAGS, DISTRIBUTION),
    ),
    "transport": Shown(
        "Wasserstein distance from the predicted distribution to the truth",
        scores.mean_wasserstein,
        (ONE, ORDERED, DISTRIBUTION),
    ),
    "chebyshev": Shown("largest gap of a share", scores.chebyshev, _SHARES),
    "clark": Shown("relative gaps, as a norm", scores.clark, _SHARES),
    "canberra": Shown("relative gaps, summed", scores.canberra, _SHARES),
    "kl": Shown("KL from the truth", scores.kl_divergence, _SHARES),
    "cosine": Shown("cosine of both", scores.cosine, _SHARES),
    "intersection": Shown("mass in common", scores.intersection, _SHARES),
}


def kind_of(target: Any, metric: GroundMetric) -> str:
    """The kind of a target, in any form that losses take.

    >>> kind_of(torch.tensor([0, 2]), Ordinal(3)), kind_of(torch.tensor([0, 2]), Discrete(3))
    ('ordered', 'one label')
    """
    if isinstance(target, Tensor) and target.dim() == 1:
        return ORDERED if isinstance(metric, Ordinal) and _in_order(metric) else ONE
    weights = target.weights if isinstance(target, SparseTarget) else target.to_dense()
    most = weights.max(1, keepdim=True).values  # an indicator may be divided by its sum
    return TAGS if ((weights == 0) | (weights == most)).all() else DISTRIBUTION


def _in_order(metric: Ordinal) -> bool:
    """Whether labels are numbered in their order on the line, as scores in steps require."""
    gaps = metric.positions.diff()
    return bool((gaps >= 0).all() or (gaps <= 0).all())


def shown_for(kind: str, metric: GroundMetric) -> dict[str, Shown]:
    """The scores for a kind of target."""
    equally_bad = isinstance(metric, Discrete)
    return {
        name: shown
        for name, shown in SCORES.items()
        if kind in shown.kinds
        and shown.options.get("k", 1) <= metric.size
        and not (equally_bad and shown.graded)
    }
