"""Labels that are cells of a regular grid: pixels, bins, voxels."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from functools import reduce
from numbers import Real
from typing import TYPE_CHECKING, Literal

import numpy as np
import torch
from torch import Tensor

from wassloss._checks import at_least_single, check_choice, check_count
from wassloss.ground._cost import MetricKeywords, cost_of
from wassloss.ground._inputs import Numbers, float_tensor
from wassloss.ground.base import GroundMetric

if TYPE_CHECKING:
    from typing_extensions import Unpack


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
        spacing: the width of a cell, one number or one per axis.
        power, scale, labels: see :class:`GroundMetric`.

    >>> Grid((2, 3)).distance_columns(0).reshape(2, 3)
    tensor([[0.0000, 1.0000, 2.0000],
            [1.0000, 1.4142, 2.2361]])
    """

    _FIELDS = ("shape", "norm", "spacing")
    shape: tuple[int, ...]
    """The number of cells along each axis."""
    norm: str
    """``"euclidean"`` or ``"manhattan"``."""
    spacing: Tensor
    """The width of a cell along each axis, shape (axes,)."""

    def __init__(
        self,
        shape: Sequence[int],
        norm: Literal["euclidean", "manhattan"] = "euclidean",
        spacing: float | Numbers = 1.0,
        **keywords: Unpack[MetricKeywords],
    ) -> None:
        if np.ndim(shape) == 0:
            raise TypeError(f"shape must be a sequence of integers such as ({shape},), got {shape}")
        self.shape = tuple(check_count(f"shape[{a}]", cells) for a, cells in enumerate(shape))
        if not self.shape:
            raise ValueError("shape must have at least one axis, got ()")
        check_choice("norm", norm, ("euclidean", "manhattan"))
        self.norm = norm
        axes, given = len(self.shape), [spacing] if isinstance(spacing, Real | float) else spacing
        widths = float_tensor("spacing", given, shape="(axes)")
        if not (widths > 0).all():
            raise ValueError(f"spacing must be positive, got {widths.tolist()}")
        if len(widths) not in (1, axes):
            raise ValueError(f"spacing must be one number or {axes}, got {len(widths)}")
        self.spacing = widths.expand(axes).contiguous()
        super().__init__(math.prod(self.shape), like=self.spacing, **keywords)

    def axis_costs(self) -> tuple[Tensor, ...] | None:
        """Costs along each axis, for the square of the Euclidean and for the Manhattan distance.

        >>> [costs.tolist() for costs in Grid((2, 3), power=2).axis_costs()]
        [[[0.0, 1.0], [1.0, 0.0]], [[0.0, 1.0, 4.0], [1.0, 0.0, 1.0], [4.0, 1.0, 0.0]]]
        >>> Grid((2, 3)).axis_costs() is None
        True
        """
        if self.power != {"euclidean": 2, "manhattan": 1}[self.norm]:
            return None
        steps = [(i.unsqueeze(1) - i).abs() for i in map(torch.arange, self.shape)]
        return tuple(
            cost_of(apart.to(width) * width, self.power, self.scale)
            for apart, width in zip(steps, self.spacing, strict=True)
        )

    def _distance_columns(self, indices: Tensor) -> Tensor:
        axes = len(self.shape)
        steps = []
        for axis, (own, cells) in enumerate(zip(self._cells(indices), self.shape, strict=True)):
            apart = (own[:, None] - torch.arange(cells, device=self.device)).abs()  # (n, cells)
            # Broadcasting the axes' steps against each other gives row-major order.
            steps.append(apart.reshape(-1, *(1,) * axis, cells, *(1,) * (axes - axis - 1)))
        return self._length(steps).reshape(-1, self.size)  # (n, K)

    def _distances_between(self, first: Tensor, second: Tensor) -> Tensor:
        pairs = zip(self._cells(first), self._cells(second), strict=True)
        return self._length((one - other).abs() for one, other in pairs)

    def _cells(self, indices: Tensor) -> list[Tensor]:
        """The index of the cell along each axis."""
        strides = [math.prod(self.shape[axis + 1 :]) for axis in range(len(self.shape))]
        return [
            indices // stride % cells for stride, cells in zip(strides, self.shape, strict=True)
        ]

    def _length(self, steps: Iterable[Tensor]) -> Tensor:
        """The norm of steps along each axis, in cells, which broadcast."""
        # Half precision cannot hold a squared index, so the sum is in float32 at least.
        wide = at_least_single(self.spacing)
        parts = [step * width for step, width in zip(steps, wide, strict=True)]
        if self.norm == "euclidean":
            parts = [part.square() for part in parts]
        total: Tensor = reduce(torch.add, parts)
        return (total.sqrt() if self.norm == "euclidean" else total).to(self.dtype)

    def _max_distance(self) -> Tensor:
        # From one corner to the opposite one.
        return self._distance_columns(torch.zeros(1, dtype=torch.long, device=self.device))[0, -1]

    def _summary(self) -> str:
        return str(self.shape) + ("" if self.norm == "euclidean" else f", norm={self.norm!r}")
