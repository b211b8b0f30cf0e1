"""Limit the number of files that a call of a loss passes through, each of which readers open."""

from __future__ import annotations

import pytest
import torch

import wassloss as wl
from tests.evaluators import needs_native
from tests.paths import visited

K, BATCH = 10, 32
TARGETS = {
    "class ids": torch.arange(BATCH) % K,
    "sparse": wl.SparseTarget(
        torch.stack([torch.arange(BATCH) % K, torch.arange(1, BATCH + 1) % K], 1),
        torch.full((BATCH, 2), 0.5),
    ),
    "dense": torch.full((BATCH, K), 1 / K),
}


@needs_native
@pytest.mark.parametrize("kind", TARGETS)
def test_a_batch_passes_few_files(kind: str) -> None:
    loss_fn = wl.WassersteinLoss(wl.ground.Ordinal(K))
    logits = torch.randn(BATCH, K, requires_grad=True)
    loss_fn(logits, TARGETS[kind])  # chooses its evaluators
    path = visited(lambda: loss_fn(logits, TARGETS[kind]))
    assert len(set(path)) <= 12, sorted(set(path))
    assert len(path) <= 30, path
    assert not any(name.startswith("transport") for name in path)  # solvers are already chosen
