"""Means, slopes and paired differences with their 95 % intervals."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

_NORMAL = 1.96  # standard errors on either side of a mean, for 95 %


class Interval(NamedTuple):
    """A mean and the ends of its 95 % interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3g} [{self.low:.3g}, {self.high:.3g}]"


def mean_interval(values: ArrayLike) -> Interval:
    """Student's interval of the mean of independent values; for one value, that value.

    >>> print(mean_interval([1.0, 2.0, 3.0]))
    2 [-0.484, 4.48]
    """
    x = np.asarray(values, dtype=np.float64).ravel()
    mean = float(x.mean())
    if len(x) < 2:
        return Interval(mean, mean, mean)
    half = float(stats.t.ppf(0.975, len(x) - 1) * x.std(ddof=1) / np.sqrt(len(x)))
    return Interval(mean, mean - half, mean + half)


def slope_interval(x: ArrayLike, y: ArrayLike) -> Interval:
    """The slope of a straight line through points, with the interval of least squares."""
    fit: Any = stats.linregress(np.asarray(x, float), np.asarray(y, float))
    half = float(stats.t.ppf(0.975, len(np.asarray(x)) - 2) * fit.stderr)
    return Interval(float(fit.slope), float(fit.slope) - half, float(fit.slope) + half)


def paired_interval(gaps: ArrayLike, groups: NDArray[np.int64] | None = None) -> Interval:
    r"""The mean of paired differences, with an interval over both examples and runs.

    The interval is the mean ± 1.96 standard errors. The variance over runs (seeds) is added to that
    over examples, because both would change if everything were repeated. Examples of one group,
    variants of each other, are not independent: their deviations are summed before squaring,

    .. math:: \frac1n \sqrt{\sum_g \Big(\sum_{i \in g} d_i - \bar d\Big)^2}.

    Args:
        gaps: second minus first for each example, `(runs, examples)`; NaN where an example has no
            score, which leaves it out of all runs.
        groups: the group of each example, `(examples,)`; by default each is its own.

    Returns:
        All NaN if no example has the score.

    >>> paired_interval([[0.0, 2.0, 0.0, 2.0]])
    Interval(mean=1.0, low=0.02, high=1.98)
    >>> paired_interval([[0.0, 2.0, 0.0, 2.0]], groups=np.array([0, 1, 0, 1]))
    Interval(mean=1.0, low=-0.386, high=2.386)
    """
    runs: NDArray[np.float64] = np.asarray(gaps, dtype=np.float64)
    owners = np.arange(runs.shape[1]) if groups is None else np.asarray(groups)
    known = ~np.isnan(runs).any(0)
    if not known.any():
        return Interval(math.nan, math.nan, math.nan)
    runs, owners = runs[:, known], owners[known]
    by_run, by_example = runs.mean(1), runs.mean(0)
    _, place = np.unique(owners, return_inverse=True)
    sums = np.bincount(place.reshape(-1), weights=by_example - by_example.mean())
    of_examples = math.sqrt(float((sums**2).sum())) / len(by_example)
    of_runs = float(by_run.std(ddof=1)) / math.sqrt(len(by_run)) if len(by_run) > 1 else 0.0
    mean, half = float(runs.mean()), _NORMAL * math.hypot(of_examples, of_runs)
    return Interval(mean, mean - half, mean + half)


def bands(rows: Sequence[ArrayLike]) -> NDArray[np.float64]:
    """Mean and interval of each row, `(3, rows)`, to draw a line with a band."""
    found: NDArray[np.float64] = np.array([mean_interval(row) for row in rows])
    columns: NDArray[np.float64] = found.T
    return columns
