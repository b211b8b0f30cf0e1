"""Labels with distances given outright."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from wassloss.ground._arrays import Numbers, float_tensor, holds_integers
from wassloss.ground._cost import Scale
from wassloss.ground._rounding import check_distances, cleaned
from wassloss.ground.base import GroundMetric


class Matrix(GroundMetric):
    r"""An explicit matrix of distances.

    .. math:: d(i, j) = D_{ij}

    The triangle inequality is not required: any symmetric dissimilarity will do. For costs that are
    not symmetric, or not 0 on the diagonal, see :class:`Cost`.

    Rounding, such as that of ``torch.cdist``, is cleaned: entries ``D[i, j]`` and ``D[j, i]`` are
    averaged, the diagonal is set to 0, and so are entries below 0, all where they are within
    rounding of it (√eps of the largest distance, and as much in its square). Integers have none.

    To learn the distances, pass a tensor that requires grad; it is then used as it stands, and
    keeping it symmetric is up to its owner.

    Args:
        distance: finite, not negative, symmetric, with a zero diagonal, shape (K, K).
        power, scale, labels: see :class:`GroundMetric`.

    >>> Matrix([[0, 1, 4], [1, 0, 2], [4, 2, 0]], power=0.5).cost_columns(0)
    tensor([0., 1., 2.])
    """

    _FIELDS = ("distance",)

    def __init__(
        self,
        distance: Numbers,
        *,
        power: float = 1.0,
        scale: Scale = None,
        labels: Sequence[str] | None = None,
    ) -> None:
        given = float_tensor("distance", distance, shape="(labels, labels)", differentiable=True)
        rows, columns = given.shape
        if rows != columns:
            raise ValueError(f"distance must be square, got shape ({rows}, {columns})")
        check_distances("distance", given.detach(), holds_integers(distance))
        self._distance = given if given.requires_grad else cleaned(given)
        super().__init__(len(given), like=given, power=power, scale=scale, labels=labels)

    def distance(self) -> Tensor:
        """All distances, shape (K, K)."""
        # A parameter may leave the range: it is then at its end.
        return self._distance.clamp(min=0) if self._distance.requires_grad else self._distance

    def _distance_columns(self, indices: Tensor) -> Tensor:
        if self._distance.requires_grad:  # its owner may leave it asymmetric for a while
            return self.distance()[:, indices].T
        return self._distance[indices]  # rows are columns, by symmetry, and contiguous

    def _distances_between(self, first: Tensor, second: Tensor) -> Tensor:
        return self.distance()[first, second]

    def _max_distance(self) -> Tensor:
        return self._distance.detach().max()

    def _fields(self) -> Mapping[str, Tensor | NDArray[Any]]:
        return {"distance": self._distance}


def as_ground_metric(metric: GroundMetric | Tensor | NDArray[Any]) -> GroundMetric:
    """A ground metric as it is, or a square matrix of distances as a :class:`Matrix`.

    >>> as_ground_metric(np.array([[0.0, 2.0], [2.0, 0.0]]))
    Matrix(2)
    """
    if isinstance(metric, GroundMetric):
        return metric
    if isinstance(metric, Tensor | np.ndarray):
        return Matrix(metric)
    raise TypeError(
        "metric must be a GroundMetric, or a tensor or array of distances of shape "
        f"(labels, labels), got {type(metric).__name__}"
    )
