"""Is a distance a metric? A check of the four axioms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import torch
from torch import Tensor

from wassloss._checks import check_count
from wassloss.ground._summaries import blocks

if TYPE_CHECKING:
    from wassloss.ground.base import GroundMetric

_LABELS = 256  # 256 ** 3 triples take a fraction of a second
_TOLERANCE = 8  # in rounding units of the largest distance


@dataclass(frozen=True)
class AxiomReport:
    """Which of the metric axioms a distance satisfies, up to rounding."""

    symmetric: bool
    zero_diagonal: bool
    distinct: bool
    """No two different labels are at distance 0."""
    triangle: bool
    worst_violation: float
    """The largest ``d(i, j) - d(i, k) - d(k, j)``; 0 where the inequality holds exactly."""
    worst_triple: tuple[str | int, str | int, str | int] | None
    """The ``(i, k, j)`` of that violation: from ``i`` by way of ``k`` to ``j``."""
    checked: int
    """How many labels were checked, in every triple of them."""
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


def axiom_report(metric: GroundMetric, samples: int | None = None) -> AxiomReport:
    """Check that the distance of ``metric`` is symmetric, zero exactly on the diagonal, triangular.

    It is the *distance* that is checked. The cost ``d ** power`` with ``power > 1`` need not be a
    metric (on a line, going half-way twice is cheaper than going at once), and transport does not
    need it to be one: any cost gives a loss, a metric to the power 1 gives a loss that is itself
    a metric.

    Args:
        metric: the ground metric.
        samples: how many labels to draw (always the same ones) and to check in every triple. By
            default all labels, or 256 of them where there are more.
    """
    size = metric.size
    count = min(size, _LABELS if samples is None else check_count("samples", samples))
    chosen = torch.arange(size)
    if count < size:
        generator = torch.Generator().manual_seed(0)
        chosen = torch.randperm(size, generator=generator)[:count].sort().values
    with torch.no_grad():
        columns = torch.cat([metric.distance_columns(block) for block in blocks(chosen, size)])
    chosen = chosen.to(columns.device)
    among = columns[:, chosen].T.double().cpu().contiguous()  # (count, count), from row to column
    tolerance = _TOLERANCE * torch.finfo(metric.dtype).eps * float(among.abs().max())

    # (count, K): each chosen label against all, for a twin may lie outside the sample.
    coincide = (columns == 0) & (torch.arange(size, device=columns.device) != chosen[:, None])
    violation, triple = _worst_triangle(among)
    return AxiomReport(
        symmetric=bool(((among - among.T).abs() <= tolerance).all()),
        zero_diagonal=bool((among.diagonal() == 0).all()),
        distinct=not bool(coincide.any()),
        triangle=violation <= tolerance,
        worst_violation=violation,
        worst_triple=_names(metric, chosen[list(triple)]) if violation > 0 else None,
        checked=count,
        size=size,
    )


def _worst_triangle(distance: Tensor) -> tuple[float, tuple[int, int, int]]:
    """The largest ``d(i, j) - d(i, k) - d(k, j)``, at least 0, and its ``(i, k, j)``."""
    count = distance.shape[0]
    worst, triple = 0.0, (0, 0, 0)
    for k in range(count):
        excess = distance - distance[:, k, None] - distance[None, k, :]  # (count, count)
        at = int(excess.argmax())
        value = float(excess.view(-1)[at])
        if value > worst:
            worst, triple = value, (at // count, k, at % count)
    return worst, triple


def _names(metric: GroundMetric, triple: Tensor) -> tuple[str | int, str | int, str | int]:
    i, k, j = (t if metric.labels is None else metric.labels[t] for t in triple.tolist())
    return i, k, j
