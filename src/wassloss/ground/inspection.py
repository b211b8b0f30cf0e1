"""What a ground metric is like: whether it is a metric, and what to begin training with.

The reasons for the latter are in docs/defaults.md.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from wassloss._checks import check_count
from wassloss.ground._cost import blocks

if TYPE_CHECKING:
    from wassloss.ground.base import GroundMetric

_AXIOM_LABELS = 256  # 256 ** 3 triples take a fraction of a second
_TOLERANCE = 8  # in rounding units of the largest distance
_INSPECTED = 512  # labels that figures are taken from, if there are more
_CROWDED = 0.6  # nearest over median distance, above which neighbours hardly stand out


@dataclass(frozen=True)
class AxiomReport:
    """Which of the metric axioms a distance satisfies, up to rounding.

    Attributes:
        symmetric, zero_diagonal, triangle: the axioms.
        distinct: no two different labels are at distance 0.
        worst_violation: the largest ``d(i, j) - d(i, k) - d(k, j)``; 0 if the inequality holds.
        worst_triple: the ``(i, k, j)`` of that violation, from ``i`` by way of ``k`` to ``j``.
        checked: how many labels were checked, in every triple of them.
        size: how many labels there are.
    """

    symmetric: bool
    zero_diagonal: bool
    distinct: bool
    triangle: bool
    worst_violation: float
    worst_triple: tuple[str | int, ...] | None
    checked: int
    size: int

    @property
    def ok(self) -> bool:
        """Whether all four axioms hold."""
        return self.symmetric and self.zero_diagonal and self.distinct and self.triangle

    def __str__(self) -> str:
        part = "all" if self.checked == self.size else f"{self.checked} of"
        answers = {
            "symmetric": self.symmetric,
            "zero diagonal": self.zero_diagonal,
            "distinct labels apart": self.distinct,
            "triangle inequality": self.triangle,
        }
        lines = [f"{'a' if self.ok else 'not a'} metric ({part} {self.size} labels checked)"]
        lines += [f"  {axiom}: {'yes' if holds else 'no'}" for axiom, holds in answers.items()]
        if self.worst_triple is not None and not self.triangle:
            i, k, j = self.worst_triple
            excess = f"d({i}, {j}) exceeds d({i}, {k}) + d({k}, {j}) by {self.worst_violation:g}"
            lines[-1] += f", {excess}"
        return "\n".join(lines)


@torch.no_grad()
def axiom_report(metric: GroundMetric, samples: int | None = None) -> AxiomReport:
    """See :meth:`GroundMetric.check_axioms`."""
    size = metric.size
    count = min(size, _AXIOM_LABELS if samples is None else check_count("samples", samples))
    chosen = torch.arange(size)
    if count < size:
        generator = torch.Generator().manual_seed(0)
        chosen = torch.randperm(size, generator=generator)[:count].sort().values
    columns = torch.cat([metric.distance_columns(block) for block in blocks(chosen, size)])
    chosen = chosen.to(columns.device)
    among = columns[:, chosen].T.double().cpu().contiguous()  # (count, count), from row to column
    tolerance = _TOLERANCE * torch.finfo(metric.dtype).eps * float(among.abs().max())

    # (count, K): each chosen label against all, because a twin may lie outside the sample.
    coincide = (columns == 0) & (torch.arange(size, device=columns.device) != chosen[:, None])
    violation, triple = _worst_triangle(among)
    named = [metric._name(i) for i in chosen[triple].tolist()]
    return AxiomReport(
        symmetric=bool(((among - among.T).abs() <= tolerance).all()),
        zero_diagonal=bool((among.diagonal() == 0).all()),
        distinct=not bool(coincide.any()),
        triangle=violation <= tolerance,
        worst_violation=violation,
        worst_triple=tuple(named) if violation > 0 else None,
        checked=count,
        size=size,
    )


def _worst_triangle(distance: Tensor) -> tuple[float, list[int]]:
    """The largest ``d(i, j) - d(i, k) - d(k, j)``, at least 0, and its ``(i, k, j)``."""
    count = len(distance)
    worst, triple = 0.0, [0, 0, 0]
    for k in range(count):
        excess = distance - distance[:, k, None] - distance[k]  # (count, count)
        at = int(excess.argmax())
        value = float(excess.view(-1)[at])
        if value > worst:
            worst, triple = value, [at // count, k, at % count]
    return worst, triple


@dataclass(frozen=True)
class Inspection:
    """Figures of a metric.

    Attributes:
        distances: between different labels, of up to 512 columns.
        nearest: the distance of each of those labels to its nearest other.
        unit: the distance whose cost is 1 in losses.
        power_advice: which power to begin with, and why.
    """

    distances: NDArray[np.float64]
    nearest: NDArray[np.float64]
    unit: float
    power_advice: str

    def histogram(self, bins: int = 12) -> list[tuple[float, float, int]]:
        """From where to where, and how many distances are there; few are listed one by one."""
        lows, counts = np.unique(self.distances, return_counts=True)
        spans = [(value, value) for value in lows]
        if len(lows) > bins:
            counts, edges = np.histogram(self.distances, bins=bins)
            spans = list(pairwise(edges))
        return [
            (float(low), float(high), int(n)) for (low, high), n in zip(spans, counts, strict=True)
        ]


@torch.no_grad()
def inspect(metric: GroundMetric) -> Inspection:
    """Look at a metric of two labels or more.

    >>> from wassloss.ground import Ordinal
    >>> inspect(Ordinal(10)).unit
    3.0
    """
    size = metric.size
    if size < 2:
        raise ValueError(f"metric must have at least two labels, got {metric!r}")
    chosen = torch.arange(min(size, _INSPECTED)) * size // min(size, _INSPECTED)
    others = torch.arange(size) != chosen[:, None]  # (chosen, K)
    distance = metric.distance_columns(chosen).double().cpu()
    nearest = distance.masked_fill(~others, torch.inf).amin(1).numpy()
    apart = distance[others].numpy()
    return Inspection(apart, nearest, metric.in_medians().scale, _why_power_one(nearest, apart))


def _why_power_one(nearest: NDArray[np.float64], apart: NDArray[np.float64]) -> str:
    if apart.min() == apart.max():
        return "all labels are equally far apart, and no power changes that"
    median = float(np.median(apart))
    ratio = float(np.median(nearest)) / median if median else 0.0
    known = f"the nearest label is typically {100 * ratio:.0f} % as far as any other"
    if ratio < _CROWDED:
        return f"the safe choice: {known}, so neighbours already stand out"
    return (
        f"the safe choice. But {known}, so compare power 2 on a validation split: it makes "
        "neighbours stand out more; it did better on one data set and far worse on another"
    )
