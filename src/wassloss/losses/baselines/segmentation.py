"""A loss for images whose every pixel has a label."""

from __future__ import annotations

import torch
from torch import Tensor

from wassloss._checks import check_strength
from wassloss.ground.matrix import AnyMetric
from wassloss.losses.baselines.per_example import PerExampleLoss, cost_table
from wassloss.losses.inputs import check_class_ids
from wassloss.targets import read_target


class WassersteinDiceLoss(PerExampleLoss):
    r"""The generalised Wasserstein Dice loss of Fidon et al. (2017).

    .. math:: 1 - \frac{2 \sum_p \alpha_{y_p} (1 - W_p)}
        {2 \sum_p \alpha_{y_p} (1 - W_p) + \sum_p W_p},
        \qquad W_p = \sum_i h_{pi} M_{i y_p} / \max M

    over the pixels p of an image, one value per image. Pixels of the background add errors, but no
    hits: :math:`\alpha = 0`, and 1 for all other labels.

    Args:
        background: the label of the background.
        smooth: added to numerator and denominator.

    Logits are `(batch, labels, …)`, targets class ids `(batch, …)`.

    >>> import torch, wassloss as wl
    >>> loss_fn = WassersteinDiceLoss(wl.ground.Matrix([[0, 1, 1], [1, 0, 0.5], [1, 0.5, 0]]))
    >>> loss_fn(torch.zeros(2, 3, 4, 4), torch.ones(2, 4, 4, dtype=torch.long))
    tensor(0.3333)
    """

    distance: Tensor

    def __init__(
        self,
        metric: AnyMetric,
        *,
        background: int = 0,
        smooth: float = 1e-5,
        reduction: str = "mean",
    ) -> None:
        distance = cost_table(metric, relative=True)
        super().__init__(len(distance), reduction=reduction)
        if background not in range(self.labels):
            raise ValueError(f"background must be in 0..{self.labels - 1}, got {background!r}")
        self.background, self.smooth = background, check_strength("smooth", smooth)
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
        hits = 2 * ((ids != self.background) * (1 - error)).sum(1)
        return 1 - (hits + self.smooth) / (hits + error.sum(1) + self.smooth)
