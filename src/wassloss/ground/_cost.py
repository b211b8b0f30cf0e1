"""From distance to cost: the rule, and its two parameters."""

from __future__ import annotations

import math
from numbers import Real
from typing import Literal, TypeAlias

import torch
from torch import Tensor

Scale: TypeAlias = float | Literal["max", "median"] | None


def cost_of(distance: Tensor, power: float, scale: float) -> Tensor:
    r"""The cost of moving a unit of mass over ``distance``.

    .. math:: M = (d / \text{scale})^{\text{power}}, \qquad M = 0 \text{ where } d = 0

    The second half matters at ``power=0``, which is then the 0-1 metric, and for the gradient in
    ``d``, which is 0 at ``d = 0`` where ``power < 1`` would make it infinite.

    >>> cost_of(torch.tensor([0.0, 1.0, 3.0]), power=2, scale=3)
    tensor([0.0000, 0.1111, 1.0000])
    >>> cost_of(torch.tensor([0.0, 1.0, 3.0]), power=0, scale=3)
    tensor([0., 1., 1.])
    """
    if power > 0 and not distance.requires_grad:
        return torch.pow(distance / scale, power)
    apart = distance > 0
    # where twice: a single one outside would still multiply 0 by the infinite slope inside.
    ratio = torch.where(apart, distance / scale, 1.0)
    return torch.where(apart, torch.pow(ratio, power), 0.0)


def held_cost(distance: Tensor, power: float, scale: float) -> float:
    """The cost of one distance, for numbers that are derived from it.

    Raises:
        ValueError: it overflows, or vanishes although the distance does not.
    """
    d = float(distance)
    if not math.isfinite(d):
        raise infinite_distance(distance.dtype, d)
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
    of = "" if distance is None else f"d = {distance:g}, "
    return ValueError(
        f"metric must have finite costs in {dtype}, but (d / scale) ** power overflows for {of}"
        f"power = {power:g}, scale = {scale:g}; pass scale='max', which keeps costs in [0, 1], or "
        "a smaller power"
    )


def infinite_distance(dtype: torch.dtype, got: float) -> ValueError:
    """The error for distances that are too large for a dtype."""
    return ValueError(
        f"distances must be finite in {dtype}, got {got}; divide what the metric is built from, or "
        "pass it in float64"
    )


def check_power(power: float) -> float:
    """A finite, non-negative power."""
    if isinstance(power, bool) or not isinstance(power, Real):
        raise TypeError(f"power must be a number, got {power!r}")
    if not math.isfinite(power) or power < 0:
        raise ValueError(f"power must be finite and at least 0, got {power}")
    return float(power)


def check_scale(scale: Scale) -> float | Literal["max", "median"]:
    """A finite, positive scale, or one of the words for a scale that the distances give."""
    if scale is None:
        return 1.0
    if scale == "max" or scale == "median":
        return scale
    expected = "scale must be None, a positive number, 'max' or 'median'"
    if isinstance(scale, str):
        raise ValueError(f"{expected}, got {scale!r}")
    if isinstance(scale, bool) or not isinstance(scale, Real):
        raise TypeError(f"{expected}, got {scale!r}")
    if not math.isfinite(scale) or scale <= 0:
        raise ValueError(f"{expected}, got {scale}")
    return float(scale)
