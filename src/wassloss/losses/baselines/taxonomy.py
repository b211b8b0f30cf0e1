"""A loss for labels in a taxonomy."""

from __future__ import annotations

import torch
from torch import Tensor

from wassloss._checks import check_strength
from wassloss.ground import Tree
from wassloss.losses.baselines.per_example import PerExampleLoss, dense_shares
from wassloss.targets import Target


class HierarchicalCrossEntropyLoss(PerExampleLoss):
    r"""Hierarchical cross-entropy, HXE, of Bertinetto et al. (2020).

    .. math:: -\sum_C e^{-\alpha\, \text{depth}(\text{parent of } C)}
        \log \frac{p(C)}{p(\text{parent of } C)}

    over the notions C from the label up, where :math:`p(C)` is the predicted mass below C. A choice
    further down counts less, so that generic mistakes are the dear ones. With ``alpha=0`` it is
    cross-entropy. Weights are 1 at the root; the authors' code divides them by their sum.

    Args:
        tree: the taxonomy.
        alpha: how much less a choice counts for every step from the root.

    >>> import wassloss as wl
    >>> tree = wl.ground.Tree.from_paths([("pet", "dog"), ("pet", "cat"), ("truck",)])
    >>> HierarchicalCrossEntropyLoss(tree, alpha=0.0)(torch.zeros(1, 3), torch.tensor([0]))
    tensor(1.0986)
    """

    below: Tensor  # (nodes, labels): whether a label is in a node's subtree
    choice: Tensor  # (nodes,): weight of the choice of a node among its parent's children
    parents: Tensor  # (nodes,)

    def __init__(self, tree: Tree, *, alpha: float = 0.1, reduction: str = "mean") -> None:
        if not isinstance(tree, Tree):
            raise TypeError(f"tree must be a Tree, got {type(tree).__name__}")
        if bool(torch.isin(tree.label_position, tree.parents).any()):
            raise ValueError(
                "tree must have labels at leaves alone, got a label with nodes below it"
            )
        super().__init__(tree.size, reduction=reduction)
        self.alpha = check_strength("alpha", alpha)
        place = torch.arange(len(tree.parents), device=tree.device).unsqueeze(1)
        within = tree.label_position >= place
        below = within & (tree.label_position < tree.subtree_end.unsqueeze(1))
        depth = [-1]  # of each node's parent, in preorder
        for parent in tree.parents.tolist()[1:]:
            depth.append(depth[parent] + 1)
        weight = torch.exp(-self.alpha * torch.tensor(depth, dtype=torch.float64))
        weight[0] = 0  # the root is no choice
        self.register_buffer("below", below.double(), persistent=False)
        self.register_buffer("choice", weight.to(below.device), persistent=False)
        self.register_buffer("parents", tree.parents.clamp(min=0), persistent=False)

    def per_example(self, logits: Tensor, target: Target) -> Tensor:
        y = dense_shares(target, self.labels, logits).double()
        # In double precision, in which the mass of a subtree vanishes only some 700 below the rest.
        below, choice = self.below.double(), self.choice.double()
        mass = logits.double().softmax(1) @ below.T  # (batch, nodes)
        log_mass = mass.clamp(min=torch.finfo(torch.float64).tiny).log()
        conditional = log_mass - log_mass[:, self.parents]
        return -((y @ below.T) * choice * conditional).sum(1).to(logits.dtype)
