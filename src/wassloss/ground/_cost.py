"""Convert distances to costs: the formula, checks of its parameters, and blocks that fit memory."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from numbers import Real
from typing import Literal, TypeAlias, TypedDict

import torch
from torch import Tensor

from wassloss import _memory
from wassloss._memory import pieces

Scale: TypeAlias = float | Literal["max", "median"] | None
CostsByTile: TypeAlias = tuple[
    Literal["line", "vectors", "places", "rows"], Callable[[Tensor], Tensor], Tensor | None
]


class MetricKeywords(TypedDict, total=False):
    """The keywords of every ground metric; see :class:`GroundMetric`."""

    power: float
    scale: Scale
    labels: Sequence[str] | None


def cost_of(distance: Tensor, power: float, scale: float) -> Tensor:
    r"""The cost of moving a unit of mass over ``distance``.

    .. math:: M = (d / \text{scale})^{\text{power}}, \qquad M = 0 \text{ where } d = 0

    The second equation makes ``power=0`` the 0-1 metric, and the gradient in ``d`` zero at
    ``d = 0``, where ``power < 1`` would make it infinite.

    >>> cost_of(torch.tensor([0.0, 1.0, 3.0]), power=2, scale=3)
    tensor([0.0000, 0.1111, 1.0000])
    >>> cost_of(torch.tensor([0.0, 1.0, 3.0]), power=0, scale=3)
    tensor([0., 1., 1.])
    """
    if power > 0 and not distance.requires_grad:
        ratio = distance / scale
        return ratio if power == 1 else ratio.pow_(power)
    apart = distance > 0
    # Two wheres: with the outer one alone, 0 would be multiplied by the infinite slope.
    ratio = torch.where(apart, distance / scale, 1.0)
    return torch.where(apart, torch.pow(ratio, power), 0.0)


def held_cost(distance: Tensor, power: float, scale: float) -> float:
    """The cost of one distance; raises a ValueError if it overflows, or underflows to 0."""
    d = finite_distance(distance)
    cost = float(cost_of(distance, power, scale))
    if not math.isfinite(cost):
        raise overflow(distance.dtype, power, scale, d)
    if cost == 0 < d:
        raise ValueError(
            f"metric must have costs above 0 in {distance.dtype}, but (d / scale) ** power is "
            f"rounded to 0 for d = {d:g}, power = {power:g}, scale = {scale:g}; pass "
            "scale='median', which makes the median cost 1, or a smaller power"
        )
    return cost


def overflow(
    dtype: torch.dtype, power: float, scale: float, distance: float | None = None
) -> ValueError:
    """The error for costs that are too large for a dtype."""
    at = "" if distance is None else f"d = {distance:g}, "
    return ValueError(
        f"metric must have finite costs in {dtype}, but (d / scale) ** power overflows for {at}"
        f"power = {power:g}, scale = {scale:g}; pass scale='max', which keeps costs in [0, 1], or "
        "a smaller power"
    )


def finite_distance(distance: Tensor) -> float:
    """One distance as a float; raises a ValueError if it overflowed."""
    d = float(distance)
    if not math.isfinite(d):
        raise ValueError(
            f"distances must be finite in {distance.dtype}, got {d}; scale down the data that the "
            "metric is built from, or pass them in float64"
        )
    return d


def check_scale(scale: Scale) -> float | Literal["max", "median"]:
    """Check a scale: a finite, positive number, or the word for one computed from distances."""
    if scale is None:
        return 1.0
    if scale == "max" or scale == "median":
        return scale
    is_number = isinstance(scale, Real) and not isinstance(scale, bool)
    if is_number and math.isfinite(scale) and scale > 0:
        return float(scale)
    error = ValueError if is_number or isinstance(scale, str) else TypeError
    raise error(f"scale must be None, a positive number, 'max' or 'median', got {scale!r}")


def fill_by_labels(
    found: Tensor, labels: Tensor, width: int, columns: Callable[[Tensor], Tensor]
) -> Tensor:
    """Fill ``found`` (n, K) block by block of ``labels`` (K, …), to bound temporary memory.

    ``columns`` returns the entries (n, block) of a block of labels, and uses ``width`` numbers per
    label.
    """
    first = 0
    for part in blocks(labels, 4 * width):
        found[:, first : first + len(part)] = columns(part)
        first += len(part)
    return found


def blocks(indices: Tensor, width: int) -> Iterator[Tensor]:
    """Split ``indices`` into pieces whose rows of ``width`` entries fit the memory budget."""
    for piece in pieces(len(indices), width, _memory.LARGEST_COLUMNS):
        yield indices[piece]
