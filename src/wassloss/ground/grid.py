"""Labels that are cells of a regular grid: pixels, bins, voxels."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any, Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wassloss._checks import check_count
from wassloss.ground._arrays import Numbers, float_tensor, int_array
from wassloss.ground._cost import Scale, cost_of
from wassloss.ground.base import GroundMetric

if TYPE_CHECKING:
    from typing_extensions import Self


class Grid(GroundMetric):
    r"""Cells of an n-dimensional grid, numbered in row-major (C) order.

    .. math:: d(i, j) = \left( \sum_a \left( s_a |i_a - j_a| \right)^q \right)^{1/q},
        \qquad q = 2 \text{ or } 1

    with cell indices :math:`i_a` along axis a, spacing :math:`s_a`, and q = 2 for the Euclidean,
    1 for the Manhattan norm.

    Args:
        shape: cells along each axis; an image of H rows and W columns is ``(H, W)``, and its labels
            are the pixels as ``image.reshape(-1)`` lists them.
        norm: ``"euclidean"`` or ``"manhattan"``.
        spacing: the width of a cell, one number or one for each axis.
        power, scale, labels: see :class:`GroundMetric`.

    >>> Grid((2, 3)).distance_columns(0).reshape(2, 3)
    tensor([[0.0000, 1.0000, 2.0000],
            [1.0000, 1.4142, 2.2361]])
    """

    _FIELDS = ("shape", "norm", "spacing")

    def __init__(
        self,
        shape: Sequence[int],
        norm: Literal["euclidean", "manhattan"] = "euclidean",
        spacing: float | Numbers = 1.0,
        *,
        power: float = 1.0,
        scale: Scale = None,
        labels: Sequence[str] | None = None,
    ) -> None:
        if isinstance(shape, int):
            raise TypeError(f"shape must be a sequence of integers such as ({shape},), got {shape}")
        self._shape = tuple(
            check_count(f"shape[{axis}]", cells) for axis, cells in enumerate(shape)
        )
        if not self._shape:
            raise ValueError("shape must have at least one axis, got ()")
        if norm not in ("euclidean", "manhattan"):
            raise ValueError(f"norm must be 'euclidean' or 'manhattan', got {norm!r}")
        self._norm = norm
        self._spacing = _spacing(spacing, axes=len(self._shape))
        super().__init__(
            math.prod(self._shape), like=self._spacing, power=power, scale=scale, labels=labels
        )

    @property
    def shape(self) -> tuple[int, ...]:
        """The number of cells along each axis."""
        return self._shape

    @property
    def norm(self) -> str:
        """``"euclidean"`` or ``"manhattan"``."""
        return self._norm

    @property
    def spacing(self) -> Tensor:
        """The width of a cell along each axis, shape (axes,)."""
        return self._spacing

    def axis_costs(self) -> tuple[Tensor, ...] | None:
        """Costs along each axis, for the square of the Euclidean and for the Manhattan distance.

        >>> [costs.tolist() for costs in Grid((2, 3), power=2).axis_costs()]
        [[[0.0, 1.0], [1.0, 0.0]], [[0.0, 1.0, 4.0], [1.0, 0.0, 1.0], [4.0, 1.0, 0.0]]]
        >>> Grid((2, 3)).axis_costs() is None
        True
        """
        if self._power != {"euclidean": 2, "manhattan": 1}[self._norm]:
            return None
        lines = zip(self._shape, self._spacing, strict=True)
        return tuple(
            cost_of(_steps(cells).to(width) * width, self._power, self._scale)
            for cells, width in lines
        )

    def _distance_columns(self, indices: Tensor) -> Tensor:
        axes = len(self._shape)
        # Half precision cannot hold a squared index; the sum is taken in float32 at least.
        wide = torch.promote_types(self.dtype, torch.float32)
        spacing = self._spacing.to(wide)
        total = torch.zeros((), dtype=wide, device=self.device)
        stride = self.size
        for axis, cells in enumerate(self._shape):
            stride //= cells
            own = indices // stride % cells  # (n,)
            steps = (own[:, None] - torch.arange(cells, device=self.device)).abs()  # (n, cells)
            part = steps * spacing[axis]
            if self._norm == "euclidean":
                part = part.square()
            # Broadcasting the axes' parts against each other is the row-major order.
            total = total + part.reshape(-1, *(1,) * axis, cells, *(1,) * (axes - axis - 1))
        if self._norm == "euclidean":
            total = total.sqrt()
        return total.reshape(-1, self.size).to(self.dtype)  # (n, K)

    def _distances_between(self, first: Tensor, second: Tensor) -> Tensor:
        wide = torch.promote_types(self.dtype, torch.float32)
        spacing = self._spacing.to(wide)
        total = torch.zeros(len(first), dtype=wide, device=self.device)
        stride = self.size
        for axis, cells in enumerate(self._shape):
            stride //= cells
            steps = (first // stride % cells - second // stride % cells).abs()
            part = steps * spacing[axis]
            total = total + (part.square() if self._norm == "euclidean" else part)
        return (total.sqrt() if self._norm == "euclidean" else total).to(self.dtype)

    def _max_distance(self) -> Tensor:
        # From one corner to the opposite one.
        return self._distance_columns(torch.zeros(1, dtype=torch.long, device=self.device))[0, -1]

    def _fields(self) -> Mapping[str, Tensor | NDArray[Any]]:
        return {
            "shape": np.array(self._shape),
            "norm": np.array(self._norm),
            "spacing": self._spacing,
        }

    @classmethod
    def _from_fields(cls, fields: Mapping[str, Any], **common: Any) -> Self:
        shape = int_array("shape", fields["shape"]).tolist()
        return cls(shape, norm=fields["norm"].item(), spacing=fields["spacing"], **common)

    def _summary(self) -> str:
        return str(self._shape) + ("" if self._norm == "euclidean" else f", norm={self._norm!r}")


def _steps(cells: int) -> Tensor:
    """How many cells apart the cells of an axis are, `(cells, cells)`."""
    positions = torch.arange(cells)
    return (positions.unsqueeze(1) - positions).abs()


def _spacing(spacing: float | Numbers, axes: int) -> Tensor:
    one = [spacing] if isinstance(spacing, Real | float) else spacing
    widths = float_tensor("spacing", one, shape="(axes)")
    if not (widths > 0).all():
        raise ValueError(f"spacing must be positive, got {widths.tolist()}")
    if len(widths) not in (1, axes):
        raise ValueError(f"spacing must be one number or {axes}, got {len(widths)}")
    return widths.expand(axes).contiguous()
