"""Which scores are shown for which kind of target: evaluations and comparisons read one table."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from wassloss import scores
from wassloss.ground import Discrete, GroundMetric, Ordinal
from wassloss.scores import cost
from wassloss.scores._inputs import AnyTarget, read_labels
from wassloss.scores._score import Mean, Predictions, score, score_of
from wassloss.targets import SparseTarget

if TYPE_CHECKING:
    from typing_extensions import Unpack

ONE, ORDERED, TAGS = "one label", "ordered", "tags"
DISTRIBUTION, MASSES = "distribution", "masses"  # masses have totals of their own
_GRAVE = 0.9  # of the largest distance, from which on a mistake is grave
_SAMPLE = 512  # labels among which the largest distance is looked for


@dataclass(frozen=True)
class Shown:
    """A score that is shown."""

    meaning: str  # in a few words
    score: Callable[..., Any]
    kinds: tuple[str, ...]  # of targets for which it is shown
    options: Mapping[str, Any] = field(default_factory=dict)  # keywords of the score
    graded: bool = False  # whether it says nothing new where all mistakes are equally bad
    if_ordered: str | None = None  # what it means for ordered labels, if they have a word for it

    def meaning_for(self, kind: str) -> str:
        """What it is, in a few words."""
        return (kind == ORDERED and self.if_ordered) or self.meaning

    @property
    def more_is_better(self) -> bool:
        """Whether a good one is large."""
        return score_of(self.score).larger_is_better

    @property
    def answers(self) -> bool:
        """Whether it judges only the first guess, so that it can also judge a decision."""
        return score_of(self.score).judges_first_guess(**self.options)

    @property
    def pooled(self) -> bool:
        """Whether it is not a mean over examples."""
        return score_of(self.score).answer is not None

    def function(self, logits: Tensor, target: Any, metric: GroundMetric) -> Tensor:
        """The score of each example, or one number if `pooled`."""
        of_each = {} if self.pooled else {"reduction": "none"}
        found: Tensor = self.score(self._read(logits), target, **self._keywords(metric), **of_each)
        return found

    def _read(self, logits: Tensor) -> Tensor:
        return logits if score_of(self.score).predictions == "scores" else logits.softmax(1)

    def _keywords(self, metric: GroundMetric) -> dict[str, Any]:
        own = {"metric": metric} if score_of(self.score).takes_metric else {}
        return {**own, **self.options}


@score(larger_is_better=False)
def _mass_distance(
    probabilities: Predictions, target: AnyTarget, metric: GroundMetric, **mean: Unpack[Mean]
) -> Any:
    truth = read_labels(target, probabilities)
    nearest = torch.full_like(probabilities, torch.inf)  # (batch, labels), to any true label
    for place in range(truth.indices.shape[1]):
        used = truth.weights[:, place] > 0
        columns = metric.distance_columns(truth.indices[used, place]).to(nearest.dtype)
        nearest[used] = torch.minimum(nearest[used], columns)
    return (probabilities * nearest).sum(1)


@score(larger_is_better=False)
def _grave(
    scores: Predictions, target: AnyTarget, metric: GroundMetric, **mean: Unpack[Mean]
) -> Any:
    count = min(metric.size, _SAMPLE)
    some = torch.arange(count, device=metric.device) * metric.size // count
    far = _GRAVE * metric.distance_columns(some).max()
    return (cost.top_k_cost(scores, target, metric, reduction="none") >= far).to(scores.dtype)


_EVERY, _FEW, _ORDERED = (ONE, ORDERED, TAGS, DISTRIBUTION), (ONE, TAGS), (ORDERED,)
_SHARES = (DISTRIBUTION, MASSES)  # judged after division by their totals, as runs predict shares
# To show another score, add a line.
SCORES = {
    "top1_cost": Shown(
        "distance of the first guess to a true label",
        scores.top_k_cost,
        _EVERY,
        if_ordered="mean absolute error of the first guess",
    ),
    "top5_cost": Shown(
        "the same, mean of the first five guesses", scores.top_k_cost, _FEW, {"k": 5}
    ),
    "top10_cost": Shown(
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
        "first guess to all true labels, mean distance", scores.distance_at_k, (TAGS, *_SHARES)
    ),
    "mass_distance": Shown("distance of predicted mass to a true label", _mass_distance, _EVERY),
    "transport": Shown(
        "from the predicted distribution to the true one",
        scores.mean_wasserstein,
        _SHARES,
        {"normalize_target": True},
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
    if ((weights == 0) | (weights == most)).all():
        return TAGS
    totals = weights.sum(1)
    return DISTRIBUTION if totals.allclose(totals[:1], rtol=1e-3) else MASSES


def _in_order(metric: Ordinal) -> bool:
    """Whether labels are numbered as they stand on the line, as steps between labels need it."""
    gaps = metric.positions.diff()
    return bool((gaps >= 0).all() or (gaps <= 0).all())


def shown_for(kind: str, metric: GroundMetric, *, answers: bool = False) -> dict[str, Shown]:
    """The scores for a kind of target, or those of them that judge answers."""
    equally_bad = isinstance(metric, Discrete)
    return {
        name: shown
        for name, shown in SCORES.items()
        if kind in shown.kinds
        and shown.options.get("k", 1) <= metric.size
        and answers <= shown.answers
        and not (equally_bad and shown.graded)
    }
