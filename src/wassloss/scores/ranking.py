"""Ranking: does a true label score higher than a false one?"""

from __future__ import annotations

from typing import Any, Literal, TypeAlias

import torch
from torch import Tensor

from wassloss._checks import check_choice
from wassloss.ground._cost import blocks
from wassloss.scores._inputs import (
    AnyTarget,
    Numbers,
    check_reduction,
    dense_weights,
    given_back,
    read_labels,
    read_sample_weight,
    read_scores,
)

Per: TypeAlias = Literal["example", "label", "pooled"]


@torch.no_grad()
def ranking_auc(
    scores: Numbers,
    target: AnyTarget,
    *,
    per: Per = "example",
    sample_weight: Numbers | None = None,
    reduction: str = "mean",
) -> Any:
    r"""The area under the ROC curve: how likely a true label is to outscore a false one.

    .. math:: \text{AUC} = \frac{1}{|P| |N|} \sum_{p \in P} \sum_{n \in N}
        [s_p > s_n] + \tfrac12 [s_p = s_n]

    where P and N are, for each example, its true and its false labels (``per="example"``,
    scikit-learn's ``average="samples"``); for each label, the examples that have it and those that
    do not (``per="label"``, ``"macro"``); or all pairs of an example and a label
    (``per="pooled"``, ``"micro"``). Equal to ``sklearn.metrics.roc_auc_score``, ties included.

    An example (or label) without a true or without a false side has no AUC: it is left out of the
    mean, and NaN where ``reduction="none"`` lists them, so that it can be counted.

    Args:
        scores: probabilities, logits, or anything to rank by, `(batch, labels)`.
        target: the true labels in any form (see :mod:`wassloss.scores`); an example may have none.
        per: what is ranked: labels in each ``"example"``, examples for each ``"label"``, or all
            ``"pooled"``.
        sample_weight: a weight for each example, `(batch,)`: in the mean over examples, or in the
            pairs that a label's or the pooled AUC counts.
        reduction: ``"mean"``, or ``"none"``: `(batch,)`, `(labels,)`, or for ``"pooled"`` a scalar
            all the same.

    >>> import numpy as np
    >>> scores = np.array([[0.1, 0.6, 0.0, 0.3], [0.1, 0.2, 0.3, 0.4]])
    >>> ranking_auc(scores, [[1, 1, 0, 0], [0, 0, 0, 0]], reduction="none")
    array([0.75, nan])
    >>> ranking_auc(scores, [[1, 1, 0, 0], [0, 0, 0, 0]])
    0.75
    """
    check_reduction(reduction)
    check_per(per)
    x = read_scores("scores", scores)
    weight = read_sample_weight(sample_weight, x)
    true = dense_weights(read_labels(target, x, allow_empty=True), x.shape[1]) > 0
    values = auc(x, true, weight, per)
    if reduction == "mean" and per != "pooled":
        values = _mean_of_defined(values, weight if per == "example" else torch.ones_like(values))
    if reduction == "mean" and values.isnan():
        raise ValueError(
            f"target must leave some {per} AUC defined, with a true and a false side of positive "
            f"weight, got none among {x.shape[0]} examples and {x.shape[1]} labels"
        )
    return given_back(values, scores)


def check_per(per: str) -> None:
    """One of the three ways to rank."""
    check_choice("per", per, ("example", "label", "pooled"))


def auc(x: Tensor, true: Tensor, weight: Tensor, per: Per) -> Tensor:
    """AUCs in double precision, NaN where undefined; `true` is a mask, `weight` is `(batch,)`."""
    if per == "example":
        return _row_auc(x, true, weight.new_ones(1, x.shape[1]))
    if per == "label":
        return _row_auc(x.T, true.T, weight.unsqueeze(0))
    pairs = weight.unsqueeze(1).expand(x.shape)
    return _row_auc(x.reshape(1, -1), true.reshape(1, -1), pairs.reshape(1, -1)).squeeze(0)


def _row_auc(x: Tensor, true: Tensor, weight: Tensor) -> Tensor:
    """The AUC of each row of `(rows, n)`, where entries weigh `(1, n)`."""
    rows = torch.arange(len(x), device=x.device)
    found = [
        _block_auc(x[block].contiguous(), true[block], weight.double())
        for block in blocks(rows, max(1, x.shape[1]))
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


def _mean_of_defined(values: Tensor, weight: Tensor) -> Tensor:
    defined = ~values.isnan()
    share = weight.double()[defined]
    return (values[defined] * share).sum() / share.sum()
