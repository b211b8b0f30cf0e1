"""Means and slopes with 95 % intervals; for paired differences, see `wassloss.scores`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from wassloss.scores import paired_difference


class Interval(NamedTuple):
    """A mean and the ends of its 95 % interval."""

    mean: float
    low: float
    high: float

    def __str__(self) -> str:
        return f"{self.mean:.3g} [{self.low:.3g}, {self.high:.3g}]"


def mean_interval(values: ArrayLike) -> Interval:
    """The interval of the mean of independent values, as in `paired_difference`.

    >>> print(mean_interval([1.0, 2.0, 3.0]))
    2 [-0.484, 4.48]
    """
    found = paired_difference(np.ravel(values))
    return Interval(found.mean, found.low, found.high)


def split_interval(gaps: ArrayLike, test_by_train: float) -> Interval:
    """The interval of a mean over random splits of the same examples, which overlap.

    Student's interval with the variance of Nadeau and Bengio (2003); `test_by_train` is the ratio
    of test to training examples.
    """
    x = np.asarray(gaps, dtype=np.float64)
    mean, n = float(x.mean()), len(x)
    if n < 2:
        return Interval(mean, np.nan, np.nan)
    half = float(stats.t.ppf(0.975, n - 1) * np.sqrt((1 / n + test_by_train) * x.var(ddof=1)))
    return Interval(mean, mean - half, mean + half)


def slope_interval(x: ArrayLike, y: ArrayLike) -> Interval:
    """The slope of a straight line through points, with its least-squares interval."""
    fit: Any = stats.linregress(np.asarray(x, float), np.asarray(y, float))
    half = float(stats.t.ppf(0.975, len(np.asarray(x)) - 2) * fit.stderr)
    return Interval(float(fit.slope), float(fit.slope) - half, float(fit.slope) + half)


def bands(rows: Sequence[ArrayLike]) -> NDArray[np.float64]:
    """Mean and interval of each row, `(3, rows)`, to draw a line with a band."""
    found: NDArray[np.float64] = np.array([mean_interval(row) for row in rows])
    columns: NDArray[np.float64] = found.T
    return columns
