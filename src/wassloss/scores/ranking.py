"""How often guesses are right and how well labels are ranked, with all mistakes equally bad."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import torch
from torch import Tensor

from wassloss.ground._cost import blocks
from wassloss.scores._inputs import AnyTarget, Ks, at_k, read_ks, read_weights
from wassloss.scores._score import Mean, Predictions, Score, Weights
from wassloss.scores._top import top

if TYPE_CHECKING:
    from typing_extensions import Unpack


@Score(larger_is_better=True)
def accuracy(scores: Predictions, target: AnyTarget, **mean: Unpack[Mean]) -> Any:
    r"""Whether the label of highest score is a label of largest weight in the target.

    .. math:: [\, y_{\hat\kappa} = \max_j y_j \,], \qquad \hat\kappa = \arg\max_j \text{scores}_j

    For class ids, this is whether it is the true class; for several labels of weight 1, or a set of
    labels, whether it is one of them.

    >>> accuracy([[0.1, 0.9], [0.8, 0.2]], [1, 1])
    0.5
    """
    weights = read_weights(target, scores, sets=True)
    right = weights.gather(1, top(scores, 1)).squeeze(1) == weights.amax(1)
    return right.to(scores.dtype)


@Score(larger_is_better=True)
def precision_at_k(scores: Predictions, target: AnyTarget, k: Ks = 1, **mean: Unpack[Mean]) -> Any:
    r"""The share of the `k` best guesses that are right.

    .. math:: \frac1k \, |\{\hat\kappa_1, \ldots, \hat\kappa_k\} \cap \{\kappa_j\}|

    >>> precision_at_k([[0.1, 0.6, 0.0, 0.3]], [[1, 1, 0, 0]], k=[1, 2, 3])
    array([1.    , 0.5   , 0.6667])
    """
    hits, _ = _hits(scores, target, k)
    ranks = torch.arange(1, hits.shape[1] + 1, device=hits.device)
    return at_k(hits / ranks, k)


@Score(larger_is_better=True)
def recall_at_k(scores: Predictions, target: AnyTarget, k: Ks = 1, **mean: Unpack[Mean]) -> Any:
    r"""The share of the true labels that are among the `k` best guesses.

    .. math:: \frac{1}{|\{\kappa_j\}|} \, |\{\hat\kappa_1, \ldots, \hat\kappa_k\} \cap \{\kappa_j\}|

    With a single true label it is the top-k accuracy.

    >>> recall_at_k([[0.1, 0.6, 0.0, 0.3]], [[1, 1, 0, 0]], k=[1, 2, 3])
    array([0.5, 0.5, 1. ])
    """
    hits, true = _hits(scores, target, k)
    return at_k(hits / true.sum(1, keepdim=True), k)


def _hits(x: Tensor, target: AnyTarget, k: Ks) -> tuple[Tensor, Tensor]:
    """How many of the first guesses are right `(batch, largest k)`; which labels are true."""
    largest = max(read_ks(k, x.shape[1]))
    true = read_weights(target, x) > 0
    return true.gather(1, top(x, largest)).to(x.dtype).cumsum(1), true


@Score(larger_is_better=True, ranks=True)
def ranking_auc(
    scores: Predictions,
    target: AnyTarget,
    *,
    sample_weight: Weights = None,
    reduction: Literal["mean", "none"] = "mean",
) -> Any:
    r"""The area under the ROC curve: how likely a true label is to outscore a false one.

    .. math:: \text{AUC} = \frac{1}{|P| |N|} \sum_{p \in P} \sum_{n \in N}
        [s_p > s_n] + \tfrac12 [s_p = s_n]

    where P and N are an example's true and false labels. Equal to ``sklearn.metrics.roc_auc_score``
    with ``average="samples"``, ties included; for transposed matrices, it is the AUC of each label
    over the examples (``average="macro"``).

    An example without a true or without a false label has no AUC: it is left out of the mean, and
    NaN under ``reduction="none"``.

    >>> scores = [[0.1, 0.6, 0.0, 0.3], [0.1, 0.2, 0.3, 0.4]]
    >>> ranking_auc(scores, [[1, 1, 0, 0], [0, 0, 0, 0]], reduction="none")
    array([0.75, nan])
    >>> ranking_auc(scores, [[1, 1, 0, 0], [0, 0, 0, 0]])
    0.75
    """
    true = read_weights(target, scores, allow_empty=True) > 0
    found = [
        _auc(scores[rows], true[rows])
        for rows in blocks(torch.arange(len(scores), device=scores.device), scores.shape[1])
    ]
    values = torch.cat([scores.new_empty(0, dtype=torch.float64), *found])
    return values, ~values.isnan() * sample_weight.double()


def _auc(x: Tensor, true: Tensor) -> Tensor:
    """The AUC of each row in double precision; NaN where undefined."""
    ordered, order = x.sort(dim=1)
    # How many of the first labels in this order are false, with a leading 0.
    upto = torch.nn.functional.pad((~true).double().gather(1, order).cumsum(1), (1, 0))
    # Look up only the true labels, which are few: as a rectangle, padded with false ones.
    width = max(1, int(true.sum(1).max()))
    labels = true.to(torch.uint8).topk(width, dim=1).indices
    own = x.gather(1, labels)
    below = upto.gather(1, torch.searchsorted(ordered, own))
    not_above = upto.gather(1, torch.searchsorted(ordered, own, right=True))
    won = (true.gather(1, labels) * (below + not_above) / 2).sum(1)
    return won / (true.sum(1) * upto[:, -1])  # 0 / 0 is NaN, as documented
