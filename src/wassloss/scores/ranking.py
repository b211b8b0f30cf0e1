"""How often guesses are right, and how well labels are ranked: all mistakes are equally bad."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

import torch
from torch import Tensor

from wassloss._checks import check_choice
from wassloss.ground._cost import blocks
from wassloss.scores._inputs import AnyTarget, Ks, at_k, read_ks, read_weights
from wassloss.scores._score import Mean, Predictions, Weights, score
from wassloss.scores.decoding import top

if TYPE_CHECKING:
    from typing_extensions import Unpack

Per: TypeAlias = Literal["example", "label", "pooled"]


@score(larger_is_better=True)
def accuracy(scores: Predictions, target: AnyTarget, **mean: Unpack[Mean]) -> Any:
    r"""Whether the label of highest score is a label of largest weight in the target.

    .. math:: [\, y_{\hat\kappa} = \max_j y_j \,], \qquad \hat\kappa = \arg\max_j \text{scores}_j

    For class ids: whether it is the class. For several labels of weight 1: whether it is one of
    them.

    >>> import numpy as np
    >>> accuracy(np.array([[0.1, 0.9], [0.8, 0.2]]), [1, 1])
    0.5
    """
    weights = read_weights(target, scores)
    right = weights.gather(1, top(scores, 1)).squeeze(1) == weights.amax(1)
    return right.to(scores.dtype)


@score(larger_is_better=True)
def precision_at_k(scores: Predictions, target: AnyTarget, k: Ks = 1, **mean: Unpack[Mean]) -> Any:
    r"""The share of the `k` best guesses that are right.

    .. math:: \frac1k \, |\{\hat\kappa_1, \ldots, \hat\kappa_k\} \cap \{\kappa_j\}|

    >>> import numpy as np
    >>> precision_at_k(np.array([[0.1, 0.6, 0.0, 0.3]]), [[1, 1, 0, 0]], k=[1, 2, 3])
    array([1.    , 0.5   , 0.6667])
    """
    hits, _ = _hits(scores, target, k)
    ranks = torch.arange(1, hits.shape[1] + 1, device=hits.device)
    return at_k(hits / ranks, k)


@score(larger_is_better=True)
def recall_at_k(scores: Predictions, target: AnyTarget, k: Ks = 1, **mean: Unpack[Mean]) -> Any:
    r"""The share of the true labels that are among the `k` best guesses.

    .. math:: \frac{1}{|\{\kappa_j\}|} \, |\{\hat\kappa_1, \ldots, \hat\kappa_k\} \cap \{\kappa_j\}|

    With a single true label it is the top-k accuracy.

    >>> import numpy as np
    >>> recall_at_k(np.array([[0.1, 0.6, 0.0, 0.3]]), [[1, 1, 0, 0]], k=[1, 2, 3])
    array([0.5, 0.5, 1. ])
    """
    hits, true = _hits(scores, target, k)
    return at_k(hits / true.sum(1, keepdim=True), k)


def _hits(x: Tensor, target: AnyTarget, k: Ks) -> tuple[Tensor, Tensor]:
    """How many of the first guesses are right `(batch, largest k)`; which labels are true."""
    largest = max(read_ks(k, x.shape[1]))
    true = read_weights(target, x) > 0
    return true.gather(1, top(x, largest)).to(x.dtype).cumsum(1), true


@score(larger_is_better=True)
def ranking_auc(
    scores: Predictions,
    target: AnyTarget,
    *,
    per: Per = "example",
    sample_weight: Weights = None,
    reduction: Literal["mean", "none"] = "mean",
) -> Any:
    r"""The area under the ROC curve: how likely a true label is to outscore a false one.

    .. math:: \text{AUC} = \frac{1}{|P| |N|} \sum_{p \in P} \sum_{n \in N}
        [s_p > s_n] + \tfrac12 [s_p = s_n]

    where P and N are, for each example, its true and its false labels (``per="example"``,
    scikit-learn's ``average="samples"``); for each label, the examples that have it and those that
    do not (``per="label"``, ``"macro"``); or all pairs of an example and a label
    (``per="pooled"``, ``"micro"``). Equal to ``sklearn.metrics.roc_auc_score``, ties included.

    An example (or label) without a true or without a false side has no AUC: it is left out of the
    mean, and NaN under ``reduction="none"``, whose answer is `(batch,)`, `(labels,)` or, pooled, a
    scalar. ``sample_weight`` counts in the mean over examples, or in the pairs of a label's or the
    pooled AUC.

    >>> import numpy as np
    >>> scores = np.array([[0.1, 0.6, 0.0, 0.3], [0.1, 0.2, 0.3, 0.4]])
    >>> ranking_auc(scores, [[1, 1, 0, 0], [0, 0, 0, 0]], reduction="none")
    array([0.75, nan])
    >>> ranking_auc(scores, [[1, 1, 0, 0], [0, 0, 0, 0]])
    0.75
    """
    check_choice("per", per, get_args(Per))
    true = read_weights(target, scores, allow_empty=True) > 0
    values, weight = _auc(scores, true, sample_weight, per)
    return values, ~values.isnan() * weight


def _auc(x: Tensor, true: Tensor, weight: Tensor, per: Per) -> tuple[Tensor, Tensor]:
    """AUCs in double precision, NaN where undefined, and what they weigh; `true` is a mask."""
    once = weight.new_ones((), dtype=torch.float64)
    if per == "example":
        return _row_auc(x, true, weight.new_ones(1, x.shape[1])), weight.double()
    if per == "label":
        return _row_auc(x.T, true.T, weight.unsqueeze(0)), once
    pairs = weight.unsqueeze(1).expand(x.shape)
    found = _row_auc(x.reshape(1, -1), true.reshape(1, -1), pairs.reshape(1, -1))
    return found.squeeze(0), once


def _row_auc(x: Tensor, true: Tensor, weight: Tensor) -> Tensor:
    """The AUC of each row of `(rows, n)`, where entries weigh `(1, n)`."""
    found = [
        _block_auc(x[rows].contiguous(), true[rows], weight.double())
        for rows in blocks(torch.arange(len(x), device=x.device), max(1, x.shape[1]))
    ]
    return torch.cat([x.new_empty(0, dtype=torch.float64), *found])


def _block_auc(x: Tensor, true: Tensor, weight: Tensor) -> Tensor:
    ordered, order = x.sort(dim=1)
    false_weight = weight.expand(x.shape) * ~true
    # What the false entries up to each place weigh, with a 0 before the first.
    upto = torch.nn.functional.pad(false_weight.gather(1, order).cumsum(1), (1, 0))
    # Only true entries are looked up, for they are few: as a rectangle, padded with weight 0.
    width = max(1, int(true.sum(1).max())) if true.numel() else 1
    place = true.to(torch.uint8).topk(min(width, x.shape[1]), dim=1).indices
    own = x.gather(1, place)
    true_weight = (weight.expand(x.shape) * true).gather(1, place)
    below = upto.gather(1, torch.searchsorted(ordered, own))
    not_above = upto.gather(1, torch.searchsorted(ordered, own, right=True))
    won = (true_weight * (below + not_above) / 2).sum(1)
    return won / (true_weight.sum(1) * upto[:, -1])  # 0 / 0 is NaN, as promised
