"""Which scores are shown for which kind of target: evaluations and comparisons read one table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from wassloss.ground import Discrete, GroundMetric, Ordinal
from wassloss.scores._inputs import read_labels
from wassloss.scores.calibration import negative_log_likelihood
from wassloss.scores.cost import distance_at_k, mean_wasserstein, top_k_cost
from wassloss.scores.distributions import (
    canberra,
    chebyshev,
    clark,
    cosine,
    intersection,
    kl_divergence,
)
from wassloss.scores.ordinal import (
    off_by_one_accuracy,
    quadratic_weighted_kappa,
    ranked_probability_score,
)
from wassloss.scores.ranking import accuracy, ranking_auc, recall_at_k
from wassloss.targets import SparseTarget

ONE, ORDERED, TAGS = "one label", "ordered", "tags"
DISTRIBUTION, MASSES = "distribution", "masses"  # masses have totals of their own
_LABELS = (ONE, ORDERED, TAGS, DISTRIBUTION)
_SHARES = (DISTRIBUTION, MASSES)  # judged after division by their totals, as runs predict shares
_GRAVE = 0.9  # of the largest distance, from which on a mistake is grave
_SAMPLE = 512  # labels among which the largest distance is looked for

Function = Callable[[Tensor, Any, GroundMetric], Tensor]  # of logits, target and metric


@dataclass(frozen=True)
class Shown:
    """A score that is shown.

    Attributes:
        more_is_better: whether a good one is large.
        meaning: in a few words.
        kinds: of targets for which it is shown.
        function: returns the score of each example, or one number if `pooled`.
        labels: how many there must be.
        answers: whether it judges only the first guess, so that it can also judge a decision.
        graded: whether it says nothing new where all mistakes are equally bad.
        pooled: the score of :mod:`wassloss.scores` if it is not a mean over examples.
        if_ordered: what it means for ordered labels, if they have another word for it.
    """

    more_is_better: bool
    meaning: str
    kinds: tuple[str, ...]
    function: Function
    labels: int = 1
    answers: bool = False
    graded: bool = False
    pooled: Any = None
    if_ordered: str | None = None

    def meaning_for(self, kind: str) -> str:
        """What it is, in a few words."""
        return (kind == ORDERED and self.if_ordered) or self.meaning


def nearest_true(target: Any, metric: GroundMetric, like: Tensor) -> Tensor:
    """The distance from every label to the nearest true one, `(batch, labels)`."""
    truth = read_labels(target, like)
    nearest = like.new_full((len(like), metric.size), torch.inf)
    for place in range(truth.indices.shape[1]):
        used = truth.weights[:, place] > 0
        columns = metric.distance_columns(truth.indices[used, place]).to(like.dtype)
        nearest[used] = torch.minimum(nearest[used], columns)
    return nearest


def _with_metric(score: Callable[..., Any], **options: Any) -> Function:
    return lambda x, y, metric: score(x, y, metric, reduction="none", **options)


def _without(score: Callable[..., Any], **options: Any) -> Function:
    return lambda x, y, metric: score(x, y, reduction="none", **options)


def _of_shares(score: Callable[..., Any]) -> Function:
    return lambda x, y, metric: score(x.softmax(1), y, reduction="none")


def _grave(x: Tensor, y: Any, metric: GroundMetric) -> Tensor:
    count = min(metric.size, _SAMPLE)
    some = torch.arange(count, device=metric.device) * metric.size // count
    far = _GRAVE * metric.distance_columns(some).max()
    off: Tensor = top_k_cost(x, y, metric, reduction="none")
    return (off >= far).to(x.dtype)


def _mass_distance(x: Tensor, y: Any, metric: GroundMetric) -> Tensor:
    return (x.softmax(1) * nearest_true(y, metric, x)).sum(1)


def _transport(x: Tensor, y: Any, metric: GroundMetric) -> Tensor:
    both = x.softmax(1), y
    found: Tensor = mean_wasserstein(*both, metric, normalize_target=True, reduction="none")
    return found


# To show another score, add a line.
SCORES: dict[str, Shown] = {
    "top1_cost": Shown(
        False,
        "distance of the first guess to a true label",
        _LABELS,
        _with_metric(top_k_cost),
        answers=True,
        if_ordered="mean absolute error of the first guess",
    ),
    "top5_cost": Shown(
        False,
        "the same, mean of the first five guesses",
        (ONE, TAGS),
        _with_metric(top_k_cost, k=5),
        labels=5,
    ),
    "top10_cost": Shown(
        False,
        "the same, mean of the first ten guesses",
        (ONE, TAGS),
        _with_metric(top_k_cost, k=10),
        labels=10,
    ),
    "auc": Shown(
        True, "chance that a true label outscores a false one", _LABELS, _without(ranking_auc)
    ),
    "accuracy": Shown(
        True, "how often the first guess is right", _LABELS, _without(accuracy), answers=True
    ),
    "off_by_one": Shown(
        True,
        "how often the first guess is at most one step off",
        (ORDERED,),
        _without(off_by_one_accuracy),
        answers=True,
    ),
    "kappa": Shown(
        True,
        "agreement beyond chance, quadratic weights",
        (ORDERED,),
        lambda x, y, metric: quadratic_weighted_kappa(x, y),
        answers=True,
        pooled=quadratic_weighted_kappa,
    ),
    "grave": Shown(
        False,
        "how often the first guess is nearly as far off as can be",
        (ONE,),
        _grave,
        answers=True,
        graded=True,
    ),
    "rps": Shown(
        False,
        "squared gaps of cumulated probabilities, summed",
        (ORDERED,),
        _of_shares(ranked_probability_score),
    ),
    "nll": Shown(
        False,
        "−log of the true label's probability",
        (ONE, ORDERED),
        _of_shares(negative_log_likelihood),
    ),
    "recall_at_5": Shown(
        True,
        "share of true labels in the first five guesses",
        (ONE, TAGS),
        _without(recall_at_k, k=5),
        labels=5,
    ),
    "expected_distance": Shown(
        False,
        "first guess to all true labels, mean distance",
        (TAGS, *_SHARES),
        _with_metric(distance_at_k),
        answers=True,
    ),
    "mass_distance": Shown(
        False, "distance of predicted mass to a true label", _LABELS, _mass_distance
    ),
    "transport": Shown(
        False, "from the predicted distribution to the true one", _SHARES, _transport
    ),
    "chebyshev": Shown(False, "largest gap of a share", _SHARES, _of_shares(chebyshev)),
    "clark": Shown(False, "relative gaps, as a norm", _SHARES, _of_shares(clark)),
    "canberra": Shown(False, "relative gaps, summed", _SHARES, _of_shares(canberra)),
    "kl": Shown(False, "KL from the truth", _SHARES, _of_shares(kl_divergence)),
    "cosine": Shown(True, "cosine of both", _SHARES, _of_shares(cosine)),
    "intersection": Shown(True, "mass in common", _SHARES, _of_shares(intersection)),
}


def kind_of(target: Any, metric: GroundMetric) -> str:
    """The kind of a target, in any form that losses take.

    >>> from wassloss.ground import Discrete
    >>> kind_of(torch.tensor([0, 2]), Ordinal(3)), kind_of(torch.tensor([0, 2]), Discrete(3))
    ('ordered', 'one label')
    >>> kind_of(torch.tensor([[0, 1, 1]]), Discrete(3))
    'tags'
    >>> kind_of(torch.tensor([[0.2, 0.8, 0.0]]), Discrete(3))
    'distribution'
    >>> kind_of(torch.tensor([[0.2, 0.8, 0.0], [3.0, 1.0, 1.0]]), Discrete(3))
    'masses'
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
        name: score
        for name, score in SCORES.items()
        if kind in score.kinds and score.labels <= metric.size and answers <= score.answers
        if not (equally_bad and score.graded)
    }
