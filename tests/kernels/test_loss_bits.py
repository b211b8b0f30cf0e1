"""Losses have the same bits in every process and at every call."""

import os
import random
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

import wassloss as wl

pytest.importorskip("numba")

PROGRAM = """
import torch, wassloss as wl
torch.manual_seed(0)
metric = wl.ground.Embedding(torch.randn(300, 20), power=2, scale="median")
loss_fn = wl.WassersteinLoss(metric, epsilon=0.1, kl_weight=0.1)
logits, labels = torch.randn(16, 300, requires_grad=True), torch.rand(16, 300).topk(4).indices
target = wl.SparseTarget(labels, torch.full((16, 4), 0.25))
(loss_fn(logits, target) + loss_fn(logits, labels[:, 0].contiguous())).backward()
solution = wl.solve(logits.detach().softmax(1), target, metric, epsilon=0.1)
nearest = wl.solve(logits.detach().softmax(1), target, metric, epsilon=0.1, gamma=(1.0, 0.0))
wl.NearestWassersteinLoss(metric, epsilon=0.1)(logits, target).backward()
print(nearest.f.numpy().tobytes().hex())
print(logits.grad.numpy().tobytes().hex(), solution.f.numpy().tobytes().hex())
"""


@pytest.mark.slow
def test_compiled_here_or_found_on_disk(tmp_path: Path) -> None:
    environment = os.environ | {"NUMBA_CACHE_DIR": str(tmp_path)}
    outputs = [
        subprocess.run(
            [sys.executable, "-c", PROGRAM], env=environment, capture_output=True, check=True
        ).stdout
        for _ in range(2)
    ]
    assert list(tmp_path.rglob("*.nbi"))
    assert outputs[0] == outputs[1]


def test_the_same_call_has_the_same_bits_wherever_its_memory_is() -> None:
    rng = random.Random(0)
    loss_fn = wl.WassersteinLoss(wl.ground.Ordinal(50), reduction="none")
    x, ids = torch.randn(2000, 50), torch.randint(50, (2000,))
    held, found = [], set()
    for _ in range(100):  # arrays that come and go move the next ones
        held.append([np.empty(rng.choice([40, 50, 64, 2000]), np.float32) for _ in range(4)])
        if rng.random() < 0.5:
            held.pop(rng.randrange(len(held)))
        found.add(loss_fn(x, ids).numpy().tobytes())
    assert len(found) == 1
