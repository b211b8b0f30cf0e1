r"""The paper's guarantees in numbers: Theorem 5.1 and Proposition 5.2.

Both bound the risk of the empirical risk minimiser over softmax models :math:`\mathfrak s \circ
\mathcal H^o` by the best risk in the class and the Rademacher complexity of :math:`\mathcal H^o`,
for linear classes :func:`linear_complexity`. They hold for ``power=1``, where the cost is a metric.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from experiments.lab.checks import check_count, check_seed, check_strength

_AT_ONCE = 2**22  # number of signs drawn at a time


class Estimate(NamedTuple):
    """A mean over random draws, and its standard error."""

    value: float
    error: float


def linear_complexity(features: Tensor, norm: float) -> float:
    r"""Bound the Rademacher complexity of :math:`\{x \mapsto \theta^\top x : \|\theta\|_2 \le B\}`.

    .. math:: \hat{\mathfrak R}_S = \frac BN \mathbb E_\sigma \Big\|\sum_i \sigma_i x_i\Big\|_2
        \le \frac BN \sqrt{\sum_i \|x_i\|_2^2}

    by Jensen's inequality; never more than :math:`\sqrt 2` too large (Khintchine).

    Args:
        features: the sample, `(examples, features)`, with a column of ones if there is a bias.
        norm: `B`, the largest norm of a label's weights.

    >>> linear_complexity(torch.eye(4), norm=2.0)
    1.0
    """
    x, norm = _sample(features), check_strength("norm", norm)
    return norm * math.sqrt(float(x.square().sum())) / len(x)


def linear_complexity_estimate(
    features: Tensor, norm: float, *, draws: int = 1000, seed: int = 0
) -> Estimate:
    r"""The same complexity by Monte Carlo over the signs :math:`\sigma`.

    Args:
        features: the sample, `(examples, features)`.
        norm: `B`, the largest norm of a label's weights.
        draws: number of sign vectors.
        seed: of the draws.

    >>> linear_complexity_estimate(torch.eye(4), norm=2.0)
    Estimate(value=1.0, error=0.0)
    """
    x, norm, draws = _sample(features), check_strength("norm", norm), check_count("draws", draws)
    rng = np.random.default_rng(check_seed("seed", seed))
    lengths = []
    for begin in range(0, draws, max(1, _AT_ONCE // len(x))):
        count = min(draws - begin, max(1, _AT_ONCE // len(x)))
        signs = rng.integers(0, 2, (count, len(x))) * 2.0 - 1.0
        lengths.append((torch.from_numpy(signs).to(x) @ x).norm(dim=1))
    values = norm / len(x) * torch.cat(lengths)
    spread = float(values.std()) if draws > 1 else math.nan
    return Estimate(float(values.mean()), spread / math.sqrt(draws))


def expected_linear_complexity(second_moment: float, norm: float, n: int) -> float:
    r"""Complexity over samples of size `n`: :math:`\mathfrak R_N \le B \sqrt{\mathbb E\|x\|^2/N}`.

    Args:
        second_moment: :math:`\mathbb E\|x\|_2^2`.
        norm: `B`, the largest norm of a label's weights.
        n: size of the samples.

    >>> expected_linear_complexity(4.0, norm=1.0, n=100)
    0.2
    """
    moment, norm = check_strength("second_moment", second_moment), check_strength("norm", norm)
    return norm * math.sqrt(moment / check_count("n", n))


def excess_risk_bound(
    complexity: float, n: int, labels: int, largest_cost: float, *, delta: float = 0.05
) -> float:
    r"""Theorem 5.1: a bound on the excess risk of the empirical risk minimiser.

    With probability at least :math:`1 - \delta`

    .. math:: \mathbb E[W_1^1(h_{\hat\theta}, y)] - \inf_\theta \mathbb E[W_1^1(h_\theta, y)]
        \le 32 K C_M \mathfrak R_N(\mathcal H^o) + 2 C_M \sqrt{\frac{\log(1/\delta)}{2N}}

    No loss exceeds :math:`C_M`, so a larger bound says nothing.

    Args:
        complexity: :math:`\mathfrak R_N(\mathcal H^o)`, of the functions of one label.
        n: number of training examples.
        labels: `K`.
        largest_cost: :math:`C_M`, the largest distance between labels.
        delta: probability with which the bound may fail.

    >>> round(excess_risk_bound(0.001, 10_000, labels=10, largest_cost=1.0), 3)
    0.344
    """
    complexity = check_strength("complexity", complexity)
    cost = check_strength("largest_cost", largest_cost)
    if not 0 < delta < 1:
        raise ValueError(f"delta must be between 0 and 1, got {delta}")
    n, labels = check_count("n", n), check_count("labels", labels)
    chance = 2 * cost * math.sqrt(math.log(1 / delta) / (2 * n))
    return 32 * labels * cost * complexity + chance


def multiclass_bound(
    best_risk: float,
    complexity: float,
    n: int,
    labels: int,
    largest_cost: float,
    *,
    delta: float = 0.05,
) -> float:
    r"""Proposition 5.2: a bound on the expected distance of the most probable class from the truth.

    .. math:: \mathbb E[d(\kappa_{\hat\theta}(x), \kappa)] \le K \inf_\theta \mathbb E[W_1^1]
        + 32 K^2 C_M \mathfrak R_N(\mathcal H^o) + 2 C_M K \sqrt{\frac{\log(1/\delta)}{2N}}

    that is `K` times the risk of Theorem 5.1, because the most probable class has at least `1/K`.

    Args:
        best_risk: :math:`\inf_\theta \mathbb E[W_1^1(h_\theta, y)]`.
        complexity: :math:`\mathfrak R_N(\mathcal H^o)`, of the functions of one label.
        n: number of training examples.
        labels: `K`.
        largest_cost: :math:`C_M`, the largest distance between labels.
        delta: probability with which the bound may fail.

    >>> round(multiclass_bound(0.1, 0.001, 10_000, labels=10, largest_cost=1.0), 2)
    4.44
    """
    best = check_strength("best_risk", best_risk)
    excess = excess_risk_bound(complexity, n, labels, largest_cost, delta=delta)
    return labels * (best + excess)


def _sample(features: Tensor) -> Tensor:
    if features.dim() != 2 or not features.is_floating_point() or len(features) == 0:
        raise ValueError(
            "features must be real numbers of shape (examples, features), at least one example, "
            f"got {features.dtype} of shape {tuple(features.shape)}"
        )
    return features.detach().double()
