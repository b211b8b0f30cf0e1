"""Whether a distance is a metric."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from wassloss._checks import check_count
from wassloss.ground._cost import blocks

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
