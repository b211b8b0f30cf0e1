"""Costs given outright, which need not be distances."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from numpy.typing import NDArray
from torch import Tensor

from wassloss.ground._arrays import Numbers, float_tensor, holds_integers
from wassloss.ground._cost import Scale
from wassloss.ground._rounding import check_not_negative
from wassloss.ground.base import GroundMetric


class Cost(GroundMetric):
    r"""An explicit matrix of costs: of any kind, as long as none is negative.

    .. math:: d(i, j) = C_{ij}, \qquad M_{ij} = (C_{ij} / \text{scale})^{\text{power}}

    :math:`C_{ij}` is the cost of predicting label i when the truth is label j: what a unit of mass
    pays to move from i in the prediction to j in the target. It may differ from :math:`C_{ji}` (to
    miss a disease is worse than to suspect one), and being right may cost something too,
    :math:`C_{ii} > 0`. What other metrics call a distance is :math:`C_{ij}` here.

    Everything that does not need a distance works: losses, solvers, scores, decisions, estimators.
    The debiased divergence does, and is refused; so use :class:`Matrix` where costs are symmetric
    and 0 on the diagonal.

    To learn the costs, pass a tensor that requires grad, which is then used as it stands; entries
    that training takes below 0 count as 0. Otherwise a copy is kept, without negative entries that
    are rounding.

    Args:
        cost: finite, not negative, shape (K, K).
        power, scale, labels: see :class:`GroundMetric`. The median of ``scale="median"`` is over
            two different labels.

    >>> illness = Cost([[0, 100], [1, 0]], labels=["healthy", "ill"])
    >>> illness.cost_columns(illness.index("ill"))  # to be told healthy, to be told ill
    tensor([100.,   0.])
    """

    _FIELDS = ("cost",)
    is_distance = False

    def __init__(
        self,
        cost: Numbers,
        *,
        power: float = 1.0,
        scale: Scale = None,
        labels: Sequence[str] | None = None,
    ) -> None:
        given = float_tensor("cost", cost, shape="(labels, labels)", differentiable=True)
        rows, columns = given.shape
        if rows != columns:
            raise ValueError(f"cost must be square, got shape ({rows}, {columns})")
        check_not_negative("cost", given.detach(), holds_integers(cost))
        self._cost = given if given.requires_grad else given.clamp(min=0)
        super().__init__(len(given), like=given, power=power, scale=scale, labels=labels)

    def distance(self) -> Tensor:
        """The matrix itself, before power and scale, shape (K, K)."""
        return self._cost.clamp(min=0) if self._cost.requires_grad else self._cost

    def _distance_columns(self, indices: Tensor) -> Tensor:
        return self.distance()[:, indices].T.contiguous()

    def _distance_rows(self, indices: Tensor) -> Tensor:
        return self.distance()[indices]

    def _distances_between(self, first: Tensor, second: Tensor) -> Tensor:
        return self.distance()[first, second]

    def _max_distance(self) -> Tensor:
        return self.distance().detach().max()

    def _fields(self) -> Mapping[str, Tensor | NDArray[Any]]:
        return {"cost": self.distance()}
