"""The scores to show for each kind of target."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from inspect import signature
from typing import Any

import torch
from torch import Tensor

from wassloss import SparseTarget, scores
from wassloss.ground import Discrete, GroundMetric, Ordinal

# A distribution may have any total mass: models predict shares, and scores divide by the total.
ONE, ORDERED, TAGS, DISTRIBUTION = "one label", "ordered", "tags", "distribution"
_GRAVE = 0.9  # share of the largest distance at which a mistake is grave
_SAMPLE = 512  # labels sampled to estimate the largest distance


@dataclass(frozen=True)
class Shown:
    """A score that is shown.

    Attributes:
        meaning: a description in a few words.
        score: a function of `wassloss.scores`.
        kinds: the kinds of target for which it is shown.
        options: keyword arguments of the score.
        more_is_better: whether larger values are better.
        graded: whether it is redundant if all mistakes are equally bad.
    """

    meaning: str
    score: Callable[..., Any]
    kinds: tuple[str, ...]
    options: Mapping[str, Any] = field(default_factory=dict)
    more_is_better: bool = False
    graded: bool = False

    @property
    def pooled(self) -> bool:
        """Whether the score is not a mean over examples."""
        return "reduction" not in signature(self.score).parameters

    def function(self, logits: Tensor, target: Any, metric: GroundMetric) -> Tensor:
        """The per-example scores, or one number if `pooled`."""
        taken = signature(self.score).parameters
        predictions = logits.softmax(1) if "probabilities" in taken else logits
        own: dict[str, Any] = {"metric": metric} if "metric" in taken else {}
        of_each = {} if self.pooled else {"reduction": "none"}
        found: Tensor = self.score(predictions, target, **own, **self.options, **of_each)
        return found


def _grave(scores_: Tensor, target: Any, metric: GroundMetric, *, reduction: str = "mean") -> Any:
    count = min(metric.size, _SAMPLE)
    some = torch.arange(count, device=metric.device) * metric.size // count
    far = _GRAVE * metric.distance_columns(some).max()
    off = scores.top_k_cost(scores_, target, metric, reduction="none")
    found = (off >= far).to(scores_.dtype)
    return found if reduction == "none" else found.mean()


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
    "auc": Shown(
        "chance that a true label outscores a false one",
        scores.ranking_auc,
        _EVERY,
        more_is_better=True,
    ),
    "accuracy": Shown(
        "how often the first guess is right", scores.accuracy, _EVERY, more_is_better=True
    ),
    "off_by_one": Shown(
        "how often the first guess is at most one step off",
        scores.off_by_one_accuracy,
        _ORDERED,
        more_is_better=True,
    ),
    "kappa": Shown(
        "agreement beyond chance, quadratic weights",
        scores.quadratic_weighted_kappa,
        _ORDERED,
        more_is_better=True,
    ),
    "grave": Shown(
        "how often the first guess is wrong by nearly the largest distance",
        _grave,
        (ONE,),
        graded=True,
    ),
    "rps": Shown(
        "sum of squared differences of cumulative probabilities",
        scores.ranked_probability_score,
        _ORDERED,
    ),
    "nll": Shown(
        "−log of the true label's probability", scores.negative_log_likelihood, (ONE, ORDERED)
    ),
    "recall_at_5": Shown(
        "share of true labels in the first five guesses",
        scores.recall_at_k,
        _FEW,
        {"k": 5},
        more_is_better=True,
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
    "cosine": Shown("cosine of both", scores.cosine, _SHARES, more_is_better=True),
    "intersection": Shown("mass in common", scores.intersection, _SHARES, more_is_better=True),
}


def kind_of(target: Any, metric: GroundMetric) -> str:
    """The kind of a target, which may have any form that losses take.

    >>> kind_of(torch.tensor([0, 2]), Ordinal(3)), kind_of(torch.tensor([0, 2]), Discrete(3))
    ('ordered', 'one label')
    """
    if isinstance(target, Tensor) and target.dim() == 1:
        return ORDERED if isinstance(metric, Ordinal) and _in_order(metric) else ONE
    weights = target.weights if isinstance(target, SparseTarget) else target.to_dense()
    most = weights.max(1, keepdim=True).values  # indicators may be normalised
    return TAGS if ((weights == 0) | (weights == most)).all() else DISTRIBUTION


def _in_order(metric: Ordinal) -> bool:
    """Whether ids follow the positions on the line, as scores that count steps require."""
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
