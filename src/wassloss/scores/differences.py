"""How much two models differ on the same examples, and how sure that is."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

_NORMAL = 1.96  # standard errors on either side of a mean, for 95 %


@dataclass(frozen=True)
class Difference:
    """The mean difference of two models in a score, with its 95 % interval."""

    mean: float
    low: float
    high: float

    def verdict(self, more_is_better: bool) -> str:
        """What that says of the second model: better, worse, or unclear where 0 is inside."""
        if not (self.low > 0 or self.high < 0):
            return "unclear"
        return "better" if (self.mean > 0) == more_is_better else "worse"


def paired_difference(gaps: ArrayLike, groups: NDArray[np.int64] | None = None) -> Difference:
    r"""The mean of paired differences, with the interval of examples and of runs.

    The interval is the mean ± 1.96 standard errors. The variance over runs (seeds) is added to that
    over examples, because both would differ if all were done again. Examples of one group, variants
    of each other, are not independent: their deviations are added up before they are squared,

    .. math:: \frac1n \sqrt{\sum_g \left(\sum_{i \in g} d_i - \bar d\right)^2}.

    Args:
        gaps: second minus first for each example, `(examples,)` or `(runs, examples)`; NaN where
            an example has no score, which leaves it out of all runs.
        groups: which group each example belongs to, `(examples,)`; by default each is its own.

    Returns:
        All NaN where no example has the score.

    >>> paired_difference([0.0, 2.0, 0.0, 2.0])
    Difference(mean=1.0, low=0.02, high=1.98)
    >>> paired_difference([0.0, 2.0, 0.0, 2.0], groups=np.array([0, 1, 0, 1]))
    Difference(mean=1.0, low=-0.386, high=2.386)
    """
    runs: NDArray[np.float64] = np.atleast_2d(np.asarray(gaps, dtype=np.float64))
    count = runs.shape[1]
    owners = np.arange(count) if groups is None else np.asarray(groups)
    if owners.shape != (count,):
        raise ValueError(
            f"groups must have shape ({count},), one group an example, got {owners.shape}"
        )
    known = ~np.isnan(runs).any(0)
    if not known.any():
        return Difference(math.nan, math.nan, math.nan)
    runs, owners = runs[:, known], owners[known]  # together, or groups would be other examples'
    by_run, by_example = runs.mean(1), runs.mean(0)
    _, place = np.unique(owners, return_inverse=True)
    sums = np.bincount(place.reshape(-1), weights=by_example - by_example.mean())
    of_examples = math.sqrt(float((sums**2).sum())) / len(by_example)
    of_runs = float(by_run.std(ddof=1)) / math.sqrt(len(by_run)) if len(by_run) > 1 else 0.0
    mean, half = float(runs.mean()), _NORMAL * math.hypot(of_examples, of_runs)
    return Difference(mean, mean - half, mean + half)
