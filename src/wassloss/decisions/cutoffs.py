"""Cut-offs of the expected position on a line, tuned for a score."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wassloss._checks import check_choice
from wassloss.decisions import _inputs
from wassloss.ground import Ordinal
from wassloss.scores import _inputs as inputs
from wassloss.scores._inputs import Numbers

if TYPE_CHECKING:
    from typing_extensions import Self

Array = NDArray[np.float64]
_SCORES = ("quadratic_weighted_kappa", "mean_absolute_error")


class Cutoffs:
    r"""Choose labels by comparing the expected position on a line with tuned cut-offs.

    The expected position :math:`\sum_j p_j x_j` of each row is compared with `labels - 1`
    cut-offs. `fit` finds the cut-offs with the best score on its rows, which must be rows that the
    model was not trained on.

    Both scores are optimised exactly. Answers never decrease along rows sorted by position, so a
    dynamic program of size `rows × labels` finds the least sum of costs. Quadratic weighted kappa
    is one minus a ratio of two such sums, :math:`\sum_r (a_r - y_r)^2` over its expectation by
    chance, :math:`\sum_{rk} \pi_k (a_r - k)^2`; a few such programs find the least ratio
    (Dinkelbach, 1967).

    Args:
        metric: the line, :class:`~wassloss.ground.Ordinal`.
        score: ``"quadratic_weighted_kappa"`` or ``"mean_absolute_error"``, as in
            :mod:`wassloss.scores`: in steps from label to label.

    Attributes:
        cutoffs: the fitted cut-offs from low to high, `(labels - 1,)`; an infinite one means that
            no row, or every row, exceeds it.
        score_: the score on the rows of `fit`.

    >>> import wassloss as wl
    >>> p = [[0.8, 0.2, 0.0], [0.6, 0.3, 0.1], [0.5, 0.2, 0.3], [0.4, 0.3, 0.3]]
    >>> cut = Cutoffs(wl.ground.Ordinal(3)).fit(p, [0, 1, 2, 2])
    >>> cut(p), cut.score_
    (array([0, 1, 2, 2]), 1.0)
    >>> wl.decisions.least_cost_label(p, wl.ground.Ordinal(3))
    array([0, 0, 0, 1])
    """

    cutoffs: Array
    score_: float

    def __init__(self, metric: Ordinal, score: str = "quadratic_weighted_kappa") -> None:
        if not isinstance(metric, Ordinal):
            raise TypeError(f"metric must be an Ordinal, got {metric!r}")
        check_choice("score", score, _SCORES)
        self.metric, self.score = metric, score

    @torch.no_grad()
    def fit(self, probabilities: Numbers, y: Any, sample_weight: Numbers | None = None) -> Self:
        """Choose the cut-offs.

        Args:
            probabilities: `(rows, labels)`: tensor, array or data frame.
            y: the true label of each row, `(rows,)`: class ids, or names of labels.
            sample_weight: weight per row, `(rows,)`.
        """
        p = _inputs.read_simplex(probabilities, self.metric)
        truth = _inputs.read_truth(y, len(p), self.metric.size, self.metric.labels).numpy()
        weight = inputs.read_sample_weight(sample_weight, p).cpu().numpy()
        along = self._order().argsort().cpu().numpy()  # rank of each label on the line
        places, row = np.unique(self._places(p), return_inverse=True)
        seen = np.zeros((len(places), self.metric.size))  # weight of each true label per position
        np.add.at(seen, (row, along[truth]), weight)
        labels = np.arange(self.metric.size)
        steps = np.abs(labels[:, None] - labels).astype(np.float64)
        if not seen.any():
            raise ValueError("y must have a row with positive weight to choose cut-offs, got none")
        if self.score == "mean_absolute_error":
            starts, total = _least_sum(seen @ steps)
            self.score_ = total / seen.sum()
        else:
            if (seen.sum(0) > 0).sum() < 2:
                raise ValueError("y must hold two labels or more for a kappa, got one")
            by_chance = seen.sum(1)[:, None] * (seen.sum(0) / seen.sum() @ steps**2)
            starts, ratio = _least_ratio(seen @ steps**2, by_chance)
            self.score_ = 1 - ratio
        self.cutoffs = _between(places, starts)
        return self

    @torch.no_grad()
    def __call__(self, probabilities: Numbers) -> Any:
        """The label of each row, integers `(batch,)`."""
        if not hasattr(self, "cutoffs"):
            raise ValueError("Cutoffs must be fitted first: call fit(probabilities, y)")
        places = self._places(_inputs.read_simplex(probabilities, self.metric))
        steps = torch.from_numpy(np.searchsorted(self.cutoffs, places, side="right"))
        return _inputs.given_back(self._order()[steps.to(self.metric.device)], probabilities)

    def _order(self) -> Tensor:
        return self.metric.positions.argsort(stable=True)

    def _places(self, p: Tensor) -> Array:
        places: Array = (p * self.metric.positions.double()).sum(1).cpu().numpy()
        return places

    def __repr__(self) -> str:
        found = f"{self.score_:.4g}" if hasattr(self, "score_") else "not fitted"
        return f"Cutoffs({self.metric!r}, {self.score!r}): {found}"


def _least_sum(costs: Array) -> tuple[NDArray[np.int64], float]:
    """Minimise the sum of costs over non-decreasing answers.

    Args:
        costs: the cost of each answer at each position, `(places, labels)`.

    Returns:
        The first position of each answer but the lowest, `(labels - 1,)`, and the least sum.
    """
    sums = np.concatenate([np.zeros((1, costs.shape[1])), costs.cumsum(0)])
    best, count = sums[:, 0], np.arange(len(sums))  # of the first places, with answers so far
    starts = []
    for answer in range(1, costs.shape[1]):
        saved = best - sums[:, answer]
        least = np.minimum.accumulate(saved)
        starts.append(np.maximum.accumulate(np.where(saved == least, count, 0)))
        best = least + sums[:, answer]
    end, found = len(costs), []
    for start in reversed(starts):
        end = int(start[end])
        found.append(end)
    return np.array(found[::-1], dtype=np.int64), float(best[-1])


def _least_ratio(over: Array, under: Array) -> tuple[NDArray[np.int64], float]:
    """Minimise the ratio of two sums over non-decreasing answers; returns as `_least_sum`."""
    rows, ratio = np.arange(len(over)), np.inf
    starts = np.zeros(over.shape[1] - 1, dtype=np.int64)
    trial = 1.0  # the ratio by chance, which can always be reached
    while trial < ratio:
        ratio, kept = trial, starts
        starts, _ = _least_sum(over - ratio * under)
        answers = np.searchsorted(starts, rows, side="right")
        trial = float(over[rows, answers].sum() / under[rows, answers].sum())
    return kept, ratio


def _between(places: Array, starts: NDArray[np.int64]) -> Array:
    """Cut-offs halfway between the positions before and after each start."""
    walled = np.concatenate([[-np.inf], places, [np.inf]])
    below, above = walled[starts], walled[starts + 1]
    with np.errstate(invalid="ignore"):
        middle = (below + above) / 2
    return np.where(middle > below, middle, above)  # no float is between neighbouring floats
