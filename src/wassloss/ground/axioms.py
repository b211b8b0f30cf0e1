"""Check the axioms of a metric."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import torch

if TYPE_CHECKING:
    from wassloss.ground.base import GroundMetric

_AXIOM_LABELS = 256  # 256 ** 3 triples take a fraction of a second
_TOLERANCE = 8  # in rounding units of the largest distance


class AxiomReport(NamedTuple):
    """Whether a distance satisfies all metric axioms, up to rounding, and the details in words."""

    ok: bool
    text: str

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
    # Chosen labels against all, (count, K): a coinciding label may be outside the sample.
    coincide = (columns == 0) & (torch.arange(size, device=metric.device) != chosen[:, None])
    holds = {
        "symmetric": bool(((among - among.T).abs() <= tolerance).all()),
        "zero diagonal": bool((among.diagonal() == 0).all()),
        "distinct labels apart": not bool(coincide.any()),
        "triangle inequality": not worst_triple,
    }
    ok, part = all(holds.values()), "all" if count == size else f"{count} of"
    text = f"{'a' if ok else 'not a'} metric ({part} {size} labels checked)"
    for axiom, held in holds.items():
        text += f"\n  {axiom}: {'yes' if held else 'no'}"
    return AxiomReport(ok, text + worst_triple)
