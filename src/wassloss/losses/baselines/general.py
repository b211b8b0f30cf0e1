"""Losses for labels without an order: any labels, taxonomies, and pixels of images."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from wassloss._checks import at_least_single, check_strength
from wassloss.ground import Tree
from wassloss.ground.matrix import AnyMetric
from wassloss.losses.baselines.per_example import PerExampleLoss, cost_table, dense_shares, masses
from wassloss.losses.evaluators.composed import divergence_at
from wassloss.losses.inputs import check_class_ids
from wassloss.losses.modules import WassersteinLoss
from wassloss.losses.softened import mixed
from wassloss.targets import Target, read_target

_SMOOTH = 1e-5  # of the Dice loss, as in MONAI


class KLLoss(PerExampleLoss):
    r"""`KL(target ‖ softmax(logits))`, whose gradient is that of cross-entropy.

    >>> KLLoss(2)(torch.zeros(1, 2), torch.tensor([[3.0, 3.0]]))
    tensor(0.)
    """

    def per_example(self, logits: Tensor, target: Target) -> Tensor:
        y = masses(target, self.labels, logits).normalized()
        return divergence_at(y, logits.log_softmax(1))


class ExpectedCostLoss(PerExampleLoss):
    r"""The expected cost of a prediction drawn at random: :math:`\sum_{ij} h_i y_j M_{ij}`.

    It is the Wasserstein loss whose plan is the independent coupling.

    Args:
        kl_weight: weight of `KL(target ‖ prediction)`, as in :class:`~wassloss.WassersteinLoss`.

    >>> import wassloss as wl
    >>> ExpectedCostLoss(wl.ground.Ordinal(3))(torch.zeros(1, 3), torch.tensor([0]))
    tensor(1.)
    """

    cost: Tensor

    def __init__(
        self, metric: AnyMetric, *, kl_weight: float = 0.0, reduction: str = "mean"
    ) -> None:
        cost = cost_table(metric)
        super().__init__(len(cost), reduction=reduction)
        self.kl_weight = check_strength("kl_weight", kl_weight)
        self.register_buffer("cost", cost, persistent=False)

    def extra_repr(self) -> str:
        return f"kl_weight={self.kl_weight:g}, reduction={self.reduction!r}"

    def per_example(self, logits: Tensor, target: Target) -> Tensor:
        y, log_h = masses(target, self.labels, logits).normalized(), logits.log_softmax(1)
        columns = self.cost.to(logits.dtype)[y.indices]
        value = (log_h.exp() * mixed(y.weights, columns)).sum(1)
        return value + self.kl_weight * divergence_at(y, log_h) if self.kl_weight else value


class PoissonLoss(PerExampleLoss):
    r"""`KL~(target ‖ prediction)`, for masses of any total.

    .. math:: \sum_i y_i \log(y_i / h_i) - y_i + h_i

    The negative log-likelihood of Poisson counts, minus the terms that depend only on the counts.
    It takes logs of masses, as :class:`~wassloss.RelaxedWassersteinLoss` does, and is the KL term
    of that loss.

    >>> PoissonLoss(2)(torch.tensor([[1.0, 3.0]]).log(), torch.tensor([[1.0, 3.0]]))
    tensor(0.)
    """

    def per_example(self, logits: Tensor, target: Target) -> Tensor:
        y = masses(target, self.labels, logits)
        return divergence_at(y, logits) - y.weights.sum(1) + logits.exp().sum(1)


class SoftLabelLoss(WassersteinLoss):
    r"""KL on labels softened by the metric: :math:`\propto \exp(-\beta\, M_{\cdot\kappa})`.

    With a taxonomy as the metric these are the soft labels of Bertinetto et al. (2020); with
    `Ordinal(labels, power=2)`, SORD of Díaz and Marathe (2019). It is
    :class:`~wassloss.WassersteinLoss` without its transport term, in the metric's own units.

    Args:
        beta: inverse temperature; cross-entropy is the limit of large values.

    >>> import wassloss as wl
    >>> sord = SoftLabelLoss(wl.ground.Ordinal(3, power=2))
    >>> sord(torch.tensor([[0.0, -1.0, -4.0]]), torch.tensor([0]))
    tensor(0.)
    """

    def __init__(self, metric: AnyMetric, *, beta: float = 1.0, reduction: str = "mean") -> None:
        if not check_strength("beta", beta) > 0:
            raise ValueError(f"beta must be positive, got {beta}")
        super().__init__(
            metric,
            kl_weight=1.0,
            softening=1 / beta,
            transport_weight=0.0,
            normalize_target=True,
            normalize_cost=False,
            reduction=reduction,
        )


class QuadraticFormLoss(PerExampleLoss):
    r"""The squared quadratic form distance, QFD², of Wen et al. (2023).

    .. math:: (h - y)^\top A\, (h - y), \qquad A_{ij} = 1 - M_{ij} / \max M

    With `Ordinal(labels)` it is `2 / (labels − 1)` times :class:`SquaredEMDLoss`.

    >>> import wassloss as wl
    >>> QuadraticFormLoss(wl.ground.Ordinal(3))(torch.zeros(1, 3), torch.tensor([0]))
    tensor(0.5556)
    """

    similarity: Tensor

    def __init__(self, metric: AnyMetric, *, reduction: str = "mean") -> None:
        cost = cost_table(metric, relative=True)
        super().__init__(len(cost), reduction=reduction)
        self.register_buffer("similarity", 1 - cost, persistent=False)

    def per_example(self, logits: Tensor, target: Target) -> Tensor:
        gap = logits.softmax(1) - dense_shares(target, self.labels, logits)
        return ((gap @ self.similarity.to(gap.dtype)) * gap).sum(1)


class WeightedKappaLoss(nn.Module):
    r"""One minus the weighted kappa of a batch (de la Torre, Puig and Valls, 2018).

    .. math:: \frac{\sum_n \sum_{ij} h_{ni}\, y_{nj}\, M_{ij}}
        {\frac1N \sum_{ij} (\sum_n h_{ni}) (\sum_n y_{nj})\, M_{ij}}

    Quadratic weights are `Ordinal(labels, power=2)`. The loss depends on the batch as a whole, so
    it has no ``reduction``, and is always 1 for a batch of one example.

    >>> import wassloss as wl
    >>> loss_fn = WeightedKappaLoss(wl.ground.Ordinal(3, power=2))
    >>> loss_fn(10 * torch.eye(3), torch.tensor([0, 1, 2])) < 0.001
    tensor(True)
    """

    cost: Tensor

    def __init__(self, metric: AnyMetric) -> None:
        super().__init__()
        self.register_buffer("cost", cost_table(metric), persistent=False)

    def forward(self, logits: Tensor, target: Target) -> Tensor:
        logits = at_least_single(logits)
        with torch.autocast(logits.device.type, enabled=False):
            y, h = dense_shares(target, len(self.cost), logits), logits.softmax(1)
            cost = self.cost.to(h.dtype).T  # row i: from label i
            by_chance = ((h.mean(0) @ cost) * y.mean(0)).sum()
            tiny = torch.finfo(h.dtype).tiny
            return ((h @ cost) * y).sum(1).mean() / by_chance.clamp(min=tiny)


class HierarchicalCrossEntropyLoss(PerExampleLoss):
    r"""Hierarchical cross-entropy, HXE, of Bertinetto et al. (2020).

    .. math:: -\sum_C e^{-\alpha\, \text{depth}(\text{parent of } C)}
        \log \frac{p(C)}{p(\text{parent of } C)}

    over the nodes C from the label up, where :math:`p(C)` is the predicted mass below C. A choice
    further down counts less, so mistakes near the root cost most. With ``alpha=0`` it is
    cross-entropy. Weights are 1 at the root; the authors' code divides them by their sum.

    Args:
        tree: the taxonomy.
        alpha: decay of the weight per step from the root.

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
        if bool(torch.isin(tree.label_position, tree.parent_position).any()):
            raise ValueError(
                "tree must have labels only at leaves, got a label with nodes below it"
            )
        super().__init__(tree.size, reduction=reduction)
        self.alpha = check_strength("alpha", alpha)
        nodes = torch.arange(len(tree.parent_position), device=tree.device).unsqueeze(1)
        within = tree.label_position >= nodes
        below = within & (tree.label_position < tree.subtree_end.unsqueeze(1))
        depth = [-1]  # of each node's parent, in preorder
        for parent in tree.parent_position.tolist()[1:]:
            depth.append(depth[parent] + 1)
        weight = torch.exp(-self.alpha * torch.tensor(depth, dtype=torch.float64))
        weight[0] = 0  # the root has no alternatives
        self.register_buffer("below", below.double(), persistent=False)
        self.register_buffer("choice", weight.to(below.device), persistent=False)
        self.register_buffer("parents", tree.parent_position.clamp(min=0), persistent=False)

    def per_example(self, logits: Tensor, target: Target) -> Tensor:
        y = dense_shares(target, self.labels, logits).double()
        # In double precision, where the mass of a subtree vanishes only at logits 700 below others.
        below, choice = self.below.double(), self.choice.double()
        mass = logits.double().softmax(1) @ below.T  # (batch, nodes)
        log_mass = mass.clamp(min=torch.finfo(torch.float64).tiny).log()
        conditional = log_mass - log_mass[:, self.parents]
        return -((y @ below.T) * choice * conditional).sum(1).to(logits.dtype)


class WassersteinDiceLoss(PerExampleLoss):
    r"""The generalised Wasserstein Dice loss of Fidon et al. (2017).

    .. math:: 1 - \frac{2 \sum_p \alpha_{y_p} (1 - W_p)}
        {2 \sum_p \alpha_{y_p} (1 - W_p) + \sum_p W_p},
        \qquad W_p = \sum_i h_{pi} M_{i y_p} / \max M

    over the pixels p of an image, one value per image. Pixels of label 0, the background, add
    errors but no hits: :math:`\alpha` is 0 for them, and 1 for all other labels. Numerator and
    denominator are increased by :math:`10^{-5}`.

    Logits are `(batch, labels, …)`, targets class ids `(batch, …)`.

    >>> import torch, wassloss as wl
    >>> loss_fn = WassersteinDiceLoss(wl.ground.Matrix([[0, 1, 1], [1, 0, 0.5], [1, 0.5, 0]]))
    >>> loss_fn(torch.zeros(2, 3, 4, 4), torch.ones(2, 4, 4, dtype=torch.long))
    tensor(0.3333)
    """

    distance: Tensor

    def __init__(self, metric: AnyMetric, *, reduction: str = "mean") -> None:
        distance = cost_table(metric, relative=True)
        super().__init__(len(distance), reduction=reduction)
        self.register_buffer("distance", distance, persistent=False)

    def per_example(self, logits: Tensor, target: Tensor) -> Tensor:  # type: ignore[override]
        shape = tuple(logits.shape)
        if len(shape) < 3 or shape[1] != self.labels:
            raise ValueError(f"logits must have shape (batch, {self.labels}, …), got {shape}")
        check_class_ids(target)
        read, _ = read_target(target, self.labels, torch.Size((shape[0], *shape[2:])), logits)
        ids, valid = (x.reshape(shape[0], -1) for x in (read.indices, read.weights))  # by pixel
        h = logits.flatten(2).softmax(1)  # (batch, labels, pixels)
        to_each = self.distance.to(h.dtype) @ h  # row j: the cost to label j
        error = valid * to_each.gather(1, ids.unsqueeze(1)).squeeze(1)  # (batch, pixels)
        hits = 2 * ((ids != 0) * (1 - error)).sum(1)
        return 1 - (hits + _SMOOTH) / (hits + error.sum(1) + _SMOOTH)
