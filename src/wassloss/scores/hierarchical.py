"""Hierarchical precision, recall and F-score in a tree."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from wassloss._checks import check_number
from wassloss.ground import Tree
from wassloss.ground.matrix import AnyMetric
from wassloss.scores._inputs import AnyTarget, read_labels
from wassloss.scores._score import Mean, Predictions, Score
from wassloss.scores._top import top

if TYPE_CHECKING:
    from typing_extensions import Unpack


@Score(larger_is_better=True)
def hierarchical_fbeta(
    scores: Predictions,
    target: AnyTarget,
    metric: AnyMetric,
    *,
    beta: float = 1.0,
    **mean: Unpack[Mean],
) -> Any:
    r"""The hierarchical F-score of the first guess, at the depth of the true label.

    .. math:: F_\beta = \frac{(1 + \beta^2) P R}{\beta^2 P + R}, \qquad
        P = \frac{|A(\hat\kappa) \cap A(\kappa)|}{|A(\hat\kappa)|}, \qquad
        R = \frac{|A(\hat\kappa) \cap A(\kappa)|}{|A(\kappa)|}

    (Kiritchenko et al., 2006) with the nodes :math:`A` on the path from the root, exclusive, to a
    label, inclusive. ``beta=0`` is the hierarchical precision :math:`P`, ``beta=inf`` the
    hierarchical recall :math:`R`. If the target is a set of labels, :math:`\kappa` is their lowest
    common ancestor, and the guess is truncated to its depth: "dog" is right if the target is
    "animal". The metric is a :class:`~wassloss.ground.Tree`.

    >>> import wassloss as wl
    >>> tree = wl.ground.Tree.from_paths([("animal", "dog"), ("animal", "cat"), ("plant", "rose")])
    >>> guesses = [[1, 0, 0], [1, 0, 0], [1, 0, 0]]  # three times a dog
    >>> hierarchical_fbeta(guesses, [0, 1, 2], tree, reduction="none")
    array([1. , 0.5, 0. ])
    >>> hierarchical_fbeta(guesses, tree.target(["dog", "animal", "plant"]), tree, reduction="none")
    array([1., 1., 0.])
    """
    if not isinstance(metric, Tree):
        raise TypeError(f"metric must be a Tree, got {type(metric).__name__}")
    beta = check_number("beta", beta)
    if not beta >= 0:
        raise ValueError(f"beta must be at least 0, got {beta:g}")
    truth = read_labels(target, scores, sets=True)
    node = metric.label_position[truth.indices]  # (batch, support)
    used = truth.weights > 0
    ends = node.where(used, len(metric.parent_position)).amin(1), node.where(used, -1).amax(1)
    paths = _paths(metric)  # (nodes, levels)
    true = paths[ends[0]].where(paths[ends[0]] == paths[ends[1]], -1)
    depth = (true >= 0).sum(1)
    guess = paths[metric.label_position[top(scores, 1).squeeze(1)]]
    levels = torch.arange(paths.shape[1], device=paths.device)
    guess = guess.where(levels < depth.unsqueeze(1), -1)
    common = ((guess == true) & (true >= 0)).sum(1).to(scores.dtype)
    # At the root, every guess is right.
    precision = torch.where(depth > 0, common / (guess >= 0).sum(1).clamp(min=1), 1.0)
    recall = torch.where(depth > 0, common / depth.clamp(min=1), 1.0)
    if beta == float("inf"):
        return recall
    weighed = beta**2 * precision + recall
    return (1 + beta**2) * precision * recall / weighed.where(weighed > 0, 1.0)


def _paths(tree: Tree) -> Tensor:
    """The path from the root, exclusive, to each node, padded with −1, `(nodes, levels)`."""
    above = tree.parent_position.clone()
    above[0] = 0
    node = torch.arange(len(above), device=above.device)
    up = []
    while node.any():
        up.append(node)
        node = above[node]
    if not up:
        return node.new_full((len(node), 1), -1)
    listed = torch.stack(up, 1)  # from the node up, padded with the root, 0
    depth = (listed > 0).sum(1, keepdim=True)
    place = torch.arange(len(up), device=above.device)
    down = listed.gather(1, (depth - 1 - place).clamp(min=0))
    return down.where(place < depth, -1)
