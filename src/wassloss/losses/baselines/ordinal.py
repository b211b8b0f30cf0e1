"""Losses for ordered labels."""

from __future__ import annotations

import math

import torch
from torch import Tensor
from torch.nn.functional import pad, softplus

from wassloss._checks import at_least_single
from wassloss.losses.baselines.per_example import PerExampleLoss, dense_shares
from wassloss.targets import Target

_LOG_2 = math.log(2)


class SquaredEMDLoss(PerExampleLoss):
    r"""Squared differences of cumulative masses of ordered labels (Hou, Yu and Samaras, 2016).

    .. math:: \sum_i \Bigl( \sum_{j \le i} h_j - y_j \Bigr)^2

    >>> SquaredEMDLoss(2)(torch.zeros(1, 2), torch.tensor([0]))
    tensor(0.2500)
    """

    def per_example(self, logits: Tensor, target: Target) -> Tensor:
        y = dense_shares(target, self.labels, logits)
        return ((logits.softmax(1) - y).cumsum(1) ** 2).sum(1)


class CumulativeJensenShannonLoss(PerExampleLoss):
    r"""The Jensen-Shannon divergence of cumulative masses, CJS, of Wen et al. (2023).

    .. math:: \tfrac12 \sum_i H_i \log \frac{2 H_i}{H_i + Y_i} + Y_i \log \frac{2 Y_i}{H_i + Y_i},
        \qquad H_i = \sum_{j \le i} h_j, \; Y_i = \sum_{j \le i} y_j

    >>> CumulativeJensenShannonLoss(2)(torch.zeros(1, 2), torch.tensor([1]))
    tensor(0.1733)
    """

    def per_example(self, logits: Tensor, target: Target) -> Tensor:
        y = dense_shares(target, self.labels, logits).cumsum(1)
        # No gradient where no mass is left: that of h log h would be infinite.
        h = logits.softmax(1).cumsum(1).clamp(min=torch.finfo(logits.dtype).tiny)
        middle = (h + y).log() - _LOG_2
        return 0.5 * (torch.xlogy(h, h) + torch.xlogy(y, y) - (h + y) * middle).sum(1)


class _ThresholdLoss(PerExampleLoss):
    """Base of losses with one logit per threshold, `(batch, labels − 1)`."""

    def _exceeds(self, logits: Tensor, target: Target) -> Tensor:
        """The target's mass above each label but the last, `(batch, labels − 1)`."""
        if logits.dim() != 2 or logits.shape[1] != self.labels - 1:
            raise ValueError(
                f"logits must have shape (batch, {self.labels - 1}), one column per threshold, got "
                f"{tuple(logits.shape)}"
            )
        every = logits.new_zeros(len(logits), self.labels)
        return dense_shares(target, self.labels, every).flip(1).cumsum(1).flip(1)[:, 1:]

    def probabilities(self, logits: Tensor) -> Tensor:
        """Probabilities of labels `(batch, labels)` from a model's logits."""
        exceeds = pad(self._chances(logits), (1, 0), value=1.0)
        return (exceeds - pad(exceeds[:, 1:], (0, 1))).clamp(min=0)

    def _chances(self, logits: Tensor) -> Tensor:
        """The probability that the label exceeds each threshold, `(batch, labels − 1)`."""
        raise NotImplementedError


class CORALLoss(_ThresholdLoss):
    r"""CORAL of Cao, Mirjalili and Raschka (2020): a binary question for each threshold.

    .. math:: -\sum_k [y > k] \log \sigma(z_k) + [y \le k] \log (1 - \sigma(z_k))

    The model's logits `(batch, labels − 1)` are one score plus a bias for each threshold, as
    `nn.Linear(d, 1)(x) + nn.Parameter(torch.zeros(labels - 1))` computes. Targets may be
    distributions, which count by their mass on either side of a threshold.

    >>> loss_fn = CORALLoss(3)
    >>> loss_fn(torch.zeros(1, 2), torch.tensor([2]))
    tensor(1.3863)
    >>> loss_fn.probabilities(torch.zeros(1, 2))
    tensor([[0.5000, 0.0000, 0.5000]])
    """

    def per_example(self, logits: Tensor, target: Target) -> Tensor:
        above = self._exceeds(logits, target)
        return (above * softplus(-logits) + (1 - above) * softplus(logits)).sum(1)

    def _chances(self, logits: Tensor) -> Tensor:
        # Biases out of order give a larger probability for a higher threshold.
        return logits.sigmoid().cummin(1).values


class CORNLoss(_ThresholdLoss):
    r"""CORN of Shi, Cao and Raschka (2023): is the label above k, given that it is at least k?

    .. math:: -\sum_{k \le y} [y > k] \log \sigma(z_k) + [y = k] \log (1 - \sigma(z_k))

    The sum over k is an example's negative log-likelihood. The ``"mean"`` divides by the number of
    questions, as the paper does, rather than by the number of examples. Targets may be
    distributions, which count by their mass.

    >>> loss_fn = CORNLoss(3)
    >>> loss_fn(torch.zeros(1, 2), torch.tensor([2]))
    tensor(0.6931)
    >>> loss_fn.probabilities(torch.zeros(1, 2))
    tensor([[0.5000, 0.2500, 0.2500]])
    """

    def forward(self, logits: Tensor, target: Target) -> Tensor:
        if self.reduction != "mean":
            return super().forward(logits, target)
        logits = at_least_single(logits)
        questions = _reaches(self._exceeds(logits, target))
        return self.per_example(logits, target).sum() / questions.sum()

    def per_example(self, logits: Tensor, target: Target) -> Tensor:
        above = self._exceeds(logits, target)
        below = _reaches(above) - above
        return (above * softplus(-logits) + below * softplus(logits)).sum(1)

    def _chances(self, logits: Tensor) -> Tensor:
        return logits.sigmoid().cumprod(1)


def _reaches(above: Tensor) -> Tensor:
    """The target's mass at or above each label but the last, given the mass above."""
    return pad(above[:, :-1], (1, 0), value=1.0)
