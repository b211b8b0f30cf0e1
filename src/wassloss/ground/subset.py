"""A metric on a few of many labels, such as the numbers among the words of a language model."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, SupportsIndex

import numpy as np
import torch
from torch import Tensor

from wassloss._checks import check_count, check_number
from wassloss.files import pack_npz, unpack_npz
from wassloss.ground import storage
from wassloss.ground._cost import CostsByTile, MetricKeywords, cost_of
from wassloss.ground._inputs import Numbers, int_array, refuse
from wassloss.ground.base import GroundMetric

if TYPE_CHECKING:
    from typing_extensions import Self, Unpack


class Subset(GroundMetric):
    r"""Distances among a few of the labels; all other labels are equally far from every label.

    .. math:: d(i, j) = \begin{cases} d'(i', j') & \text{for labels } i, j \text{ of the subset,
        with indices } i', j' \text{ in it} \\ \text{far} & \text{for other } i \ne j \end{cases}

    Args:
        metric: the ground metric of the subset; its distances are used, but not its power and
            scale.
        indices: the labels of the subset, in the metric's order.
        size: the number of all labels, K.
        far: the distance of all other pairs; by default the largest in the subset. Below half of
            that, the triangle inequality fails.
        power, scale, labels: see :class:`GroundMetric`.

    >>> from wassloss.ground import Ordinal
    >>> digits = Subset(Ordinal(3), indices=[1, 2, 4], size=6)  # the words 1, 2 and 4 are digits
    >>> digits.distance_columns([1, 0])
    tensor([[2., 0., 1., 2., 2., 2.],
            [0., 2., 2., 2., 2., 2.]])
    """

    _FIELDS = ("metric", "indices", "size", "far")
    metric: GroundMetric
    """The ground metric of the subset."""
    indices: Tensor
    """The labels of the subset, shape (n,)."""
    far: float
    """The distance of all pairs that are not in the subset."""
    places: Tensor
    """Each label's index in the subset, n for labels outside of it; shape (K,)."""

    def __init__(
        self,
        metric: GroundMetric,
        indices: Numbers,
        size: SupportsIndex,
        far: float | None = None,
        **keywords: Unpack[MetricKeywords],
    ) -> None:
        if not isinstance(metric, GroundMetric) or metric.requires_grad or not metric.is_distance:
            raise ValueError(
                "metric must be a ground metric of distances that do not require grad, got "
                f"{metric!r}"
            )
        chosen, count = int_array("indices", indices), check_count("size", size)
        if len(chosen) != metric.size or len(np.unique(chosen)) != len(chosen):
            raise ValueError(
                f"indices must be {metric.size} different labels, as many as the metric has, got "
                f"{len(np.unique(chosen))} in {len(chosen)}"
            )
        refuse("indices", f"be in 0..{count - 1}", chosen, (chosen < 0) | (chosen >= count))
        self.far = check_number("far", float(metric._max_distance()) if far is None else far)
        if not 0 < self.far < math.inf:
            raise ValueError(f"far must be a positive number, got {self.far:g}")
        self.metric, self.indices = metric, torch.from_numpy(chosen).to(metric.device)
        self.places = torch.full((count,), len(chosen), device=metric.device)
        self.places[self.indices] = torch.arange(len(chosen), device=metric.device)
        super().__init__(count, like=metric._anchor, **keywords)

    def costs_by_place(self, indices: Tensor) -> Tensor:
        """Costs to chosen labels from each label of the subset and, last, from any other label.

        The shape is ``(len(indices), n + 1)``. Apart from the cost 0 of a label to itself,
        ``cost_columns(indices)`` is ``costs_by_place(indices)[:, places]``.
        """
        return cost_of(self._distances_by_place(indices), self.power, self.scale)

    def costs_by_tile(self) -> CostsByTile:
        return "places", self.costs_by_place, self.places

    def _distances_by_place(self, indices: Tensor) -> Tensor:
        place, count = self.places[indices], self.metric.size
        among = self.metric._distance_columns(place.clamp(max=count - 1))
        among = torch.where(place[:, None] < count, among, self.far)
        return torch.nn.functional.pad(among, (0, 1), value=self.far)  # (indices, n + 1)

    def _distance_columns(self, indices: Tensor) -> Tensor:
        own = indices[:, None] == torch.arange(self.size, device=self.device)
        return self._distances_by_place(indices)[:, self.places].masked_fill(own, 0.0)

    def _distances_between(self, first: Tensor, second: Tensor) -> Tensor:
        one, other, last = self.places[first], self.places[second], self.metric.size - 1
        among = self.metric._distances_between(one.clamp(max=last), other.clamp(max=last))
        found = torch.where(torch.maximum(one, other) <= last, among, self.far)
        return found.masked_fill(first == second, 0.0)

    def _max_distance(self) -> Tensor:
        among = self.metric._max_distance()
        return among if self.size == self.metric.size else among.clamp(min=self.far)

    def _fields(self) -> Mapping[str, Any]:
        packed = np.frombuffer(pack_npz(storage.to_arrays(self.metric)), np.uint8)
        return {**super()._fields(), "metric": packed}

    @classmethod
    def _from_fields(cls, fields: Mapping[str, Any], **common: Any) -> Self:
        metric = storage.from_arrays(unpack_npz(fields["metric"].tobytes()))
        return cls(**{**fields, "metric": metric}, **common)

    def _summary(self) -> str:
        return f"{self.metric!r} within {self.size}"
