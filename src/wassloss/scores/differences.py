"""How much two models differ on the same examples, with a confidence interval."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit

_LEVEL = 0.95
_FEWEST = 6  # clusters; fewer are all better or all worse by chance in more than 5 % of cases


@dataclass(frozen=True)
class Difference:
    """The mean difference of two models in a score, with its 95 % interval.

    Both ends are NaN if the data do not determine an interval.
    """

    mean: float
    low: float
    high: float

    def verdict(self, more_is_better: bool) -> str:
        """Whether the second model is better or worse; unclear if 0 is inside, or no interval."""
        if not (self.low > 0 or self.high < 0):
            return "unclear"
        return "better" if (self.mean > 0) == more_is_better else "worse"


def paired_difference(gaps: ArrayLike, groups: ArrayLike | None = None) -> Difference:
    r"""The mean of paired differences, with its confidence interval over examples and runs.

    The examples of a group, variants of one another, are not independent: they form a cluster, and
    the interval is over clusters. With :math:`n_g` of all :math:`n` differences in cluster
    :math:`g`, and the share :math:`w_g = n_g / n`, the variance of the mean :math:`\bar d` and its
    degrees of freedom are

    .. math::
        v = \frac1{n^2} \sum_g \frac1{1 - w_g} \Bigl(\sum_{i \in g} d_i - \bar d\Bigr)^2, \qquad
        \frac1\nu = \sum_g \frac{w_g^2 (1 - 2 w_g)}{(1 - w_g)^2}
        + \Bigl(\sum_g \frac{w_g^2}{1 - w_g}\Bigr)^2,

    the bias-reduced estimator of Bell and McCaffrey (2002). The interval is Student's,
    :math:`\bar d \pm t_\nu \sqrt v`. For clusters of equal size, :math:`\nu` is one less than their
    number; without groups, this is the textbook interval for paired differences.

    Several runs (seeds) on the same examples add the variance between their R means, with its own
    quantile, minus the part due to noise in single examples, which :math:`v` already contains:

    .. math:: \bar d \pm \sqrt{t_\nu^2 v + t_{R-1}^2 \max(v_R - v_{gR}, 0)}.

    There is no interval for fewer than two clusters, nor for fewer than six without any spread,
    which is common for errors in whole steps: by chance, five clusters are all better or all worse
    in 6 % of cases.

    In simulations the interval covers the true mean in 93 to 97 % of draws for 2 to 30 clusters, of
    equal sizes or of sizes from 2 to 10, and in 93 to 98 % for 3 and 5 runs. Coverage is lower for
    two runs (90 %), for two clusters of which one has nearly all examples (88 %), and if the means
    of clusters are as skewed as an exponential distribution (88 to 92 %).

    Args:
        gaps: second minus first for each example, `(examples,)` or `(runs, examples)`; NaN where
            an example has no score, which leaves it out of all runs.
        groups: the group of each example, `(examples,)`; by default, each is a group of its own.

    Returns:
        All NaN if no example has the score; low and high NaN where there is no interval.

    >>> paired_difference([0.0, 2.0, 0.0, 2.0])
    Difference(mean=1.0, low=-0.837..., high=2.837...)
    >>> paired_difference([0.0, 2.0, 1.0, 3.0], groups=["a", "a", "b", "b"])
    Difference(mean=1.5, low=-4.853..., high=7.853...)
    >>> paired_difference([0.0, 2.0, 1.0, 3.0], groups=["a", "a", "a", "a"])
    Difference(mean=1.5, low=nan, high=nan)
    """
    runs: NDArray[np.float64] = np.atleast_2d(np.asarray(gaps, dtype=np.float64))
    if runs.ndim > 2:
        raise ValueError(f"gaps must have shape (examples,) or (runs, examples), got {runs.shape}")
    count = runs.shape[1]
    owners = np.arange(count) if groups is None else np.asarray(groups)
    if owners.shape != (count,):
        raise ValueError(
            f"groups must have shape ({count},), one group per example, got {owners.shape}"
        )
    known = ~np.isnan(runs).any(0)
    if not known.any():
        return Difference(math.nan, math.nan, math.nan)
    runs, owners = runs[:, known], owners[known]  # both, so that they stay aligned
    cluster = np.unique(owners, return_inverse=True)[1].reshape(-1)
    share = np.bincount(cluster) / len(cluster)
    mean = float(runs.mean())
    if len(share) < 2:
        return Difference(mean, math.nan, math.nan)
    by_run, by_example = runs.mean(1), runs.mean(0)
    freedom = 1 / (
        (share**2 * (1 - 2 * share) / (1 - share) ** 2).sum() + (share**2 / (1 - share)).sum() ** 2
    )
    square = _quantile(freedom) ** 2 * _variance(by_example - mean, cluster, share)
    repeats = len(runs)
    if repeats > 1:
        rest = runs - by_run[:, None] - by_example + mean  # (runs, examples)
        noise = sum(_variance(row, cluster, share) for row in rest) / (repeats * (repeats - 1))
        of_runs = float(by_run.var(ddof=1)) / repeats - noise
        square += _quantile(repeats - 1) ** 2 * max(of_runs, 0.0)
    half = math.sqrt(square)
    if len(share) < _FEWEST and half <= 1e-9 * abs(mean):
        half = math.nan
    return Difference(mean, mean - half, mean + half)


def _variance(
    deviations: NDArray[np.float64], cluster: NDArray[np.int64], share: NDArray[np.float64]
) -> float:
    """The variance of the mean of examples in clusters, from their deviations `(examples,)`."""
    sums = np.bincount(cluster, weights=deviations) / len(deviations)
    return float((sums**2 / (1 - share)).sum())


def _quantile(freedom: float) -> float:
    """Student's quantile: how many standard errors the interval reaches to either side."""
    return float(stdtrit(freedom, (1 + _LEVEL) / 2))
