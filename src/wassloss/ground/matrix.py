"""Labels with distances given outright."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wassloss.ground._cost import Scale
from wassloss.ground._inputs import Numbers, first_index, float_tensor
from wassloss.ground.base import GroundMetric

_ASYMMETRY = 32  # forgiven, in rounding units of the largest distance, up to a hundredth of it


class Matrix(GroundMetric):
    r"""An explicit matrix of distances.

    .. math:: d(i, j) = D_{ij}

    The triangle inequality is not required: any symmetric dissimilarity will do.

    To learn the distances, pass a tensor that requires grad; it is then used as it stands, and
    keeping it symmetric is up to its owner. Otherwise a copy is kept, with rounding differences
    between ``D[i, j]`` and ``D[j, i]`` averaged away.

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
        _check(given.detach())
        self._distance = given if given.requires_grad else given / 2 + given.T / 2
        super().__init__(len(given), like=given, power=power, scale=scale, labels=labels)

    def distance(self) -> Tensor:
        """All distances, shape (K, K)."""
        return self._distance

    def _distance_columns(self, indices: Tensor) -> Tensor:
        return self._distance[indices]  # rows are columns, by symmetry, and contiguous

    def _distances_between(self, first: Tensor, second: Tensor) -> Tensor:
        return self._distance[second, first]

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


def _check(distance: Tensor) -> None:
    rows, columns = distance.shape
    if rows != columns:
        raise ValueError(f"distance must be square, got shape ({rows}, {columns})")
    tolerance = min(_ASYMMETRY * torch.finfo(distance.dtype).eps, 0.01) * distance.abs().max()
    _refuse("not be negative", distance, distance < 0)
    _refuse("be 0 on the diagonal", distance, torch.diag(distance.diagonal() != 0))
    _refuse("be symmetric", distance, (distance - distance.T).abs() > tolerance)


def _refuse(expected: str, distance: Tensor, wrong: Tensor) -> None:
    if wrong.any():
        i, j = first_index(wrong)
        got = f"distance[{i}, {j}] = {float(distance[i, j]):g}"
        if expected == "be symmetric":
            got += f" and distance[{j}, {i}] = {float(distance[j, i]):g}"
        raise ValueError(f"distance must {expected}, got {got}")
