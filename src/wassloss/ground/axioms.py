"""Whether a distance is a metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch

if TYPE_CHECKING:
    from wassloss.ground.base import GroundMetric

_AXIOM_LABELS = 256  # 256 ** 3 triples take a fraction of a second
_TOLERANCE = 8  # in rounding units of the largest distance


@dataclass(frozen=True)
class AxiomReport:
    """Which of the metric axioms a distance satisfies, up to rounding.

    Attributes:
        symmetric, zero_diagonal, triangle: the axioms.
        distinct: no two different labels are at distance 0.
        text: the same in words, with the labels that break the triangle inequality the most.
    """

    symmetric: bool
    zero_diagonal: bool
    distinct: bool
    triangle: bool
    text: str

    @property
    def ok(self) -> bool:
        """Whether all four axioms hold."""
        return self.symmetric and self.zero_diagonal and self.distinct and self.triangle

    def __str__(self) -> str:
        return self.text


@torch.no_grad()
def axiom_report(metric: GroundMetric) -> AxiomReport:
    """See :meth:`GroundMetric.check_axioms`."""
    size, count = metric.size, min(metric.size, _AXIOM_LABELS)
    order = torch.randperm(size, generator=torch.Generator().manual_seed(0))
    chosen = order[:count].sort().values.to(metric.device)
    columns = metric.distance_columns(chosen)
    among = columns[:, chosen].T.double().cpu().contiguous()  # (count, count), from row to column
    tolerance = _TOLERANCE * torch.finfo(metric.dtype).eps * float(among.abs().max())

    worst, worst_triple = tolerance, ""
    for k in range(count):
        excess = among - among[:, k, None] - among[k]  # d(i, j) − d(i, k) − d(k, j)
        if (value := float(excess.max())) > worst:
            i, j = divmod(int(excess.argmax()), count)
            a, b, c = (metric._name(int(chosen[at])) for at in (i, k, j))
            worst = value
            worst_triple = f", d({a}, {c}) exceeds d({a}, {b}) + d({b}, {c}) by {value:g}"
    # Each chosen label against all, (count, K), because a twin may lie outside the sample.
    coincide = (columns == 0) & (torch.arange(size, device=metric.device) != chosen[:, None])
    holds = {
        "symmetric": bool(((among - among.T).abs() <= tolerance).all()),
        "zero diagonal": bool((among.diagonal() == 0).all()),
        "distinct labels apart": not bool(coincide.any()),
        "triangle inequality": not worst_triple,
    }
    part = "all" if count == size else f"{count} of"
    text = f"{'a' if all(holds.values()) else 'not a'} metric ({part} {size} labels checked)"
    for axiom, held in holds.items():
        text += f"\n  {axiom}: {'yes' if held else 'no'}"
    symmetric, zero_diagonal, distinct, triangle = holds.values()
    return AxiomReport(symmetric, zero_diagonal, distinct, triangle, text + worst_triple)
