"""The process that compiles the kernels gets the same bits as those that find them on disk."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

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
