"""Conformal prediction: sets of labels with guaranteed coverage or expected distance."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wassloss._checks import check_flag, check_number
from wassloss.decisions import _inputs
from wassloss.decisions._families import family_of, mass_before
from wassloss.decisions._report import Report
from wassloss.decisions._thresholds import (
    coverage_threshold,
    distance_threshold,
    falling_distances,
    rows_for_level,
)
from wassloss.ground import GroundMetric, Ordinal
from wassloss.ground.matrix import AnyMetric, as_ground_metric
from wassloss.scores._inputs import Numbers, with_distance

if TYPE_CHECKING:
    from typing_extensions import Self

_LEVEL = 0.9


class Guarantee:
    r"""Predict the smallest natural set of labels that keeps a promise.

    Each example has a chain of nested sets, from its most probable labels to all labels: intervals
    of a line, nodes of a tree from a leaf up, or balls around the label of least expected cost.
    `fit` finds a threshold on calibration rows, and the prediction is the smallest set of the chain
    whose probability exceeds it. One of two promises holds on average over new rows, even if the
    model is wrong:

    - ``level``: the set contains the truth with probability at least `level` (split conformal
      prediction);
    - ``distance``: the expected distance from the truth to the nearest label of the set is at most
      `distance`, in the metric's unit (conformal risk control).

    **Why it holds.** Let :math:`s(x, j)` be the probability of the largest set of the chain of `x`
    without the label `j`, which depends only on `x` and `j`. The prediction at a threshold `t` is
    :math:`C_t(x) = \{j : s(x, j) \le t\}`. It grows with `t`, and contains the truth if and only if
    :math:`s(x, y) \le t`. If calibration rows and the new row are exchangeable, all :math:`n + 1`
    ranks of the new row's :math:`s(x, y)` are equally likely. With the
    :math:`\lceil (n + 1) \, level \rceil`-th smallest of the `n` calibration rows as `t`,
    :math:`C_t` therefore contains the truth with probability at least `level`. Risk control only
    needs that the distance to :math:`C_t` decreases with `t`.

    The model must be neither trained nor tuned on the rows of `fit`, and new rows must come from
    the same source; neither can be checked here. The promise holds over all rows together: it may
    fail for rare classes unless `per_class` is set, and for groups unless `groups` are given.

    Args:
        metric: the ground metric, or a matrix of distances.
        level: the probability with which sets contain the truth, in (0, 1); 0.9 by default.
        distance: an expected distance to promise instead.
        sets: ``"interval"`` (the default on a line), ``"subtree"`` (on a tree), ``"ball"``
            (elsewhere), or ``"any"``: the most probable labels (for the 0-1 metric).
        per_class: keep `level` for each true class separately; each class then needs enough rows.
        names: the labels' names; by default the metric's, or positions on a line, or numbers.

    >>> import numpy as np, wassloss as wl
    >>> rng = np.random.default_rng(0)
    >>> p = rng.dirichlet([0.4] * 5, size=500)
    >>> y = (p.cumsum(1) > rng.random((500, 1))).argmax(1)
    >>> decide = Guarantee(wl.ground.Ordinal(5), level=0.8).fit(p, y)
    >>> decide([[0.9, 0.1, 0, 0, 0], [0, 0.4, 0.3, 0.2, 0.1]])
    array(['0', '1..3'], dtype=object)
    >>> decide.mask([[0.9, 0.1, 0, 0, 0]])
    array([[ True, False, False, False, False]])
    """

    def __init__(
        self,
        metric: AnyMetric,
        level: float | None = None,
        *,
        distance: float | None = None,
        sets: str | None = None,
        per_class: bool = False,
        names: Sequence[Any] | None = None,
    ) -> None:
        self.metric = as_ground_metric(metric)
        if level is not None and distance is not None:
            raise ValueError("level and distance must not both be given: choose one promise")
        self.level = None if distance is not None else _checked_level(level)
        self.distance = None if distance is None else _checked_distance(distance)
        self.per_class = check_flag("per_class", per_class)
        if self.per_class and self.level is None:
            raise ValueError("per_class must be False if distance is given, got True")
        if names is not None and len(names) != self.metric.size:
            raise ValueError(f"names must have {self.metric.size} entries, got {len(names)}")
        self._names = _names(self.metric) if names is None else list(names)
        self._family = family_of(self.metric, sets)

    @torch.no_grad()
    def fit(self, probabilities: Numbers, y: Any, *, groups: Any = None) -> Self:
        """Find the threshold that keeps the promise.

        Args:
            probabilities: `(rows, labels)` of rows that the model was not trained on.
            y: the true label of each row, `(rows,)`: class ids, or names of labels.
            groups: the group of each row, `(rows,)`, to keep the promise for each group.

        Raises:
            ValueError: if there are too few rows for the promise.
        """
        p = _inputs.read_simplex(probabilities, self.metric)
        names = self._names if all(isinstance(each, str) for each in self._names) else None
        truth = _inputs.read_truth(y, len(p), self.metric.size, names).to(p.device)
        before = mass_before(self._family, p)
        parts = _parts(groups, len(p))
        self._thresholds = {
            group: self._threshold(before[rows], truth[rows], _shown(group))
            for group, rows in parts.items()
        }
        self._by_group = groups is not None
        chosen = self._chosen(before, groups)
        self._report = self._judged(before, truth, chosen, parts)
        return self

    @torch.no_grad()
    def mask(self, probabilities: Numbers, *, groups: Any = None) -> Any:
        """A mask of the labels of each set, `(batch, labels)`; no set is empty."""
        probabilities = _inputs.in_label_order(probabilities, self.metric)
        p = _inputs.read_simplex(probabilities, self.metric)
        chosen = self._chosen(self._before(p), groups)
        return _inputs.given_back(chosen, probabilities, by_label=True)

    @torch.no_grad()
    def __call__(self, probabilities: Numbers, *, groups: Any = None) -> Any:
        """Readable sets, one per row: a list for tensors, otherwise an array or series of objects.

        A set is ``"3..5"`` on a line, a node's name on a tree with named nodes (``"any"`` for an
        unnamed root), and a list of names elsewhere.
        """
        p = _inputs.read_simplex(probabilities, self.metric)
        chosen = self._chosen(self._before(p), groups).cpu()
        words = [self._family.word(row.nonzero()[:, 0].tolist(), self._names) for row in chosen]
        return _inputs.words_given_back(words, probabilities)

    def report(self) -> str:
        """Describe the promise, the calibration rows, and the precision of the sets."""
        self._check_fitted()
        return str(self._report)

    def __repr__(self) -> str:
        promise = (
            f"level={self.level:g}" if self.level is not None else f"distance={self.distance:g}"
        )
        each = ", per_class=True" if self.per_class else ""
        rests = f" on {self._report.rows} rows" if hasattr(self, "_report") else ", not fitted"
        return f"Guarantee({self.metric!r}, {promise}, sets={self._family.name!r}{each}){rests}"

    def _before(self, p: Tensor) -> Tensor:
        self._check_fitted()
        return mass_before(self._family, p)

    def _check_fitted(self) -> None:
        if not hasattr(self, "_report"):
            raise ValueError(
                "Guarantee must be fitted first: call fit(probabilities, y) with rows that the "
                "model was not trained on"
            )

    def _threshold(self, before: Tensor, truth: Tensor, where: str) -> NDArray[np.float64]:
        """The threshold of each label, `(labels,)` or `(1,)`."""
        own = before.gather(1, truth[:, None])[:, 0].cpu().numpy()
        if self.level is None:
            return np.array([self._distance_threshold(before, truth, where)])
        if not self.per_class:
            self._check_rows(len(own), where)
            return np.array([coverage_threshold(own, self.level)])
        found = []
        for label in range(self.metric.size):
            rows = own[truth.cpu().numpy() == label]
            self._check_rows(len(rows), f" of class {self._names[label]!r}{where}")
            found.append(coverage_threshold(rows, self.level))
        return np.array(found)

    def _check_rows(self, rows: int, where: str) -> None:
        level = self.level or 0.0
        needed = rows_for_level(level)
        if rows < needed:
            most = f", or lower the level to at most {rows / (rows + 1):.3g}" if rows else ""
            raise ValueError(
                f"y must have at least {needed} rows{where} for level={level:g}, got {rows}; "
                f"calibrate on more rows{most}"
            )

    def _distance_threshold(self, before: Tensor, truth: Tensor, where: str) -> float:
        limit, distance = self.distance or 0.0, with_distance(self.metric)
        most = distance.max_cost()
        needed = max(1, int(np.ceil(most / limit - 1 - 1e-9)))
        if len(truth) < needed:
            raise ValueError(
                f"y must have at least {needed} rows{where} for distance={limit:g}, because the "
                f"largest distance is {most:g}, got {len(truth)}; calibrate on more rows, or "
                "promise a larger distance"
            )
        steps, falls, core = falling_distances(before, truth, distance)
        found = distance_threshold(steps, falls, core, limit, most)
        if np.isinf(found):
            raise ValueError(
                f"distance must be larger than the set of all labels achieves, got {limit:g}"
            )
        return found

    def _chosen(self, before: Tensor, groups: Any) -> Tensor:
        """A mask of the labels of each set, `(batch, labels)`."""
        if self._by_group != (groups is not None):
            wanted = "be given, as in fit" if self._by_group else "be None, as in fit"
            raise ValueError(f"groups must {wanted}")
        limit = before.new_zeros(before.shape)
        for group, rows in _parts(groups, len(before)).items():
            if group not in self._thresholds:
                known = list(self._thresholds)[:6]
                raise ValueError(f"groups must be among those of fit, {known}, got {group!r}")
            limit[rows] = torch.from_numpy(self._thresholds[group]).to(before)
        inside = before <= limit
        if not self.per_class:
            return inside
        # Thresholds per label may leave gaps: take the smallest set of the chain without gaps.
        reach = before.masked_fill(~inside, 0.0).amax(1, keepdim=True)
        return before <= reach

    def _judged(self, before: Tensor, truth: Tensor, chosen: Tensor, parts: Any) -> Report:
        """Evaluate the sets of the calibration rows."""
        right = chosen.gather(1, truth[:, None])[:, 0]
        own = before.gather(1, truth[:, None])[:, 0].cpu().numpy()
        sizes = chosen.sum(1).double()
        counts = [len(rows) for rows in parts.values()]
        if self.per_class:
            classes = (torch.bincount(truth[rows]) for rows in parts.values())
            counts = [int(each.min()) for each in classes]  # positive, as _check_rows ensured
        ties = 0
        if self.level is not None and not self.per_class:
            ties = max(
                int((own[rows] == self._thresholds[group][0]).sum())
                for group, rows in parts.items()
            )
        return Report(
            self.level,
            self.distance,
            "class" if self.per_class else "group" if self._by_group else None,
            rows=len(truth),
            fewest=min(counts),
            ties=ties,
            labels=self.metric.size,
            size=float(sizes.mean()),
            single=float((sizes == 1).double().mean()),
            everything=float((sizes == self.metric.size).double().mean()),
            right=float(right.double().mean()),
        )


def _checked_level(level: float | None) -> float:
    value = _LEVEL if level is None else check_number("level", level)
    if not 0 < value < 1:
        hint = f"; for {value:g} %, pass {value / 100:g}" if 1 < value < 100 else ""
        raise ValueError(f"level must be in (0, 1), got {value:g}{hint}")
    return value


def _checked_distance(distance: float) -> float:
    value = check_number("distance", distance)
    if not 0 < value < float("inf"):
        raise ValueError(f"distance must be positive and finite, got {value:g}")
    return value


def _names(metric: GroundMetric) -> list[Any]:
    if metric.labels is not None:
        return list(metric.labels)
    if isinstance(metric, Ordinal):
        return [f"{place:g}" for place in metric.positions.tolist()]
    return list(range(metric.size))


def _parts(groups: Any, rows: int) -> dict[Hashable, NDArray[np.int64]]:
    """The rows of each group; without groups, all rows under the key None."""
    if groups is None:
        return {None: np.arange(rows)}
    listed = np.asarray(groups)
    if listed.shape != (rows,):
        raise ValueError(f"groups must have shape ({rows},), got {listed.shape}")
    found, place = np.unique(listed, return_inverse=True)
    return {group: np.flatnonzero(place == i) for i, group in enumerate(found.tolist())}


def _shown(group: Hashable) -> str:
    return "" if group is None else f" of group {group!r}"
